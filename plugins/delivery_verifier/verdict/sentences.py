"""Sentences: the words of a verdict, for people who run Kafka.

The module only writes sentences. It decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.client import CLIENTS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.fault_plan import TARGETS
from delivery_verifier.model.figures import times
from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import ArmVerdict, Doubt, Finding, GivenUp, exposed
from delivery_verifier.run_directory.counts import LATE, UNPROVEN
from delivery_verifier.verdict import audits
from delivery_verifier.verdict.applications import exposed_records, is_of_applications, is_thaw
from delivery_verifier.verdict.damage import unreadable_clause
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence
from delivery_verifier.verdict.transaction_counts import clause_of


def arm_sentence(
    arm: ArmEvidence,
    verdict: str,
    doubts: Sequence[Doubt],
    findings: Sequence[Finding],
    given_up: GivenUp | None = None,
) -> str:
    """Returns the sentences of an arm: the verdict, the reason with figures, what was given up, and what was done to
    the cluster. `findings` has the ruling on each anomaly, and the number of records that show the anomaly."""
    if arm.is_canary:
        return _canary(verdict, doubts, findings)
    known = "" if given_up is None else given_up.in_a_sentence
    if verdict == "INCONCLUSIVE":
        return f"INCONCLUSIVE: {_because(doubts)}{known}."
    reason = _violated(arm, findings) if verdict == "VIOLATED" else _held(arm, findings)
    return f"{verdict}: {reason}{known}; {_circumstances(arm)}."


def run_sentence(evidence: Evidence, subjects: Sequence[ArmVerdict], controls: Sequence[ArmVerdict]) -> str:
    """Returns one text: the sentence of each subject, and sentences on what happened to the records of the controls.

    Leaves out controls that have a checker doubt, because their counts cannot be trusted.
    """
    faulted = bool(evidence.effective)
    no_fault = "without a proven fault" if evidence.injections else "without a fault"
    sentences = [subject.sentence for subject in subjects]
    if len(subjects) > 1:  # one sentence about the fault serves all subjects
        sentences = [f"{subject.arm}: {subject.sentence.split('; ')[0].rstrip('.')}." for subject in subjects]
        if faulted:
            fault = _done(evidence)
            sentences.append(f"{fault[:1].upper()}{fault[1:]}.")
    trusted = [control for control in controls if not any(doubt.kind == "checker" for doubt in control.doubts)]
    if len(trusted) > 2 or (trusted and evidence.scenario.applied):
        sentences.append(_controls(trusted, faulted, no_fault))
    else:
        sentences += [_control(control, faulted, no_fault) for control in trusted]
    return " ".join(sentences)


def _controls(controls: Sequence[ArmVerdict], faulted: bool, no_fault: str) -> str:
    """Returns a sentence on more than two controls. It says which controls were hurt, by which anomalies, and which
    controls were not hurt.

    `faulted`: whether a fault took effect. If not, the sentence ends with `no_fault`, e.g. "without a fault".
    """
    hurt, unhurt = [], []
    for control in controls:
        unproven = control.tally.get(UNPROVEN, 0)
        if cases := _with_cases(control.findings):
            more = f", and {unproven:,} not found" if unproven else ""
            hurt.append(f"{control.arm} ({_listed(cases)}{more})")
        else:
            unhurt.append(control.arm)
    which = "the fault hurt" if faulted else f"hurt {no_fault} were"
    others = f", and not {', '.join(unhurt)}" if unhurt and hurt else ""
    return f"Of the controls, {which} {', '.join(hurt) or 'none'}{others}."


def _control(control: ArmVerdict, faulted: bool, no_fault: str) -> str:
    """Returns a sentence on one control: how many records were lost, and whether a fault took effect.

    `faulted`: whether a fault took effect. If not, the sentence ends with `no_fault`, e.g. "without a fault".
    """
    lost, unproven = control.tally.get("lost", 0), control.tally.get(UNPROVEN, 0)
    number = f"at least {lost:,}" if unproven else _count(lost)
    records = f"{number} of {control.tally.get('reported', 0):,} records"
    more = f", and {unproven:,} that were not found may be at unreadable offsets" if unproven else ""
    client = control.client.removeprefix(CLIENTS["librdkafka"].title)
    name = f"{control.profile} ({client})" if client else control.profile
    if faulted:
        return f"The fault took {records} from the control {name}{more}."
    return f"Of the control {name}, {records} were lost, {no_fault}{more}."


def _canary(verdict: str, doubts: Sequence[Doubt], findings: Sequence[Finding]) -> str:
    planted = sum(finding.cases for finding in findings)
    if verdict == "HELD":
        return f"HELD: found exactly the {planted:,} planted anomalies. The checker works."
    return f"INCONCLUSIVE: {_because(doubts)}."


def _because(doubts: Sequence[Doubt]) -> str:
    more = f" (and {len(doubts) - 1} more doubt{'' if len(doubts) == 2 else 's'})" if len(doubts) > 1 else ""
    return f"no verdict, because {doubts[0].detail}{more}" if doubts else "no verdict"


def _held(arm: ArmEvidence, findings: Sequence[Finding]) -> str:
    cases = _with_cases(findings)
    if cases:
        return f"of {_reported(arm)}, {_listed(cases)}, as the settings permit, and nothing they forbid"
    applied = ""
    if arm.spec.application:  # nobody checks the order of effects of a user application
        applied = ", and were applied exactly once" + (
            "" if arm.spec.application.discipline == "own" else " and in order"
        )
    if (audit := arm.run.scenario.audit) is not None:
        return f"{_reported(arm)} stand {audits.held(audit)}"
    every, verb = ("", "is") if arm.totals.get("reported", 0) == 1 else ("all ", "are")
    rest = f"exactly once and in order{clause_of(arm.transactions)}{applied}"
    return f"{every}{_reported(arm)} {verb} in the log {rest}"


def _with_cases(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.cases]


def _records(count: int, which: str = "") -> str:
    """Returns a number of records in words, e.g. `1 acknowledged record`. `which`: the word before; may be empty."""
    return f"{count:,} {which}{' ' if which else ''}record{'' if count == 1 else 's'}"


def _violated(arm: ArmEvidence, findings: Sequence[Finding]) -> str:
    broken = [finding for finding in findings if finding.broken]
    ruler = "the claim" if all(finding.ruled_by == "claim" for finding in broken) else "the contract"
    late = arm.totals.get(LATE, 0)
    landed = f" ({late:,} of them INDETERMINATE, and yet in the log behind a later record)" if late else ""
    unreadable = unreadable_clause(arm)
    assumed = audits.assumption(arm) if arm.run.scenario.audit is not None else ""
    return (
        f"of {_reported(arm)}, {_listed(broken)}{landed}{unreadable}, which {ruler} forbids{assumed}"
        f"{_beside(findings, broken)}"
    )


def _beside(findings: Sequence[Finding], broken: Sequence[Finding]) -> str:
    """Returns a clause on the permitted cases of those anomalies that also have forbidden cases; empty without any."""
    forbidden = {finding.anomaly for finding in broken}
    text = ""
    for finding in _with_cases(findings):
        if finding.anomaly in forbidden and finding.tolerance is None:
            explained = (
                "" if finding.explained == finding.cases else (f" (a disturbance explains {_count(finding.explained)})")
            )
            text += f", and {_listed([finding])}, which it permits{explained}"
    return text


def _listed(findings: Sequence[Finding]) -> str:
    """Returns the anomalies with the number of their cases, e.g. `7 lost, 2 duplicated`."""
    counts = Counter[str]()
    for finding in findings:
        counts[finding.anomaly] += finding.cases
    return ", ".join(f"{count:,} {KINDS[Anomaly(anomaly)].participle}" for anomaly, count in counts.items())


def _reported(arm: ArmEvidence) -> str:
    """Returns in words how many attempts of the arm were reported, how many INDETERMINATE, and how many FAILED."""
    only_sent = arm.totals.get("sent", 0) and not arm.totals.get("acked", 0)
    counts = {name: arm.totals.get(name, 0) for name in ("indeterminate", "failed")}
    others = " and ".join(f"{count:,} {name.upper()}" for name, count in counts.items() if count)
    last = next((count for count in reversed(counts.values()) if count), 0)
    beside = f" (beside {others} attempt{'' if last == 1 else 's'})" if others else ""
    return f"{_records(arm.totals.get('reported', 0), 'sent' if only_sent else 'acknowledged')}{beside}"


def _circumstances(arm: ArmEvidence) -> str:
    """Returns in words what was done to the cluster, and how many attempts of the arm that could have hurt."""
    if (audit := arm.run.scenario.audit) is not None:
        return audit.in_words
    if not arm.run.effective:
        if arm.run.injections:
            return "no injected fault is proven to have taken effect"
        return "on a quiet day, no fault was injected"
    return f"{_done(arm.run)}, with {_exposed(arm)}"


def _done(evidence: Evidence) -> str:
    """Returns in words what was done to the cluster, e.g. `the leader was killed twice`."""
    effective = [injection for injection in evidence.injections if injection.took_effect]
    done = Counter(_by_others(each) or deed(evidence, each.action) for each in effective)
    return " and ".join(f"{what} {times(count)}" for what, count in done.items())


def _by_others(injection: Injection) -> str:
    """Returns what somebody else did, with the broker to which it was done; empty if the run did it."""
    act = ACTS.get(injection.action)
    return f"broker {injection.brokers[0]} {act.done}" if act is not None and act.by_others else ""


def deed(evidence: Evidence, action: str) -> str:
    """Returns what an action did, e.g. `the leader was killed`."""
    return f"{_subject(evidence, action)} {_predicate(action)}"


def _exposed(arm: ArmEvidence) -> str:
    """Returns in words how many attempts were outstanding when faults took effect, and how many were exposed.

    The exposed attempts include attempts that were sent after another broker had taken over, but before the recovery.
    If faults hit only applications, the text gives other numbers: the records in progress, the records by which the
    groups were set back, and the records behind what the groups had committed when stopped members were started again.
    """
    if arm.run.effective and all(map(is_of_applications, arm.run.effective)):
        rewinds = [injection for injection in arm.run.effective if "rewind" in ACTS[injection.action].counts_as]
        stops = [injection for injection in arm.run.effective if injection.action == "stop_application"]
        others = [each for each in arm.run.effective if each not in (*rewinds, *stops) and not is_thaw(each)]
        exposure_doubts = (("in progress", others), ("set back", rewinds), ("behind what was committed", stops))
        counts = [
            (sum(exposed_records(cause, arm.name) for cause in causes), how)
            for how, causes in exposure_doubts
            if causes
        ]
        return " and ".join(f"{_records(count)} {how}" for count, how in counts)
    outstanding, reported = exposed(arm.exposure, "outstanding"), exposed(arm.exposure, "reported")
    faults = "the fault" if len(arm.run.effective) == 1 else "the faults"
    return f"{_records(outstanding)} in flight at {faults} and {_records(reported)} exposed until recovery"


_SUBJECTS = {
    "partition": "every leaderless partition of the subjects",
    "topic": "every arm's topic",
    "producer": "every producer",
    "application": "every application",
}
"""Maps a value of `Act.whom` to the subject of a sentence about the action. Actions on brokers and leaders are missing
here: `_subject` finds their subject by the target of the action."""


def _subject(evidence: Evidence, action: str) -> str:
    """Returns what the action was done to, as the subject of a sentence, e.g. `the leader` or `every producer`."""
    whom = ACTS[action].whom if action in ACTS else "broker"
    if whom in _SUBJECTS:
        return _SUBJECTS[whom]
    if action in ACTS and ACTS[action].by_others:
        return "a broker"
    targets = {step.target for step in evidence.scenario.fault.steps if step.action == action}
    if len(targets) != 1 or not targets <= TARGETS.keys():
        return "a broker"
    if whom == "leader" and targets == {"all"}:
        return "every leader"
    return TARGETS[targets.pop()].in_a_sentence


def _predicate(action: str) -> str:
    """Returns what the action did, as the predicate of a sentence, e.g. `was killed`.

    If another version of the verifier made the run, ACTS may lack the action. The predicate then only names the action.
    """
    done = ACTS[action].done if action in ACTS else ""
    return done or f"was hit by {action}"


def _count(number: int) -> str:
    return f"{number:,}" if number else "none"
