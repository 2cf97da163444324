"""The places of copies: what the log shows of the times at which they were appended, against a plain definition."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.run_directories import attempt, line
from support.seeds import in_this_round

from delivery_verifier.model.snapshot import PartitionSnapshot
from spark_jobs.matching.append_times import BLOCK, with_append_times
from spark_jobs.schemas import ANOMALIES, LEDGER, LOG, arrow

Row = dict[str, Any]
US = 1_000_000


def a_case(sequence: int, sent: int, settled: int | None, acked: int | None, *copies: tuple[int, int]) -> Row:
    """Returns a row of ANOMALIES. `copies`: (partition, offset) of each copy."""
    row: Row = {"arm": "a", "kind": "DUPLICATED", "also": [], "producer": 0, "session": 0, "sequence": sequence}
    row |= {"attempt": 0, "partition": 0, "partition_sequence": sequence, "outcome": "ACKED", "acked_offset": acked}
    row |= {"offsets": [offset for _, offset in copies], "partitions": [partition for partition, _ in copies]}
    return row | {"sent_at": sent, "settled_at": settled, "error": None, "detail": ""}


def placed(
    spark: SparkSession, cases: list[Row], ledger: list[Row], log: list[Row], end: int = 1_000_000
) -> list[tuple[bool | None, int | None, int | None]]:
    """Returns `overwritten`, `appended_after` and `appended_before` of each case, times in µs."""

    def frame(rows: list[Row], schema: pa.Schema) -> DataFrame:
        return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema)).coalesce(1)

    parts = [_snapshot(partition, end) for partition in (0, 1)]
    table = pa.Table.from_pylist(cases, schema=arrow(ANOMALIES))
    found = with_append_times(table, frame(ledger, arrow(LEDGER)), frame(log, arrow(LOG)), parts)
    assert found.schema == table.schema and found.drop_columns(_NEW) == table.drop_columns(_NEW)
    times = [found[name].cast(pa.int64()).to_pylist() for name in _NEW[1:]]
    return list(zip(found["overwritten"].to_pylist(), *times, strict=True))


_NEW = ["overwritten", "appended_after", "appended_before"]


def _snapshot(partition: int, end: int) -> PartitionSnapshot:
    fields: Row = {"arm": "a", "topic": "t", "partition": partition, "start": 0, "end": end, "live_end": end + 2}
    return PartitionSnapshot(**fields, leader=1, leader_epoch=0)


def a_log(*records: tuple[int, int, int], partition: int = 0) -> tuple[list[Row], list[Row]]:
    """Returns ledger and log of `records`: (offset, sent, settled). Each was acknowledged where it stands."""
    ledger, log = [], []
    for sequence, (offset, sent, settled) in enumerate(records, 1000 * partition):
        times = {"sent_at": sent, "settled_at": settled, "offset": offset, "partition": partition}
        ledger.append(attempt("a", sequence) | times)
        log.append(line("a", 1, offset, sequence, partition=partition))
    return ledger, log


def test_a_copy_was_appended_between_what_stands_before_it_and_what_stands_behind_it(spark: SparkSession) -> None:
    ledger, log = a_log((10, 1_000, 1_500), (11, 3_000, 3_400), (13, 2_000, 9_000), (14, 5_000, 7_000))
    cases = [a_case(500, 0, 1, 12, (0, 12)), a_case(501, 0, 1, 11, (0, 11), (0, 14)), a_case(502, 0, 1, 9, (0, 9))]
    assert placed(spark, cases, ledger, log) == [(None, 3_000, 7_000), (None, 3_000, 7_000), (None, None, 1_500)]


def test_records_far_away_and_of_other_partitions_and_arms_say_nothing(spark: SparkSession) -> None:
    ledger, log = a_log((0, 1_000, 1_500), (5 * BLOCK, 3_000, 3_500))
    elsewhere = a_log((2 * BLOCK, 7, 8), partition=1)
    other = [row | {"arm": "b", "offset": 2 * BLOCK} for row in (*ledger[:1], *log[:1])]
    ledger, log = [*ledger, *elsewhere[0], other[0]], [*log, *elsewhere[1], other[1]]
    at = 2 * BLOCK + BLOCK // 2
    assert placed(spark, [a_case(500, 0, 1, at + 1, (0, at))], ledger, log) == [(False, None, None)]


@pytest.mark.parametrize("claimed", [{"offset": 12}, {"outcome": "INDETERMINATE"}, {"sequence": 77}, {"attempt": 1}])
def test_a_record_that_does_not_stand_where_it_was_acknowledged_says_nothing(
    spark: SparkSession, claimed: dict[str, Any]
) -> None:
    ledger, log = a_log((11, 1_000, 1_500))
    cases = [a_case(500, 9, 9, 10, (0, 10)), a_case(501, 9, 9, 11)]
    assert placed(spark, cases, ledger, log) == [(None, None, 1_500), (True, None, None)]
    assert placed(spark, cases, [ledger[0] | claimed], log) == [(None, None, None), (False, None, None)]


@pytest.mark.parametrize(
    ("case", "overwritten"),
    [
        (a_case(500, 4_000, 4_100, 11), True),  # another attempt was acknowledged there, and stands there
        (a_case(500, 4_000, 4_100, 12), False),
        (a_case(500, 1, 2_999, 12), True),  # what stands before it was sent after it had been settled
        (a_case(500, 1, 3_000, 12), False),
        (a_case(500, 7_001, 9_000, 12), True),  # what stands behind it had been settled before it was sent
        (a_case(500, 7_000, 9_000, 12), False),
        (a_case(500, 7_001, None, 12), True),
        (a_case(500, 1, None, 12), False),
        (a_case(500, 4_000, 4_100, 900), False),
        (a_case(500, 1, 2_999, 900), False),  # far from everything
        (a_case(500, 4_000, 4_100, None), None),
        (a_case(500, 4_000, 4_100, 12, (0, 12)), None),
        (a_case(500, 4_000, 4_100, 11, (1, 11)), True),  # its copy stands in another partition
        (a_case(500, 4_000, 4_100, 12, (0, 15)), False),
    ],
)
def test_the_log_was_written_anew_where_what_stands_there_was_appended_at_another_time(
    spark: SparkSession, case: Row, overwritten: bool | None
) -> None:
    ledger, log = a_log((10, 1_000, 1_500), (11, 3_000, 3_400), (13, 2_000, 9_000), (14, 5_000, 7_000))
    ((found, _, _),) = placed(spark, [case], ledger, log)
    assert found is overwritten


def test_an_offset_behind_the_end_of_the_log_is_compared_with_the_end_of_the_log(spark: SparkSession) -> None:
    ledger, log = a_log((10, 1_000, 1_500), (11, 3_000, 3_400))
    cases = [a_case(500, 1, settled, 50_000) for settled in (2_999, 3_000)]
    assert [found for found, _, _ in placed(spark, cases, ledger, log, end=12)] == [True, False]


def test_a_line_that_no_attempt_accounts_for_has_no_place(spark: SparkSession) -> None:
    ledger, log = a_log((11, 1_000, 1_500))
    assert placed(spark, [a_case(500, 0, 1, None, (0, 12)) | {"outcome": None}], ledger, log) == [(None, None, None)]


@pytest.mark.parametrize("seed", range(in_this_round(0), in_this_round(0) + 4))
def test_random_histories_are_as_the_definition_says(spark: SparkSession, seed: int) -> None:
    dice = random.Random(seed)
    ledger, log, cases = [], [], []
    for sequence in range(600):
        partition, sent = dice.randrange(2), dice.randrange(10 * US)
        acked = dice.choice([None, sequence, sequence, sequence + dice.randrange(-5, 5)])
        row = attempt("a", sequence) | {"partition": partition, "offset": acked, "sent_at": sent}
        row |= {"settled_at": sent + dice.randrange(US), "outcome": "INDETERMINATE" if acked is None else "ACKED"}
        ledger.append(row)
        if dice.random() < 0.9:
            log.append(line("a", 1, sequence, sequence, partition=partition))
        if dice.random() < 0.2:
            copies = {(dice.choice([partition, partition, 1 - partition]), dice.randrange(700)) for _ in range(2)}
            case = a_case(sequence, row["sent_at"], row["settled_at"], acked, *sorted(copies))
            cases.append(case | {"partition": partition})
    assert placed(spark, cases, ledger, log, end=600) == [_expected(case, ledger, log, 600) for case in cases]


def _expected(case: Row, ledger: list[Row], log: list[Row], end: int) -> tuple[bool | None, int | None, int | None]:
    stands = {(row["partition"], row["offset"], row["sequence"]) for row in log}
    known = [row for row in ledger if (row["partition"], row["offset"], row["sequence"]) in stands]

    def near(partition: int, offset: int) -> list[Row]:
        return [
            row for row in known if row["partition"] == partition and abs(row["offset"] // BLOCK - offset // BLOCK) <= 1
        ]

    copies = list(zip(case["partitions"], case["offsets"], strict=True))
    after = [row["sent_at"] for at, offset in copies for row in near(at, offset) if row["offset"] < offset]
    before = [row["settled_at"] for at, offset in copies for row in near(at, offset) if row["offset"] > offset]
    acked, overwritten = case["acked_offset"], None
    if acked is not None and (case["partition"], acked) not in copies:
        at = min(acked, end)
        overwritten = any(
            row["offset"] == acked
            or (row["offset"] < at and row["sent_at"] > case["settled_at"])
            or (row["offset"] > at and row["settled_at"] < case["sent_at"])
            for row in near(case["partition"], at)
        )
    return overwritten, max(after, default=None), min(before, default=None)
