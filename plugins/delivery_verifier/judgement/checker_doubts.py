"""Checker doubts: reasons to believe neither HELD nor VIOLATED, because the checking itself may be wrong.

Pure. A doubt belongs to an arm, or to ALL. Whatever is wrong with the canary is wrong with the checker, hence with
all arms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from delivery_verifier.contract.disturbances import explained, visible
from delivery_verifier.judgement.evaluation import (
    CANARY,
    LAWS,
    LAWS_OF_PARTITIONS,
    Evaluated,
    ExpectedEvaluation,
    Validation,
    canary_pairs,
    expected_evaluations,
)
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.verdict import Doubt

ALL = ""
Found = tuple[str, Doubt]
"""The arm a doubt belongs to, or ALL; and the doubt."""

LOAD_INTERVAL_US = 1_000_000
"""The widest interval of timeline/load, whose rows say when they begin."""

LAW_DOUBTS = {
    "offsets_accounted": "read_incomplete",
    "partitions_complete": "partition_missing",
    "ledger_complete": "ledger_incomplete",
    "log_moved": "log_moved",
}
"""Names of the doubts that certain laws raise; any other is `books_unbalanced:<law>`."""


def checker_doubts(evidence: Evidence, validation: Validation) -> list[Found]:
    """Every reason to distrust the check. Those of the canary's arm count for all."""
    canary = evidence.scenario.canary.name
    found = [
        *_tables(evidence),
        *_rows(evidence),
        *_partitions(evidence),
        *_laws(evidence),
        *_coverage_of_laws(evidence),
        *_canary(evidence),
        *_observer(evidence),
        *_exposure(evidence),
        *_evaluations(evidence, validation),
    ]
    return [(ALL if arm == canary else arm, doubt) for arm, doubt in found]


def _doubt(arm: str, name: str, detail: str) -> Found:
    return arm, Doubt(kind="checker", name=name, detail=detail)


def _tables(evidence: Evidence) -> Iterator[Found]:
    for name, detail in evidence.books.problems:
        yield _doubt(ALL, name, detail)


def _rows(evidence: Evidence) -> Iterator[Found]:
    """Every planned row of books/producers is there, once, and no other (besides those of another session)."""
    for arm in evidence.scenario.arms:
        rows = evidence.books.rows("producers", arm=arm.name)
        if not {"producer", "partition"} <= set(rows.column_names):
            continue  # a missing column is a doubt already
        found = Counter(zip(rows["producer"].to_pylist(), rows["partition"].to_pylist(), strict=True))
        wanted = {
            (producer, partition)
            for producer in (-1, *range(arm.producers))
            for partition in range(evidence.scenario.load.partitions)
        }
        missing, extra = len(wanted - set(found)), rows.num_rows - len(wanted & set(found))
        if missing:
            yield _doubt(arm.name, "partition_missing", f"{arm.name}: {missing} planned rows are not in the books")
        if extra:
            yield _doubt(arm.name, "rows_unplanned", f"{arm.name}: {extra} rows of the books were not planned")


def _partitions(evidence: Evidence) -> Iterator[Found]:
    """The partitions that were read are the planned ones, from and to the offsets of the snapshot."""
    snapshot = Counter((at.arm, at.partition, at.start, at.end) for at in evidence.offsets.partitions)
    rows = evidence.books.rows("partitions")
    columns = ("arm", "partition", "start", "end", "tail_records")
    if not set(columns) <= set(rows.column_names):
        return
    read = rows.select(columns).to_pylist()
    differing = snapshot - Counter((row["arm"], row["partition"], row["start"], row["end"]) for row in read)
    for arm_name, partition, start, end in differing:
        told = f"{arm_name}/{partition} was not read from {start} to {end}, as the snapshot says"
        yield _doubt(arm_name, "read_incomplete", told)
    for arm in evidence.scenario.arms:
        seen = {row["partition"] for row in read if row["arm"] == arm.name}
        taken = {at.partition for at in evidence.offsets.partitions if at.arm == arm.name}
        for partition in sorted(set(range(evidence.scenario.load.partitions)) - (seen & taken)):
            yield _doubt(arm.name, "partition_missing", f"{arm.name}/{partition} is not in snapshot and books")
    for row in read:
        if row["tail_records"]:
            told = f"{row['arm']}/{row['partition']}: {row['tail_records']} records stand behind the snapshot"
            yield _doubt(row["arm"], "log_moved", told)


def _laws(evidence: Evidence) -> Iterator[Found]:
    rows = evidence.books.rows("laws")
    if not {"law", "arm", "partition", "left_name", "left", "right_name", "right"} <= set(rows.column_names):
        return
    for row in rows.to_pylist():
        if row["left"] != row["right"]:
            where = f"{row['arm']}/{row['partition']}" if row["partition"] != -1 else row["arm"]
            told = f"{where}: {row['left_name']} = {row['left']}, but {row['right_name']} = {row['right']}"
            name = LAW_DOUBTS.get(row["law"], f"books_unbalanced:{row['law']}")
            yield _doubt(row["arm"] if row["arm"] in evidence.scenario.arm_names else ALL, name, told)


def _coverage_of_laws(evidence: Evidence) -> Iterator[Found]:
    """Every law speaks of all of every arm, and no law stands in the books that no expectation judges."""
    rows = evidence.books.rows("laws")
    if not {"law", "arm", "partition"} <= set(rows.column_names):
        return
    spoken = set(zip(*(rows[name].to_pylist() for name in ("law", "arm", "partition")), strict=True))
    for law in LAWS:
        for arm in evidence.scenario.arm_names if law != CANARY else ():
            places = range(evidence.scenario.load.partitions) if law in LAWS_OF_PARTITIONS else (-1,)
            silent = [place for place in places if (law, arm, place) not in spoken]
            if silent:
                told = f"{arm}: the law {law} is not in the books" + (f" of partitions {silent}" * (silent != [-1]))
                yield _doubt(arm, "law_missing", told)
    for law in sorted({law for law, _, _ in spoken} - set(LAWS)):
        yield _doubt(ALL, "expectation_not_evaluated", f"no expectation judges the law {law}")


def _canary(evidence: Evidence) -> Iterator[Found]:
    for name, wanted, got in canary_pairs(evidence):
        if wanted != got:
            yield _doubt(ALL, "canary_wrong", f"the canary's {name} must be {wanted}, the reconciliation found {got}")
    if not evidence.canary_expected:
        yield _doubt(ALL, "canary_wrong", "nothing was planted, hence nothing shows that the check can find anything")


def _observer(evidence: Evidence) -> Iterator[Found]:
    """The observer saw every partition before the load, and something of every injection that bit.

    Else it may have missed more, and the contract would be read off half a picture.
    """
    for arm in evidence.scenario.arms:
        began_us = min(evidence.books.values("load", "at_us", arm=arm.name), default=None)
        seen = {
            item.partition
            for item in evidence.observations
            if item.topic == arm.topic_name and (began_us is None or item.at_us <= began_us + LOAD_INTERVAL_US)
        }
        blind = sorted(set(range(evidence.scenario.load.partitions)) - seen)
        if blind:
            told = f"{arm.name}: partitions {blind} were not observed before the load began"
            yield _doubt(arm.name, "observer_blind", told)
    yield from _last_seen(evidence)
    for injection in evidence.injections:
        if injection.bit and visible(injection) and not explained(injection, evidence.disturbances):
            told = f"injection {injection.id} ({injection.action}) bit, but the observer saw nothing"
            yield _doubt(ALL, "observer_blind", told)


def _last_seen(evidence: Evidence) -> Iterator[Found]:
    """What the observer saw last of each partition is what the snapshot found: it did not stop looking before."""
    partitions = sorted((item for item in evidence.observations if item.kind == "partition"), key=lambda it: it.at_us)
    last = {(item.topic, item.partition): (item.leader, item.leader_epoch) for item in partitions}
    for at in evidence.offsets.partitions:
        seen, found = last.get((at.topic, at.partition)), (at.leader, at.leader_epoch)
        if at.leader_epoch >= 0 and seen is not None and seen != found:
            told = f"{at.arm}/{at.partition} has (leader, epoch) {found}, the observer last saw {seen}"
            yield _doubt(at.arm, "observer_blind", told)


def _exposure(evidence: Evidence) -> Iterator[Found]:
    for arm in evidence.scenario.loaded:
        for injection in evidence.injections:
            count = evidence.books.rows("exposure", arm=arm.name, injection=injection.id).num_rows
            if count != 1:
                told = f"{arm.name}: the books have {count} exposures to injection {injection.id}, must be 1"
                yield _doubt(arm.name, "exposure_missing", told)


def _evaluations(evidence: Evidence, validation: Validation) -> Iterator[Found]:
    """The expectations that were evaluated are exactly the planned ones, and each saw what it had to see."""
    plans = {plan.key: plan for plan in expected_evaluations(evidence)}
    if validation.run_id != evidence.scenario.run_id:
        yield _doubt(ALL, "expectation_not_evaluated", f"the validation is of another run, {validation.run_id}")
    times = Counter(item.key for item in validation.evaluated)
    for key in plans.keys() - times.keys():
        yield _doubt(key[1], "expectation_not_evaluated", f"{_called(key)} was not evaluated")
    for key in times.keys() - plans.keys():
        yield _doubt(ALL, "expectation_not_evaluated", f"{_called(key)} was evaluated, and nobody planned it")
    for item in validation.evaluated:
        if times[item.key] > 1:
            yield _doubt(item.arm, "expectation_not_evaluated", f"{_called(item.key)} was evaluated more than once")
        if item.key in plans:
            yield from _evaluation(plans[item.key], item)


def _evaluation(plan: ExpectedEvaluation, item: Evaluated) -> Iterator[Found]:
    name = _called(plan.key)
    if item.exception:
        yield _doubt(plan.arm, "expectation_not_evaluated", f"{name} raised: {item.exception}")
        return
    if item.tolerance != plan.tolerance:
        told = f"{name} was evaluated with tolerance {item.tolerance}, the contract says {plan.tolerance}"
        yield _doubt(plan.arm, "expectation_not_evaluated", told)
    if item.element_count != plan.rows or not plan.rows:
        told = f"{name} saw {item.element_count} rows, planned were {plan.rows}"
        yield _doubt(plan.arm, "expectation_not_evaluated", told)
    if item.missing_count != 0:
        yield _doubt(plan.arm, "nulls", f"{name} saw {item.missing_count} nulls")
    alarm = plan.tolerance is not None and plan.count > plan.tolerance
    if item.success is alarm or item.count != plan.count:
        told = (
            f"{name}: Great Expectations says {'success' if item.success else 'failure'}, the books count {plan.count}"
        )
        yield _doubt(plan.arm, "expectation_alarm", told)


def _called(key: tuple[str, str, str]) -> str:
    suite, arm, about = key
    return f"expectation {about}" + (f" of {arm}" if arm else f" of the {suite}")
