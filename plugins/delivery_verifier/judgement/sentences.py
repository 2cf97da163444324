"""Sentences: what a verdict says to someone who runs Kafka, and what it says it cannot say.

Pure text. Nothing is decided here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from delivery_verifier.judgement.attribution import OUTSIDE, confidence_interval, injections_with_cases
from delivery_verifier.judgement.evidence import Evidence, Transactions
from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.fault_targets import TARGETS
from delivery_verifier.model.scenario import Arm
from delivery_verifier.model.verdict import COUNTED, ArmVerdict, Doubt, Finding, exposed

WANTED_BOUND = 0.1
"""A bound that is worth aiming at; the limits name the cycles it takes."""


def arm_sentence(
    evidence: Evidence, arm: Arm, verdict: str, doubts: Sequence[Doubt], findings: Sequence[Finding]
) -> str:
    """One sentence per arm: the verdict, the figures it rests on, and what was done to the cluster meanwhile."""
    if arm.role == "canary":
        return _canary(verdict, doubts, findings)
    if verdict == "INCONCLUSIVE":
        return f"INCONCLUSIVE: {_because(doubts)}."
    told = _violated(evidence, arm, findings) if verdict == "VIOLATED" else _held(evidence, arm, findings)
    return f"{verdict}: {told}; {_circumstances(evidence, arm)}."


def run_sentence(evidence: Evidence, subjects: Sequence[ArmVerdict], controls: Sequence[ArmVerdict]) -> str:
    """The subjects' sentences, and beside them what became of the weak controls' records."""
    faulted = any(injection.bit for injection in evidence.injections)
    sound = [arm for arm in controls if not any(doubt.kind == "checker" for doubt in arm.doubts)]
    told = [arm.sentence for arm in subjects]
    if len(subjects) > 1:  # what was done to the cluster is said once, for all of them
        told = [f"{arm.arm}: {arm.sentence.split('; ')[0].rstrip('.')}." for arm in subjects]
        told += [f"{done[:1].upper()}{done[1:]}." for done in [_done(evidence)] if faulted]
    several = len(sound) > 2
    return " ".join([*told, *([_controls(sound, faulted)] if several else [_control(arm, faulted) for arm in sound])])


def _controls(arms: Sequence[ArmVerdict], faulted: bool) -> str:
    """What became of many controls: who was hurt, by what, and who was not."""
    seen = {arm.arm: [finding for finding in arm.findings if finding.count + finding.also] for arm in arms}
    hurt_ = [f"{name} ({_listed(found)})" for name, found in seen.items() if found]
    unhurt = [name for name, found in seen.items() if not found]
    return (
        f"Of the controls, {'the fault hurt' if faulted else 'hurt without a fault were'} {', '.join(hurt_) or 'none'}"
        + (f", and not {', '.join(unhurt)}" if unhurt and hurt_ else "")
        + "."
    )


def _control(arm: ArmVerdict, faulted: bool) -> str:
    """What was lost by a control, and whether a fault can be blamed for it."""
    lost, reported = _count(arm.books.get("lost", 0)), arm.books.get("reported", 0)
    if faulted:
        return f"The fault took {lost} of {reported:,} records from the control {arm.profile}."
    return f"Of the control {arm.profile}, {lost} of {reported:,} records were lost, without a fault."


def limits(evidence: Evidence) -> list[str]:
    """What this run did not show: how often it was tried, on how much, and what that bounds."""
    bit = sum(injection.bit for injection in evidence.injections)
    found = [_tried(evidence, bit)]
    if bit:
        # Injections of one cycle overlap and belong together: what is independent is the cycle.
        rounds = len({injection.cycle for injection in evidence.injections if injection.bit})
        what = "injections" if rounds == bit else "cycles of injections"
        found += _hurt(evidence, rounds, what)
        bound = confidence_interval(0, rounds)[1]
        found.append(
            f"An anomaly that was not seen in {rounds} of {rounds} {what} may still occur in up to {bound:.0%} of them "
            f"(95 % confidence). The bound counts {what}, not records: records of one injection are not independent."
            + (_advised() if bound > WANTED_BOUND else "")
        )
    found.append(
        "One run on one cluster: other fault timings, other loads, other versions, loss of power, full disks and "
        "network partitions that were not injected may give another result."
    )
    return found


def _hurt(evidence: Evidence, rounds: int, what: str) -> Iterator[str]:
    """Which arms were hurt, in how many of the rounds: an arm that is hurt now and then is not hurt every time."""
    if (known := evidence.bites) is None:
        return
    cycles = {injection.id: injection.cycle for injection in evidence.injections}
    told, unhurt = [], []
    for arm in evidence.scenario.loaded:
        by_kind = {
            kind: len({cycles[one] for one in ids if one != OUTSIDE}) for kind, ids in known.get(arm.name, {}).items()
        }
        if seen := len({cycles[one] for one in injections_with_cases(known.get(arm.name, {}))}):
            low, high = confidence_interval(seen, rounds)
            each = ", ".join(f"{kind} {count}" for kind, count in by_kind.items() if count)
            told.append(f"{arm.name} in {seen} ({each}; that may be {low:.0%} to {high:.0%} of all)")
        else:
            unhurt.append(arm.name)
    if told:
        none = f"; none hurt {', '.join(unhurt)}" if unhurt else ""
        yield f"Of {rounds} {what}, so many hurt an arm: {', '.join(told)}{none}."


def _advised() -> str:
    """How many injections without a case bound an anomaly at WANTED_BOUND."""
    needed = math.ceil(math.log(0.05) / math.log(1 - WANTED_BOUND))
    return f" To bring that down to {WANTED_BOUND:.0%}, repeat the fault {needed} times (--cycles {needed})."


def _tried(evidence: Evidence, bit: int) -> str:
    if not bit:
        return "No fault was injected: this run says nothing of what a fault would do."
    sums = {
        name: [f"{arm.name} {exposed(evidence.exposure(arm), name):,}" for arm in evidence.scenario.loaded]
        for name in COUNTED
    }
    return (
        f"{bit} injection{'s' * (bit != 1)} that bit; reported records exposed to them: "
        f"{', '.join(sums['reported'])}; attempts outstanding when they bit: {', '.join(sums['outstanding'])}."
    )


def _canary(verdict: str, doubts: Sequence[Doubt], findings: Sequence[Finding]) -> str:
    planted = sum(finding.count + finding.also for finding in findings)
    if verdict == "HELD":
        return f"HELD: all {planted:,} planted anomalies were found, and no others: the check can see."
    return f"INCONCLUSIVE: {_because(doubts)}."


def _because(doubts: Sequence[Doubt]) -> str:
    more = f" (and {len(doubts) - 1} more doubts)" if len(doubts) > 1 else ""
    return f"no verdict, because {doubts[0].detail}{more}" if doubts else "no verdict"


def _held(evidence: Evidence, arm: Arm, findings: Sequence[Finding]) -> str:
    seen = [finding for finding in findings if finding.count + finding.also]
    if seen:
        return f"of {_reported(evidence, arm)}, {_listed(seen)}, as the settings permit, and nothing they forbid"
    whole = f"all {_reported(evidence, arm)} are in the log exactly once and in order"
    return whole + _views(evidence.transactions.get(arm.name))


def _views(counted: Transactions | None) -> str:
    """What the committed view showed of transactions, of which none was torn and nothing aborted was visible."""
    if counted is None:
        return ""
    unknown = counted.begun - counted.committed - counted.aborted
    told = f"; who reads committed sees every one of the {counted.committed:,} transactions that were committed"
    told += f", and nothing of the {counted.aborted:,} that were aborted" if counted.aborted else ""
    return told + (f" ({unknown:,} more ended nobody knows how, and are seen whole or not at all)" if unknown else "")


def _violated(evidence: Evidence, arm: Arm, findings: Sequence[Finding]) -> str:
    broken = [
        finding
        for finding in findings
        if finding.tolerance is not None and finding.count + finding.also > finding.tolerance
    ]
    by = "the claim" if all(finding.ruled_by == "claim" for finding in broken) else "the contract"
    return f"of {_reported(evidence, arm)}, {_listed(broken)}, which {by} forbids"


def _listed(findings: Sequence[Finding]) -> str:
    return ", ".join(
        f"{finding.count + finding.also:,} {KINDS[Anomaly(finding.anomaly)].participle}" for finding in findings
    )


def _reported(evidence: Evidence, arm: Arm) -> str:
    totals = evidence.books.totals(arm.name)
    unasked = totals.get("sent", 0) and not totals.get("acked", 0)
    return f"{totals.get('reported', 0):,} {'sent' if unasked else 'acknowledged'} records"


def _circumstances(evidence: Evidence, arm: Arm) -> str:
    if not any(injection.bit for injection in evidence.injections):
        return "no fault was injected"
    return f"{_done(evidence)}, with {_exposed(evidence, arm)}"


def _done(evidence: Evidence) -> str:
    """What was done to the cluster, e.g. `the leader was killed twice`."""
    bit = Counter(injection.action for injection in evidence.injections if injection.bit)
    return " and ".join(
        f"{_subject(evidence, action)} {_predicate(action)} {_times(count)}" for action, count in bit.items()
    )


def _exposed(evidence: Evidence, arm: Arm) -> str:
    """Both counts: exposed records include those that were sent after another broker had taken over."""
    outstanding, reported = (exposed(evidence.exposure(arm), name) for name in reversed(COUNTED))
    bites = "the bite" if sum(injection.bit for injection in evidence.injections) == 1 else "the bites"
    return f"{outstanding:,} attempts outstanding at {bites} and {reported:,} records exposed until recovery"


_SUBJECTS = {
    "partition": "every leaderless partition of the subjects",
    "topic": "every arm's topic",
    "producer": "every producer",
}
"""What actions are done to that are not done to brokers; then the target does not matter."""


def _subject(evidence: Evidence, action: str) -> str:
    """To whom it was done, as the subject of a sentence: `the leader`, `every producer` ..."""
    whom = ACTS[action].whom if action in ACTS else "broker"
    if whom in _SUBJECTS:
        return _SUBJECTS[whom]
    targets = {step.target for step in evidence.scenario.fault.steps if step.action == action}
    if len(targets) != 1 or not targets <= TARGETS.keys():
        return "a broker"
    if whom == "leader" and targets == {"all"}:
        return "every leader"
    return TARGETS[targets.pop()].in_a_sentence


def _predicate(action: str) -> str:
    """What was done; only an action of another version, which ACTS does not know, has no words of its own."""
    done = ACTS[action].done if action in ACTS else ""
    return done or f"was hit by {action}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _count(number: int) -> str:
    return f"{number:,}" if number else "none"
