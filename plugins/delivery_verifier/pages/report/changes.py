"""What to change: other settings that would have prevented the anomalies of a run, and the price of these settings on
this host.

Each suggestion comes from the contract (see `contract.remedies`). It must hold under the disturbances that were
observed in the run, and under the disturbances that the fault plan causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from delivery_verifier.catalogue.applications import APPLICATIONS, profile_and_application
from delivery_verifier.contract.disturbances import coordinator_partitions, disturbances, disturbances_of_arm
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.remedies import Changes, loosenings, remedies
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import WORST_FIRST, ArmVerdict, Finding
from delivery_verifier.pages.causes import who_broke_it
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.report.beside import beside
from delivery_verifier.pages.report.commands import again_with
from delivery_verifier.pages.report.measured import Measured, PriceRuns
from delivery_verifier.pages.words import enumeration, number

OPTIONS_SHOWN = 5
"""The greatest number of changes that the page shows for one arm."""
SUBJECTS_SHOWN = 3
"""The greatest number of arms about which the page says what to change."""


@dataclass(frozen=True)
class Option:
    """One change of settings. `change`: its text, e.g. `acks=all`. `effect`: sentences on what the fault could do with
    the changed settings, and not with those of the arm; empty if that is nothing. `price`: the measured price of the
    changed settings. `command`: the command that repeats the run with the change, or an empty text. `permits`: the
    anomalies that `effect` is about, in words, e.g. `skipped`; only of a change that prevents another one."""

    change: str
    effect: list[str]
    price: Measured
    command: str = ""
    permits: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Advice:
    """What to change in one arm.

    * `kind`: `held` (nothing has to change), `remedy` (other settings would have held), `none` (no settings would
      have held), `withheld` (the run decides nothing) or `unknown` (files are missing).
    * `lead`: the answer in one sentence. `text`: the reason.
    * `now`: those settings of the arm that are in question, with their price. A reader compares the options with them.
      None if there is no comparison.
    * `options`: the changes. The cheapest change comes first, as far as prices are known.
    * `beside`: sentences on the other arms that held under the same fault.
    """

    kind: Literal["held", "remedy", "none", "withheld", "unknown"]
    arm: str
    lead: str
    text: str = ""
    now: Option | None = None
    options: list[Option] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)

    @property
    def priced(self) -> bool:
        """Returns whether the price of at least one option is known or can be measured."""
        return bool(self.to_measure) or any(option.price.day for option in self.options)

    @property
    def to_measure(self) -> str:
        """Returns the `kdv price` command that measures the missing prices. Returns an empty text if no price is
        missing, or if the missing prices cannot be measured."""
        shown = [*([self.now] if self.now else []), *self.options] if self.options else []
        profiles = list(dict.fromkeys(option.price.unmeasured for option in shown if option.price.unmeasured))
        return f"kdv price --profiles {','.join(profiles)}" if profiles else ""


@dataclass(frozen=True)
class _Question:
    """An arm that was judged, with everything on which the advice for this arm depends.

    `histories`: two lists of disturbances: those that were observed, and those that the fault plan causes.
    """

    material: Material
    scenario: Scenario
    judged: ArmVerdict
    settings: Settings
    histories: list[list[Disturbance]]
    prices: PriceRuns


def advices(material: Material) -> list[Advice]:
    """Returns one advice for each subject of the run, at most SUBJECTS_SHOWN. Advice for subjects that did not hold
    comes first."""
    subjects = [arm for arm in (material.verdict.arms if material.verdict else []) if arm.role == "subject"]
    subjects.sort(key=lambda arm: WORST_FIRST.index(arm.verdict))
    prices = PriceRuns(material.path.parent)
    return [_advice(material, arm, prices) for arm in subjects[:SUBJECTS_SHOWN]]


def _advice(material: Material, judged: ArmVerdict, prices: PriceRuns) -> Advice:
    if judged.verdict == "INCONCLUSIVE":
        lead = "Nothing yet: this run says nothing about these settings. Resolve the doubts, and run it again."
        return Advice("withheld", judged.arm, lead)
    question = _question(material, judged, prices)
    if question is None:
        return Advice("unknown", judged.arm, "Not known: files that say what was done to the cluster cannot be read.")
    return _after_violation(question) if judged.verdict == "VIOLATED" else _after_success(question)


def _question(material: Material, judged: ArmVerdict, prices: PriceRuns) -> _Question | None:
    """Returns the question about an arm. Returns None if the arm's settings or the disturbances of the run are not
    known."""
    scenario = material.scenario
    unread = {part.name for part in material.missing} & {"injections.json", "observations.json"}
    if scenario is None or judged.arm not in scenario.arm_names or unread:
        return None
    arm = scenario.arm(judged.arm)
    try:
        settings = Settings.of_arm(scenario, arm)
    except ContradictorySettings:
        return None
    everything = disturbances(material.observations, material.injections)
    coordinators = coordinator_partitions(material.observations)
    observed = disturbances_of_arm(arm, everything, coordinators, material.injections)
    histories = [observed, expected_disturbances(scenario.fault, arm)]
    return _Question(material, scenario, judged, settings, histories, prices)


def _after_violation(question: _Question) -> Advice:
    judged = question.judged
    broken = [finding for finding in judged.findings if finding.broken]
    if any(finding.ruled_by == "contract" for finding in broken):
        return Advice("none", judged.arm, *who_broke_it(judged, broken))
    options = _remedies(question, broken)
    if not options:
        text = "For every change of one or two settings that was tried, the contract permits it under this fault."
        return Advice("none", judged.arm, "No setting that the verifier knows prevents this.", text)
    which = "This change" if len(options) == 1 else "Each of these changes alone"
    lead, text = f"{which} would have held under this fault and this claim.", _without_effect(question).strip()
    return Advice("remedy", judged.arm, lead, text, _now(question), options, beside(question.material, judged, broken))


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
        return Advice("held", judged.arm, lead, text, _now(question), options)
    forbidden = [each for each in judged.findings if each.tolerance is not None and _is_known(each)]
    if lucky := [each for each in forbidden if not _is_promised(question, Anomaly(each.anomaly))]:
        what = enumeration([f"no record is {KINDS[Anomaly(each.anomaly)].participle}" for each in lucky], "and")
        options = _remedies(question, lucky)
        lead = f"No reported record was hurt this time, but these settings do not promise {under} that {what}."
        text = f"{_without_effect(question)}Each of these changes alone promises it." if options else ""
        return Advice("held", judged.arm, lead, text, _now(question), options)
    anomalies = [Anomaly(each.anomaly) for each in forbidden]
    options = [
        Option(each.change, list(dict.fromkeys(each.permits.values()))[:1], question.prices.price_of(each.settings))
        for each in loosenings(question.settings, anomalies, question.histories)[:OPTIONS_SHOWN]
    ]
    text = "Each of these changes alone would give that up." if options else ""
    return Advice("held", judged.arm, lead, text, _now(question), options)


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
    return f"{number(finding.cases)} {word}"


def _anomalies(judged: ArmVerdict, findings: list[Finding]) -> set[Anomaly]:
    """Returns the anomalies that other settings must forbid: those of `findings`, and those that the arm's claim
    forbids. RESENT is among them only if `findings` has it, because no setting forbids RESENT."""
    claimed = {anomaly for anomaly in CLAIMS[judged.claim].forbids if anomaly is not Anomaly.RESENT}
    return claimed | {Anomaly(finding.anomaly) for finding in findings if _is_known(finding)}


def _remedies(question: _Question, findings: list[Finding]) -> list[Option]:
    """Returns the changes that would have forbidden the anomalies of `findings`, and kept the claim of the arm. If
    the arm held, those that would permit something else come last: they give up one promise for another."""
    anomalies = _anomalies(question.judged, findings)
    changes = remedies(question.settings, anomalies, question.histories, _applications(question))
    options = []
    for each in changes:
        permitted = _newly_permitted(question, each.settings)
        options.append(
            Option(
                " and ".join(each.changes),
                list(dict.fromkeys(permitted.values())),
                question.prices.price_of(each.settings),
                again_with(question.scenario, question.judged.profile, each),
                [KINDS[anomaly].participle for anomaly in permitted],
            )
        )
    held = question.judged.verdict == "HELD"
    return sorted(options, key=lambda option: (held and bool(option.permits), option.price.rank))[:OPTIONS_SHOWN]


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
    return Option(f"as it is: {name}", [], question.prices.price_of(question.settings))
