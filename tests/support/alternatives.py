"""The alternatives that reports suggest, and the arms of real runs that try them.

An arm *tries* an alternative of a subject if it runs beside the subject, under the same fault, with the settings that
the subject would have after the change. Settings on which no promise depends may differ (see `same_settings`). All
alternatives that make the same change are one *family*. All applications are one family, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace as with_fields

from delivery_verifier.advice.commands import same_settings
from delivery_verifier.catalogue import APPLICATIONS, ENTRIES, PROFILES, build
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import AT_ONCE, SETTLED, TOOK_EFFECT, scripted, step
from delivery_verifier.contract.alternatives import ALTERNATIVES
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.guarantees import FAULT_CLASSES, UNCLASSED
from delivery_verifier.contract.remedies import remedies
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.contract.strength import WITHOUT_EFFECT
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm, Bound, Claim, Expectation, Scenario
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.run_directory.run_directory import RunDirectory
from support.stored_runs import arm as arm_of

Changes = Mapping[str, Mapping[str, Any]]
AN_APPLICATION = "an application"
"""The family of all alternatives that name another application."""
_NAMES_AN_APPLICATION = "the application "
_BLOCK = 20


class Trial(NamedTuple):
    """An arm that tries an alternative. `subject`: the arm to which the alternative is suggested. `change`: the text of
    the alternative. `arm`: the arm that tries it. `claim`: the subject's claim, which `arm` must keep."""

    subject: str
    change: str
    arm: str
    claim: Claim

    @property
    def family(self) -> str:
        return family(self.change)


def family(change: str) -> str:
    """Returns the family of the alternative that makes `change`."""
    return AN_APPLICATION if change.startswith(_NAMES_AN_APPLICATION) else change


def forbidden(claim: Claim) -> set[Anomaly]:
    """Returns what the claim forbids, but for RESENT, which no setting prevents."""
    return {anomaly for anomaly in CLAIMS[claim].forbids if anomaly is not Anomaly.RESENT}


def applications(settings: Settings) -> Changes:
    """Returns every application of the catalogue as a change of `settings`. Returns none if there is no application."""
    others = {name: settings.consumed_by(application) for name, application in APPLICATIONS.items()}
    return {
        f"{_NAMES_AN_APPLICATION}{name}": _differences(settings, other)
        for name, other in others.items()
        if settings.discipline is not None and other != settings
    }


def _differences(settings: Settings, other: Settings) -> dict[str, Any]:
    names = [field.name for field in fields(Settings)]
    return {name: getattr(other, name) for name in names if getattr(other, name) != getattr(settings, name)}


def changed(settings: Settings, change: str) -> Settings:
    """Returns `settings` after the alternative with the text `change`. Raises KeyError for a pair of changes."""
    return replace(settings, **{**ALTERNATIVES, **applications(settings)}[change])


@cache
def suggested() -> frozenset[str]:
    """Returns every single change that a report can suggest to an arm of the catalogue, under any class of faults."""
    kinds = [kind for kind in UNCLASSED if kind != "topic_altered"]
    histories = [faults.disturbances for faults in FAULT_CLASSES]
    histories += [[Disturbance(kind=kind, at_us=0, planned=True)] for kind in kinds]
    return frozenset(
        remedy.changes[0]
        for settings in _every_settings()
        for history in histories
        for claim in CLAIMS
        if _breaks(settings, claim, history)
        for remedy in remedies(settings, forbidden(claim), [history], applications(settings))
        if len(remedy.changes) == 1
    )


def _every_settings() -> set[Settings]:
    """Returns the settings of every arm of the catalogue's scenarios, all with the same timeouts."""
    scenarios = [build(entry, "a-run") for entry in ENTRIES.values()]
    plain = dict.fromkeys(WITHOUT_EFFECT, 1)
    return {replace(Settings.of_arm(scenario, arm), **plain) for scenario in scenarios for arm in scenario.loaded}


def _breaks(settings: Settings, claim: Claim, history: list[Disturbance]) -> bool:
    rulings = contract(settings, history)
    return any(rulings[anomaly].ruling == "PERMITTED" for anomaly in forbidden(claim))


def trials(scenario: Scenario) -> list[Trial]:
    """Returns the trials of every subject that is expected to be VIOLATED, by the forecast of the fault plan."""
    return [
        Trial(subject.name, remedy.changes[0], arm.name, subject.claim)
        for subject in scenario.subjects
        if subject.expectation.verdicts == ("VIOLATED",)
        for remedy in remedies(
            Settings.of_arm(scenario, subject),
            forbidden(subject.claim),
            [expected_disturbances(scenario.fault, subject)],
            applications(Settings.of_arm(scenario, subject)),
        )
        if len(remedy.changes) == 1
        for arm in _tried_by(scenario, subject, remedy.settings)
    ]


def _tried_by(scenario: Scenario, subject: Arm, settings: Settings) -> Iterator[Arm]:
    """Yields the other arms of `scenario` that have `settings`, but for those that must break another claim."""
    for arm in scenario.loaded:
        may_hold = arm is not subject and "HELD" in arm.expectation.verdicts
        if may_hold and same_settings(Settings.of_arm(scenario, arm), settings):
            yield arm


def trials_of_run(run: RunDirectory, verdict: RunVerdict) -> list[Trial]:
    """Returns the trials of a run: every alternative that the report of the run suggests to a VIOLATED arm, and that
    another arm of the run has tried."""
    scenario, found = run.read_scenario(), list[Trial]()
    for advice in verdict.advice or ():
        if advice.kind == "remedy":
            subject = scenario.arm(advice.arm)
            for option in advice.options:
                settings = changed(Settings.of_arm(scenario, subject), option.change)
                tried_by = _tried_by(scenario, subject, settings)
                found += [Trial(subject.name, option.change, arm.name, subject.claim) for arm in tried_by]
    return found


def assert_tried_and_held(run: RunDirectory, verdict: RunVerdict) -> list[Trial]:
    """Asserts that the report of `run` suggests what the forecast says, and that each arm that tries a suggestion has
    kept the claim which its subject has broken. Returns the trials."""
    found = trials_of_run(run, verdict)
    assert {*trials(run.read_scenario())} <= {*found}, run.path.name
    for trial in found:
        _assert_held(verdict, trial)
    return found


def _assert_held(verdict: RunVerdict, trial: Trial) -> None:
    assert arm_of(verdict, trial.subject).verdict == "VIOLATED", trial
    tried = arm_of(verdict, trial.arm)
    kept = tried.verdict, broken_by(tried, trial.claim)
    assert kept == ("HELD", []), (trial, kept)


def broken_by(judged: ArmVerdict, claim: Claim) -> list[str]:
    """Returns the anomalies that `claim` forbids and that the arm has, or was allowed to have."""
    findings = {finding.anomaly: finding for finding in judged.findings}
    searched = [findings[anomaly] for anomaly in forbidden(claim) if anomaly in findings]
    assert searched, (judged.arm, claim)
    return [finding.anomaly for finding in searched if finding.cases or finding.tolerance != 0]


def _arm(name: str, profile: str, claim: Claim, breaks: Anomaly | None = None) -> ArmPlan:
    """Returns an arm whose requests hold one record each, and whose client waits 1 s for an answer.

    `breaks`: an anomaly of which the arm must have a case. Such an arm is a subject, any other arm a control.
    """
    impatience: dict[str, Setting] = {"batch.num.messages": 1, "linger.ms": 0, "socket.timeout.ms": 1000}
    base = PROFILES[profile]
    plan = ArmPlan(
        name=name,
        role="subject" if breaks else "control",
        profile=with_fields(base, name=name, producer=base.producer | impatience),
        claim=claim,
    )
    if breaks is None:
        return plan
    bounds = (Bound(count=breaks.value, op=">=", value=1),)
    return with_fields(plan, expectation=Expectation(verdicts=("VIOLATED",), bounds=bounds))


SIDE_BY_SIDE = Entry(
    name="alternatives",
    title="Alternatives side by side",
    promise="A request is lost, and later an answer. No leader changes, so weak settings are alternatives, too.",
    source="",
    tags=(),
    arms=(
        _arm("loses", "acks_0", "at_least_once", Anomaly.LOST),
        _arm("leader_acknowledges", "acks_1", "at_least_once"),
        _arm("all_acknowledge", "acks_all", "at_least_once"),
        _arm("reorders", "acks_all", "ordered", Anomaly.REORDERED),
        _arm("one_in_flight", "in_flight_1", "ordered"),
        _arm("doubles", "acks_all", "at_most_once", Anomaly.DUPLICATED),
        _arm("asks_nobody", "acks_0", "at_most_once"),
        _arm("gives_up", "retries_off", "at_most_once"),
    ),
    load=scripted(_BLOCK),
    fault=FaultPlan(
        name="request_and_answer_lost",
        summary="Swallow one Produce request of every producer. Later, close every connection in place of one answer.",
        steps=(
            step(AT_ONCE, "drop", "leader", direction="request", count=1, clients=8),
            step(AT_ONCE, "send"),
            step(TOOK_EFFECT, "wait"),
            step(SETTLED, "release", "leader"),
            step(AT_ONCE, "close", "leader", count=1, clients=6),
            step(AT_ONCE, "send"),
            step(TOOK_EFFECT, "wait"),
            step(SETTLED, "release", "leader"),
        ),
    ),
    rules=("lost.acks_0", "reordered.retries", "duplicated.retries"),
)
"""A scenario in which eight arms meet the same fault. With an acknowledgement, a client sends the lost request again.
With several requests in flight, those behind it come first. A record whose answer is lost is written twice, unless the
client asks for no answer or does not send it again."""
