"""What to change: other settings that would have prevented the anomalies of a run.

Each suggestion comes from the contract (see `contract.remedies`). It must hold under the disturbances that were
observed in the run, and under the disturbances that the fault plan causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from delivery_verifier.advice.commands import again_with, priced_as
from delivery_verifier.advice.control_arms import arms_that_held
from delivery_verifier.catalogue.applications import APPLICATIONS, profile_and_application
from delivery_verifier.contract.disturbances import coordinator_partitions, disturbances, disturbances_of_arm
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.remedies import Changes, loosenings, remedies
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.advice import Advice, Option, Permit
from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.history import Disturbance, Injection, Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import WORST_FIRST, ArmVerdict, Finding, RunVerdict


@dataclass(frozen=True)
class _Question:
    """An arm that was judged, with everything on which the advice for this arm depends.

    `arms`: the verdicts of all arms. `histories`: two lists of disturbances: those that were observed, and those that
    the fault plan causes.
    """

    scenario: Scenario
    arms: Sequence[ArmVerdict]
    judged: ArmVerdict
    settings: Settings
    histories: list[list[Disturbance]]


def advices(
    scenario: Scenario, injections: Sequence[Injection], observations: Sequence[Observation], verdict: RunVerdict
) -> list[Advice]:
    """Returns one advice for each subject of the run, the worst verdict first. `injections`, `observations`: what was
    done to the cluster, and what was seen."""
    subjects = [arm for arm in verdict.arms if arm.role == "subject"]
    subjects.sort(key=lambda arm: WORST_FIRST.index(arm.verdict))
    everything, coordinators = disturbances(observations, injections), coordinator_partitions(observations)
    every = []
    for judged in subjects:
        if judged.verdict == "INCONCLUSIVE":
            lead = "Nothing yet: this run says nothing about these settings. Resolve the doubts, and run it again."
            every.append(Advice(kind="withheld", arm=judged.arm, lead=lead))
            continue
        arm = scenario.arm(judged.arm)
        observed = disturbances_of_arm(arm, everything, coordinators, injections)
        histories = [observed, expected_disturbances(scenario.fault, arm, scenario.load.replication_factor)]
        question = _Question(scenario, verdict.arms, judged, Settings.of_arm(scenario, arm), histories)
        every.append(_after_violation(question) if judged.verdict == "VIOLATED" else _after_success(question))
    return every


def _after_violation(question: _Question) -> Advice:
    judged = question.judged
    broken = [finding for finding in judged.findings if finding.broken]
    if any(finding.ruled_by == "contract" for finding in broken):
        lead, text = who_broke_it(judged, broken)
        return Advice(kind="none", arm=judged.arm, lead=lead, text=text)
    options = _remedies(question, broken)
    if not options:
        text = "For every change of one or two settings that was tried, the contract permits it under this fault."
        lead = "No setting that the verifier knows prevents this."
        return Advice(kind="none", arm=judged.arm, lead=lead, text=text)
    which = "This change" if len(options) == 1 else "Each of these changes alone"
    lead, text = f"{which} would have held under this fault and this claim.", _without_effect(question).strip()
    return Advice(
        kind="remedy",
        arm=judged.arm,
        lead=lead,
        text=text,
        now=_now(question),
        options=options,
        beside=arms_that_held(question.scenario, question.arms, judged, broken),
    )


def who_broke_it(judged: ArmVerdict, broken: Iterable[Finding]) -> tuple[str, str]:
    """Returns who caused anomalies that the contract forbids, as two sentences or more. `broken` are their findings.

    Kafka, its client and the verifier are suspects only if nothing in progress shows that a program of the user's own
    did it.
    """
    explained = {cause.anomaly for cause in judged.causes}
    forbidden = [finding for finding in broken if finding.ruled_by == "contract"]
    others = [finding for finding in forbidden if finding.anomaly not in explained]
    if not others:
        return "No setting: your program, or the client library that it uses, did it.", "Kafka did what it was told."
    which = ""
    if len(others) < len(forbidden):
        which = f"{enumeration([_counted(finding) for finding in others], 'and')}, and "
    return (
        f"No setting: {which}what happened is forbidden for these settings already.",
        "Kafka, its client or this verifier broke a promise. Keep the run directory, and report it with its files.",
    )


def _after_success(question: _Question) -> Advice:
    judged = question.judged
    nothing = "Nothing for what was acknowledged" if judged.given_up else "Nothing"
    under = "under this fault" if question.scenario.fault.steps else "without a fault"
    lead = f"{nothing}: {under} these settings promise what was asked, and kept it."
    permitted = [finding for finding in judged.findings if finding.tolerance is None and finding.cases]
    if permitted:
        what = enumeration([_counted(finding) for finding in permitted], "and")
        options = _remedies(question, permitted)
        lead = f"{nothing}, if this is acceptable: {what}. These settings permit it."
        text = f"If it is not: each of these changes alone forbids it {under}." if options else ""
        return Advice(kind="held", arm=judged.arm, lead=lead, text=text, now=_now(question), options=options)
    forbidden = [each for each in judged.findings if each.tolerance is not None and _is_known(each)]
    if lucky := [each for each in forbidden if not _is_promised(question, Anomaly(each.anomaly))]:
        what = enumeration([f"no record is {KINDS[Anomaly(each.anomaly)].participle}" for each in lucky], "and")
        options = _remedies(question, lucky)
        lead = f"No reported record was hurt this time, but these settings do not promise {under} that {what}."
        text = f"{_without_effect(question)}Each of these changes alone promises it." if options else ""
        return Advice(kind="held", arm=judged.arm, lead=lead, text=text, now=_now(question), options=options)
    anomalies = [Anomaly(each.anomaly) for each in forbidden]
    loose = [
        Option(
            change=each.change,
            permits=_permits(each.permits),
            price_of=priced_as(each.settings),
        )
        for each in loosenings(question.settings, anomalies, question.histories)
    ]
    text = "Each of these changes alone would give that up." if loose else ""
    return Advice(kind="held", arm=judged.arm, lead=lead, text=text, now=_now(question), loosenings=loose)


def _without_effect(question: _Question) -> str:
    """Returns the sentence on a setting of the user's own that has no effect, and a blank, or an empty text."""
    notes = question.scenario.arm(question.judged.arm).profile.notes
    return f"{sentence} " if (sentence := question.settings.without_effect) in notes else ""


def _is_promised(question: _Question, anomaly: Anomaly) -> bool:
    """Returns whether the contract forbids the anomaly for the arm's settings. Always true for RESENT."""
    rulings = [contract(question.settings, history) for history in question.histories]
    return anomaly is Anomaly.RESENT or all(ruled[anomaly].ruling == "FORBIDDEN" for ruled in rulings)


def _is_known(finding: Finding) -> bool:
    return finding.anomaly in Anomaly.__members__


def _counted(finding: Finding) -> str:
    word = KINDS[Anomaly(finding.anomaly)].participle if _is_known(finding) else finding.anomaly
    return f"{finding.cases:,} {word}"


def _anomalies(judged: ArmVerdict, findings: list[Finding]) -> set[Anomaly]:
    """Returns the anomalies that other settings must forbid: those of `findings`, and those that the arm's claim
    forbids. RESENT is among them only if `findings` has it, because no setting forbids RESENT."""
    claimed = {anomaly for anomaly in CLAIMS[judged.claim].forbids if anomaly is not Anomaly.RESENT}
    return claimed | {Anomaly(finding.anomaly) for finding in findings if _is_known(finding)}


def _remedies(question: _Question, findings: list[Finding]) -> list[Option]:
    """Returns the changes that would have forbidden the anomalies of `findings`, and kept the claim of the arm. If
    the arm held, those that would permit something else come last: they give up one promise for another."""
    anomalies = _anomalies(question.judged, findings)
    options = [
        Option(
            change=" and ".join(remedy.changes),
            permits=_permits(_newly_permitted(question, remedy.settings)),
            command=again_with(question.scenario, question.judged.profile, remedy),
            price_of=priced_as(remedy.settings),
        )
        for remedy in remedies(question.settings, anomalies, question.histories, _applications(question))
    ]
    return sorted(options, key=lambda option: question.judged.verdict == "HELD" and bool(option.permits))


def _permits(reasons: Mapping[Anomaly, str]) -> list[Permit]:
    return [Permit(anomaly=anomaly.value, sentence=sentence) for anomaly, sentence in reasons.items()]


def _newly_permitted(question: _Question, changed: Settings) -> dict[Anomaly, str]:
    """Maps each anomaly that the arm's settings forbid, and that the `changed` settings permit, to the reason."""
    reasons = dict[Anomaly, str]()
    for history in question.histories:
        before, after = contract(question.settings, history), contract(changed, history)
        for anomaly in Anomaly:
            if before[anomaly].ruling == "FORBIDDEN" and after[anomaly].ruling == "PERMITTED":
                reasons.setdefault(anomaly, after[anomaly].sentence)
    return reasons


def _applications(question: _Question) -> Changes:
    """Returns, for each application of the catalogue, the settings that change if the arm uses it; none without one."""
    settings = question.settings
    if question.scenario.arm(question.judged.arm).application is None:
        return {}
    names = {each.name for each in fields(Settings)}
    changes: dict[str, Mapping[str, Any]] = {}
    for application in APPLICATIONS.values():
        other = settings.consumed_by(application)
        changed = {name: getattr(other, name) for name in names if getattr(other, name) != getattr(settings, name)}
        if changed:
            changes[f"the application {application.name}"] = changed
    return changes


def _now(question: _Question) -> Option:
    application = question.scenario.arm(question.judged.arm).application
    name = profile_and_application(question.judged.profile, application.name if application else "")
    return Option(change=f"as it is: {name}", price_of=priced_as(question.settings))
