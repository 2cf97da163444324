"""Tests of the invariants of the counts on tables made by hand, without Spark: which two counts each equation compares,
and what stands in place of a count that is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from support.run_directories import Row, scenario

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.run_directory.ledger import MISCOUNTED, outcomes_key
from spark_jobs.checks.invariant import InvariantInputs
from spark_jobs.checks.invariants import invariants
from spark_jobs.checks.ledger_invariants import ledger_invariants, summary_invariants
from spark_jobs.matching.committed import Views

ARMS = scenario(["plain", "tx"], producers=2, transactional=["tx"])
"""Two arms with two producers each, of which one writes transactions, and the canary with one producer, which then
writes transactions, too. Each arm has the partitions 0 and 1."""
COUNTS = ("attempted", "reported", "acked", "sent", "failed", "indeterminate", "found", "lost")
LINES = ("first_copies", "extra_copies", "phantoms", "unattributed")
OUTCOMES = tuple(outcome.value.lower() for outcome in Outcome)

Equation = tuple[str, int, str, int, str, int]
"""An equation without the name of its invariant: arm, partition, name and count on the left, name and count on the
right."""


def booked(arm: str, partition: int, **counts: int) -> Row:
    """Returns a row of the counts with these counts. All others are 0."""
    zeros = dict.fromkeys((*COUNTS, *LINES, *map(column, Anomaly)), 0)
    return {"arm": arm, "partition": partition, **zeros, **counts}


def part(arm: str, partition: int, start: int = 0, end: int = 0, **more: Any) -> PartitionSnapshot:
    return PartitionSnapshot(
        arm=arm, topic=f"t-{arm}", partition=partition, start=start, end=end, live_end=end + 2, leader=1,
        leader_epoch=0, **more,
    )  # fmt: skip


def census(arm: str, producer: int = 0, **counts: int) -> Row:
    """Returns a row of the census of the ledger. All counts that are not given are 0."""
    zeros = dict.fromkeys(("attempted", "in_transactions", *OUTCOMES), 0)
    return {"arm": arm, "producer": producer, "session": 0, **zeros, **counts}


def records(arm: str, partition: int, records: int, markers: int = 0) -> Row:
    return {"arm": arm, "partition": partition, "records": records, "markers": markers}


def inputs(
    producers: Sequence[Row] = (),
    ledger: Sequence[Row] = (),
    log: Sequence[Row] = (),
    parts: Sequence[PartitionSnapshot] = (),
    **more: Any,
) -> InvariantInputs:
    names = ("producers", "ledger_census", "log_census")
    tables = dict(zip(names, (pa.Table.from_pylist(list(rows)) for rows in (producers, ledger, log)), strict=True))
    plain: dict[str, Any] = {
        "scenario": ARMS,
        "offsets": Offsets(bootstrap_servers="", taken_at_us=0, partitions=list(parts)),
        "announced": {},
        "read": {},
        "written": {},
        "bound": 10,
    }
    return InvariantInputs(**tables, **(plain | more))


def equations(evidence: InvariantInputs, invariant: str, left: str = "") -> list[Equation]:
    """Returns the equations of an invariant whose left name has the words `left`."""
    rows = invariants(evidence).to_pylist()
    return [tuple(row.values())[1:] for row in rows if row["invariant"] == invariant and left in row["left_name"]]  # type: ignore[misc]


def unreadable(*ranges: tuple[int, int]) -> tuple[Unreadable, ...]:
    return tuple(Unreadable(first=first, end=end, shown_until=first, detail="") for first, end in ranges)


def test_every_offset_of_the_snapshot_is_a_record_a_marker_or_a_control_record() -> None:
    evidence = inputs(
        log=[records("plain", 0, 8, markers=1)],
        parts=[part("plain", 0, 3, 14, control_records=2), part("plain", 1, 0, 5)],
        read={"tail/plain/0": 4, "tail/plain/2": 9},
    )
    found = "records and control records in the log"
    assert equations(evidence, "offsets_accounted") == [
        ("plain", 0, "end - start", 11, found, 10),
        ("plain", 1, "end - start", 5, found, 0),
    ]
    assert equations(evidence, "start_zero") == [
        ("plain", 0, "start offset", 3, "zero", 0),
        ("plain", 1, "start offset", 0, "zero", 0),
    ]
    behind = "records behind the snapshot"
    assert equations(evidence, "log_moved") == [("plain", 0, behind, 4, "zero", 0), ("plain", 1, behind, -1, "zero", 0)]


def test_attempts_are_the_sum_of_their_outcomes_and_reported_ones_are_found_or_lost() -> None:
    first = dict(zip(COUNTS, (100, 90, 1, 2, 4, 8, 16, 32), strict=True))
    second = dict(zip(COUNTS, (1000, 900, 10, 20, 40, 80, 160, 320), strict=True))
    rows = [booked("tx", 1, attempted=7), booked("plain", 0, **first), booked("plain", 0, **second)]
    evidence = inputs(rows)
    assert equations(evidence, "outcomes_sum") == [
        ("plain", 0, "attempted", 1100, "outcomes", 165),
        ("tx", 1, "attempted", 7, "outcomes", 0),
    ]
    assert equations(evidence, "reported_sum") == [
        ("plain", 0, "reported", 990, "found or lost", 528),
        ("tx", 1, "reported", 0, "found or lost", 0),
    ]
    missing = inputs(rows, missing={"missing/plain/0": 5, "missing/plain/1": 6})
    assert equations(missing, "reported_sum") == [
        ("plain", 0, "reported", 990, "found, lost or missing", 533),
        ("tx", 1, "reported", 0, "found or lost", 0),
    ]
    assert equations(missing, "outcomes_sum") == equations(evidence, "outcomes_sum")


def test_the_lines_of_the_tally_are_those_of_the_log_in_every_partition_that_either_has() -> None:
    first, second = (dict(zip(LINES, numbers, strict=True)) for numbers in ((1, 2, 4, 8), (16, 32, 64, 128)))
    evidence = inputs(
        [booked("plain", 0, **first), booked("plain", 0, **second), booked("tx", 0, phantoms=3)],
        log=[records("plain", 0, 20, markers=1), records("plain", 1, 6)],
        parts=[part("plain", 0), part("plain", 1)],
    )
    names = "data records in the log", "lines in the counts"
    assert equations(evidence, "log_sum") == [
        ("plain", 0, names[0], 19, names[1], 255),
        ("plain", 1, names[0], 6, names[1], 0),
        ("tx", 0, names[0], 0, names[1], 3),
    ]


def test_the_log_has_as_many_rows_as_were_read_from_kafka_or_could_not_be_read() -> None:
    damaged = [
        part("plain", 0, 0, 10, unreadable=unreadable((2, 5))),
        part("plain", 1, 0, 10, unreadable=unreadable((9, 20))),
        part("tx", 0, 0, 10, unreadable=unreadable((10, 12))),
    ]
    evidence = inputs(
        log=[records("plain", 0, 5), records("plain", 1, 6, markers=2), records("canary", 0, 1)],
        parts=damaged,
        read={"read/plain": 7, "read/tx": 9},
    )
    raw, rows = "records read from Kafka", "rows in log/, view raw"
    assert equations(evidence, "view_rows", raw) == [
        ("plain", -1, f"{raw}, and unreadable offsets", 11, rows, 11),
        ("tx", -1, raw, 9, rows, 0),
        ("canary", -1, raw, -1, rows, 1),
        ("tx", -1, "committed records read from Kafka", -1, "rows in log/, view committed", 0),
        ("canary", -1, "committed records read from Kafka", -1, "rows in log/, view committed", 0),
    ]


VIEWS = Views(Counter({("tx", 0): 5, ("tx", 1): 6, ("plain", 0): 1}), Counter({"tx": 10, "plain": 3}), Counter())


def test_the_committed_view_of_an_arm_of_transactions_is_whole_and_agrees_with_the_raw_view() -> None:
    evidence = inputs(views=VIEWS, read={"read_committed/tx": 12, "read_committed/plain": 4})
    agree = "rows in log/, view committed", "of these the same in view raw"
    assert equations(evidence, "views_agree") == [
        ("plain", -1, agree[0], 1, agree[1], 3),
        ("tx", -1, agree[0], 11, agree[1], 10),
        ("canary", -1, agree[0], 0, agree[1], 0),
    ]
    read = "committed records read from Kafka"
    canary = ("canary", -1, read, -1, agree[0], 0)
    assert equations(evidence, "view_rows", read) == [("tx", -1, read, 12, agree[0], 11), canary]
    assert equations(inputs(views=VIEWS), "view_rows", read) == [("tx", -1, read, -1, agree[0], 11), canary]


def test_the_committed_view_of_a_partition_lacks_control_records_and_what_was_aborted_or_is_unreadable() -> None:
    counts = {"control_records": 3, "aborted_records": 7}
    evidence = inputs(
        views=VIEWS,
        parts=[
            part("tx", 0, 1, 40, **counts),
            part("tx", 1, 0, 40, unreadable=unreadable((38, 50), (1, 2)), **counts),
            part("plain", 0, 0, 40),
        ],
    )
    left, right = "offsets without control records and records of aborted transactions", "rows in log/, view committed"
    assert equations(evidence, "view_rows", "offsets without") == [
        ("tx", 0, left, 29, right, 5),
        ("tx", 1, f"{left}, and without unreadable offsets", 27, right, 6),
    ]


def test_tally_and_snapshot_have_a_row_for_all_that_was_planned() -> None:
    rows = [booked("plain", 0), booked("plain", 1), booked("tx", 0)]
    evidence = inputs(rows, parts=[part("plain", 0), part("tx", 0), part("tx", 1)])
    tally, snapshot = "rows in the counts", "partitions in the snapshot"
    assert equations(evidence, "partitions_complete") == [
        ("plain", -1, tally, 2, "planned", 6),
        ("plain", -1, snapshot, 1, "planned", 2),
        ("tx", -1, tally, 1, "planned", 6),
        ("tx", -1, snapshot, 2, "planned", 2),
        ("canary", -1, tally, 0, "planned", 4),
        ("canary", -1, snapshot, 0, "planned", 2),
    ]


@pytest.mark.parametrize(
    ("count", "name", "expected"), [(9, "cases in the counts", 9), (10, "cases in the counts", 10), (11, "bound", 10)]
)
def test_as_many_cases_are_written_as_the_tally_count_or_the_bound(count: int, name: str, expected: int) -> None:
    evidence = inputs([booked("plain", 0, lost=count)], written={("plain", "LOST"): 4, ("tx", "LOST"): 5})
    rows = {left: rest for _, _, left, *rest in equations(evidence, "anomaly_rows")}
    assert rows.pop("rows of LOST") == [4, name, expected]
    assert rows == {f"rows of {kind}": [0, "cases in the counts", 0] for kind in Anomaly if kind != "LOST"}
    assert {arm for arm, *_ in equations(evidence, "anomaly_rows")} == {"plain"}
    assert {partition for _, partition, *_ in equations(evidence, "anomaly_rows")} == {-1}


def of_ledger(evidence: InvariantInputs, invariant: str, *words: str) -> list[Equation]:
    """Returns the equations of an invariant of the ledger whose names have all `words`."""
    return [
        tuple(row)[1:]  # type: ignore[misc]
        for row in ledger_invariants(evidence)
        if row.invariant == invariant and all(word in f"{row.left_name} = {row.right_name}" for word in words)
    ]


LEDGER = [
    census("plain", 0, attempted=7),
    census("plain", 0, attempted=70),
    census("plain", 1, attempted=5),
    census("plain", 6, attempted=3),
    census("canary", 0, attempted=2),
]


class ReadOnce:
    """A census that may be read once."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = iter([rows])

    def to_pylist(self) -> list[Row]:
        return next(self._rows)


def test_the_ledger_is_read_once_for_any_number_of_producers() -> None:
    """With one reading per producer, the invariants of a thousand arms take longer than all queries of Spark."""
    evidence = inputs()._replace(ledger_census=ReadOnce(LEDGER))
    assert len(of_ledger(evidence, "ledger_complete", "announced")) > 1


def test_the_summary_of_the_load_has_every_attempt_of_the_ledger() -> None:
    rows = list(summary_invariants(LEDGER, {"plain": (1, 2), "canary": (3, 4)}, ARMS))
    load, exposure, right = "attempts in the timeline", "attempts in silences and exposure", "ledger rows"
    assert [tuple(row) for row in rows] == [
        ("ledger_complete", "plain", -1, load, 1, right, 85),
        ("ledger_complete", "plain", -1, exposure, 2, right, 85),
        ("ledger_complete", "tx", -1, load, 0, right, 0),
        ("ledger_complete", "tx", -1, exposure, 0, right, 0),
    ]
    assert [tuple(row)[1:] for row in rows] == of_ledger(inputs(ledger=LEDGER, summarized={"plain": (1, 2)}),
                                                         "ledger_complete", "attempts in")  # fmt: skip
    with pytest.raises(ValueError, match="zip"):
        list(summary_invariants(LEDGER, {"plain": (1, 2, 3)}, ARMS))  # type: ignore[dict-item]


def test_the_ledger_has_as_many_rows_as_were_announced_for_every_producer_planned_or_not() -> None:
    announced = {"announced/plain/0/0": 77, "announced/plain/1/0": 4, "announced/tx/0/0": 1}
    evidence = inputs(ledger=LEDGER, announced=announced)
    rows = of_ledger(evidence, "ledger_complete", "= announced")
    owners = [("canary", 0), ("plain", 0), ("plain", 1), ("plain", 6), ("tx", 0), ("tx", 1)]
    assert [(arm, at) for arm, at, *_ in rows] == [(arm, -1) for arm, _ in owners]
    names = [f"ledger rows of producer {producer}, session 0" for _, producer in owners]
    assert [left for _, _, left, *_ in rows] == names
    assert [(left, right) for *_, left, _, right in rows] == [(2, -1), (77, 77), (5, 4), (3, -1), (0, 1), (0, -1)]


def test_the_ledger_has_as_many_rows_as_a_producer_counted_at_its_exit_if_it_was_not_killed() -> None:
    announced = {"attempted/plain/0/0": 77, "attempted/plain/1/0": -1, "attempted/tx/0/0": 0}
    rows = of_ledger(inputs(ledger=LEDGER, announced=announced), "ledger_complete", "counted at exit")
    assert [(arm, left[12:24], count, right) for arm, _, left, count, _, right in rows] == [
        ("canary", "of producer ", 2, -1),
        ("plain", "of producer ", 77, 77),
        ("plain", "of producer ", 3, -1),
        ("tx", "of producer ", 0, 0),
        ("tx", "of producer ", 0, -1),
    ]
    assert {partition for _, partition, *_ in rows} == {-1}


def test_the_ledger_agrees_with_the_reports_that_a_producer_counted() -> None:
    of_one = dict(zip(OUTCOMES, (1, 2, 4, 8), strict=True))
    of_other = dict(zip(OUTCOMES, (16, 32, 64, 128), strict=True))
    ledger = [census("plain", 1, **of_one), census("plain", 1, **of_other), census("plain", 0, **of_other)]
    counted = {outcomes_key(outcome, "plain/1/0"): 100 + number for number, outcome in enumerate(Outcome)}
    counted |= {outcomes_key(MISCOUNTED, "plain/1/0"): 9}
    evidence = inputs(ledger=ledger, announced=counted)
    owner = "of producer 1, session 0"
    rows = [row for row in of_ledger(evidence, "outcomes_agree", owner) if row[0] == "plain"]
    assert rows == [
        ("plain", -1, f"ledger rows {owner} that were reported as {outcome}", sum_, "counted by the producer", 100 + at)
        for at, (outcome, sum_) in enumerate(zip(Outcome, (17, 34, 68, 136), strict=True))
    ] + [("plain", -1, f"reports {owner} that a killed process counted otherwise than its ledger", 9, "zero", 0)]
    others = of_ledger(evidence, "outcomes_agree", "reported as ACKED")
    assert [(arm, left, right) for arm, _, _, left, _, right in others] == [
        ("canary", 0, -1), ("plain", 16, -1), ("plain", 17, 100), ("tx", 0, -1), ("tx", 0, -1)
    ]  # fmt: skip
    killed = of_ledger(evidence, "outcomes_agree", "a killed process")
    assert [(arm, at, left) for arm, at, _, left, *_ in killed] == [
        ("plain", -1, -1), ("plain", -1, 9), ("tx", -1, -1), ("tx", -1, -1)
    ]  # fmt: skip


def test_all_rows_of_an_arm_of_transactions_are_in_one_and_no_others_are() -> None:
    ledger = [
        census("plain", 0, attempted=7, in_transactions=1),
        census("plain", 0, attempted=2, in_transactions=4),
        census("tx", 1, attempted=9, in_transactions=8),
        census("canary", 0, attempted=2, in_transactions=1),
    ]
    rows = of_ledger(inputs(ledger=ledger), "ledger_complete", "in a transaction")
    assert [(arm, at, left[12:24] + left[24:25], count, right) for arm, at, left, count, _, right in rows] == [
        ("plain", -1, "of producer 0", 5, 0),
        ("plain", -1, "of producer 1", 0, 0),
        ("tx", -1, "of producer 0", 0, 0),
        ("tx", -1, "of producer 1", 8, 9),
    ]
    assert {name for *_, name, _ in rows} == {"that must be"}


def test_the_ledger_has_as_many_transactions_of_each_outcome_as_the_producer_counted() -> None:
    ended = Counter({("tx", 0, 0, "COMMITTED"): 5, ("tx", 0, 0, "ABORTED"): 6, ("tx", 0, 0, "INDETERMINATE"): 7})
    counted = {"transactions_begun/tx/0/0": 100, "transactions_committed/tx/0/0": 50, "transactions_aborted/tx/0/0": 13}
    evidence = inputs(views=Views(Counter(), Counter(), ended), announced=counted)
    owner, right = "of producer 0, session 0", "counted by the producer"
    rows = [row for row in of_ledger(evidence, "ledger_complete", "transactions ") if owner in row[2]]
    assert rows == [
        ("tx", -1, f"transactions COMMITTED in the ledger {owner}", 5, right, 50),
        ("tx", -1, f"transactions ABORTED in the ledger {owner}", 6, right, 13),
        ("tx", -1, f"transactions INDETERMINATE in the ledger {owner}", 7, right, 37),
    ]
    uncounted = [
        row for row in of_ledger(evidence, "ledger_complete", "transactions ", "of producer 1") if row[0] == "tx"
    ]
    assert [(left, right) for *_, left, _, right in uncounted] == [(0, -1), (0, -1), (0, 1)]


def test_a_plan_with_another_number_of_partitions_is_compared_with_that_number() -> None:
    wide: Scenario = msgspec.structs.replace(ARMS, load=msgspec.structs.replace(ARMS.load, partitions=5))
    rows = equations(inputs(scenario=wide), "partitions_complete")
    assert [right for *_, right in rows] == [15, 5, 15, 5, 10, 5]
