"""Coverage doubts: reasons not to say HELD, because the run did not put the arm to the test that was planned.

Pure. They do not stand in the way of VIOLATED: what was found is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from delivery_verifier.judgement.attribution import OUTSIDE
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Arm
from delivery_verifier.model.verdict import Doubt


def coverage_doubts(evidence: Evidence, arm: Arm) -> list[Doubt]:
    """Why the arm cannot be HELD. The canary carries no load and is not put to the test: it has none."""
    if arm.role == "canary":
        return []
    found = [
        *_faults(evidence),
        *_load(evidence, arm),
        *_transactions(evidence, arm),
        *_exposed(evidence, arm),
        *_unplanned(evidence, arm),
        *_elsewhere(evidence, arm),
        *_at_another_time(evidence, arm),
    ]
    return [Doubt(kind="coverage", name=name, detail=detail) for name, detail in found]


def _faults(evidence: Evidence) -> Iterator[tuple[str, str]]:
    fault = evidence.scenario.fault
    wanted = Counter(step.action for step in fault.steps if step.act.bites)
    made = Counter(injection.action for injection in evidence.injections)
    for action, count in wanted.items():
        if made[action] < count * fault.cycles:
            told = f"the plan asks for {count * fault.cycles} x {action}, {made[action]} were recorded"
            yield "fault_did_not_bite", told
    for injection in evidence.injections:
        if not injection.bit:
            yield (
                "fault_did_not_bite",
                f"injection {injection.id} ({injection.action}) has no proof that it bit",
            )
        if injection.healed_at_us is None or injection.recovered_at_us is None:
            yield (
                "fault_not_healed",
                f"injection {injection.id} ({injection.action}) was never healed and recovered",
            )


def _transactions(evidence: Evidence, arm: Arm) -> Iterator[tuple[str, str]]:
    """Where nothing was committed, nothing could be torn; where nothing was aborted, none of that could be visible."""
    if not arm.transactional_id:
        return
    counted = evidence.transactions.get(arm.name)
    if counted is None or not counted.committed:
        told = f"{arm.name}: of {counted.begun if counted else 'an unknown number of'} transactions none was committed"
        yield "nothing_committed", told
    elif not counted.aborted:
        yield (
            "nothing_aborted",
            f"{arm.name}: of {counted.begun} transactions none was aborted, hence none could be visible",
        )


def _load(evidence: Evidence, arm: Arm) -> Iterator[tuple[str, str]]:
    totals = evidence.books.totals(arm.name)
    reported, needed = totals.get("reported", 0), max(1, min(evidence.scenario.min_exposed, arm.records // 100))
    if not reported:
        yield "nothing_reported", f"{arm.name}: not one record was reported, there is nothing to hold"
    elif reported < needed:
        attempted = totals.get("attempted", 0)
        told = f"{arm.name}: {reported} of {attempted} records were reported, at least {needed} are needed"
        yield "too_little_reported", told
    if totals.get("attempted", 0) < arm.records:
        told = f"{arm.name}: {totals.get('attempted', 0)} records were attempted, {arm.records} were planned"
        yield "load_incomplete", told
    for name, error in evidence.ended_early.items():
        if name.split("/")[0] == arm.name:
            yield "load_ended_early", f"{name}: {error}"
    last_us = _last_reported_us(evidence, arm)
    for injection in evidence.injections:
        end_us = _end_us(injection)
        if last_us is None or last_us <= end_us:
            told = f"{arm.name}: no record was reported after injection {injection.id} was over"
            yield "load_over_too_early", told


def _end_us(injection: Injection) -> int:
    """When the injection was over as far as is known: recovery, else heal, else the bite."""
    return injection.recovered_at_us or injection.healed_at_us or injection.bite_at_us


def _last_reported_us(evidence: Evidence, arm: Arm) -> int | None:
    """Start of the last interval of the timeline until which the arm both sent and had records reported."""
    rows = evidence.books.rows("load", arm=arm.name)
    if not {"at_us", "sent", "reported"} <= set(rows.column_names):
        return None
    last = [max((row["at_us"] for row in rows.to_pylist() if row[name]), default=0) for name in ("sent", "reported")]
    return min(last) or None


def _exposed(evidence: Evidence, arm: Arm) -> Iterator[tuple[str, str]]:
    needed = max(1, evidence.scenario.min_exposed)  # 0 would call an arm HELD that no fault could hurt
    for row in evidence.books.rows("exposure", arm=arm.name).to_pylist():
        if (row.get("reported") or 0) < needed:
            told = (
                f"{arm.name}: {row.get('reported')} reported records were exposed to injection "
                f"{row.get('injection')}, at least {needed} are needed ({row.get('outstanding')} attempts were "
                "outstanding when it bit)"
            )
            yield "too_little_exposed", told


def _unplanned(evidence: Evidence, arm: Arm) -> Iterator[tuple[str, str]]:
    found = [item for item in evidence.concerning(arm) if not item.planned]
    if found:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in Counter(item.kind for item in found).items())
        yield "unplanned_disturbance", f"{arm.name}: {kinds}, first: {found[0].detail}"


def _elsewhere(evidence: Evidence, arm: Arm) -> Iterator[tuple[str, str]]:
    """Cases that a disturbance permits, on partitions that no such disturbance touched: nothing explains them."""
    width = evidence.scenario.load.partitions
    for anomaly, ruling in evidence.rulings(arm).items():
        causes = [item for item in evidence.concerning(arm) if item.kind in ruling.because]
        if not causes or any(not item.topic for item in causes):  # a broker's end touches every partition
            continue
        quiet = set(range(width)) - {partition for item in causes for partition in item.partitions}
        cases = [evidence.books.cases_at(arm.name, anomaly, partition) for partition in sorted(quiet)]
        if sum(cases):
            where = f"on partitions {sorted(quiet)}, where no {ruling.because[0]} was seen"
            told = f"{arm.name}: {sum(cases)} {anomaly} {where}"
            yield "unexplained", told


def _at_another_time(evidence: Evidence, arm: Arm) -> Iterator[tuple[str, str]]:
    """Cases that a disturbance permits, of records that were under way in no injection: nothing explains them either.

    A loss of power takes back also what was acknowledged long before, but nothing that was sent only afterwards. Of
    cases that were not written down nobody knows when their records were sent.
    """
    cases = evidence.books.rows("cases", arm=arm.name).to_pylist()
    cut, totals = {row["kind"] for row in cases if row.get("cut")}, evidence.books.totals(arm.name)
    outside = {kind for kind, ids in (evidence.bites or {}).get(arm.name, {}).items() if OUTSIDE in ids}
    late = evidence.afterwards.get(arm.name, set())
    for anomaly, ruling in evidence.rulings(arm).items():
        if not ruling.because:
            continue
        if anomaly.value in (late if "isr_power_loss" in ruling.because else outside):
            yield "unexplained", f"{arm.name}: {anomaly} of records that were under way in no injection that bit"
        if anomaly.value in cut or (cut and totals.get(f"also_{anomaly.value.lower()}")):
            yield (
                "unexplained",
                f"{arm.name}: not all cases of {anomaly} were written down; when the others were sent is unknown",
            )
