"""The laws of the books. A law says that two counts, which were made independently of each other, are equal.

A law has several equations, for example one for each partition of each arm. If the two counts of an equation differ,
the evidence of the run cannot be trusted: the verdict is then neither HELD nor VIOLATED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from delivery_verifier.model.history import Offsets
from delivery_verifier.model.scenario import Scenario
from spark_jobs.books import SESSIONS, cases, partitions
from spark_jobs.committed import NONE, Views
from spark_jobs.schemas import LAWS, arrow

Rows = list[dict[str, Any]]
"""The rows of a table, each as a mapping from column to value."""


class Law(NamedTuple):
    """One equation of a law: a row of books/laws.parquet.

    `partition` is -1 if the equation is about the whole arm. `left_name` and `right_name` say what was counted. A
    missing count is -1.
    """

    law: str
    arm: str
    partition: int
    left_name: str
    left: int
    right_name: str
    right: int


class LawInputs(NamedTuple):
    """Everything that the laws compare.

    `producers`: PRODUCERS. `ledger_census` and `log_census`: the results of `count_ledger` and `count_log`.
    `announced`: the counts of produce.json and of settle.json. `read`: the counts of read_topic.json. `written`: the
    number of rows that anomalies/ really has per (arm, kind). `bound`: the most rows that are written per arm and kind.
    `views`: counts of the committed view; NONE if no arm writes transactions.
    """

    scenario: Scenario
    offsets: Offsets
    producers: pa.Table
    ledger_census: pa.Table
    log_census: pa.Table
    announced: Mapping[str, int]
    read: Mapping[str, int]
    written: Mapping[tuple[str, str], int]
    bound: int
    views: Views = NONE


def laws(evidence: LawInputs) -> pa.Table:
    """Returns LAWS: the equations of every law, whether they hold or not.

    The law `canary` is missing here, because the judgement adds it (`judgement.evaluation`).
    """
    parts = partitions(evidence.offsets, evidence.log_census, evidence.read).to_pylist()
    equations: list[Law] = [
        *_offset_laws(parts),
        *_outcome_laws(evidence.producers),
        *_line_laws(evidence, parts),
        *_ledger_laws(evidence),
        *_plan_laws(evidence, parts),
        *_case_laws(evidence),
    ]
    return pa.Table.from_pylist([law._asdict() for law in equations], schema=arrow(LAWS))


def _offset_laws(parts: Rows) -> Iterable[Law]:
    """Yields the laws about the offsets of each partition. `parts`: rows of PARTITIONS."""
    for row in parts:
        arm, partition = row["arm"], row["partition"]
        read = row["data_records"] + row["control_records"]
        yield Law(
            "offsets_accounted",
            arm,
            partition,
            "end - start",
            row["end"] - row["start"],
            "records and control records in the log",
            read,
        )
        yield Law("start_zero", arm, partition, "start offset", row["start"], "zero", 0)
        yield Law("log_moved", arm, partition, "records behind the snapshot", row["tail_records"], "zero", 0)


def _outcome_laws(producers: pa.Table) -> Iterable[Law]:
    """Yields two laws per partition: both compare numbers of attempts by outcome. `producers`: PRODUCERS."""
    sums: Counter[tuple[str, int, str]] = Counter()
    for row in producers.to_pylist():
        key = row["arm"], row["partition"]
        for name in ("attempted", "reported"):
            sums[*key, name] += row[name]
        sums[*key, "outcomes"] += row["acked"] + row["sent"] + row["failed"] + row["indeterminate"]
        sums[*key, "found or lost"] += row["found"] + row["lost"]
    for arm, partition in sorted({(arm, partition) for arm, partition, _ in sums}):
        for law, left, right in (
            ("outcomes_sum", "attempted", "outcomes"),
            ("reported_sum", "reported", "found or lost"),
        ):
            sides = sums[arm, partition, left], sums[arm, partition, right]
            yield Law(law, arm, partition, left, sides[0], right, sides[1])


def _line_laws(evidence: LawInputs, parts: Rows) -> Iterable[Law]:
    """Yields the laws about the number of records in the log. `parts`: rows of PARTITIONS."""
    booked: Counter[tuple[str, int]] = Counter()
    for row in evidence.producers.to_pylist():
        lines = row["first_copies"] + row["extra_copies"] + row["phantoms"] + row["unattributed"]
        booked[row["arm"], row["partition"]] += lines
    in_log = {(row["arm"], row["partition"]): row["data_records"] for row in parts}
    for arm, partition in sorted(booked.keys() | in_log.keys()):
        data, lines = in_log.get((arm, partition), 0), booked[arm, partition]
        yield Law("log_sum", arm, partition, "data records in the log", data, "lines in the books", lines)
    logged: Counter[str] = Counter()
    for row in evidence.log_census.to_pylist():
        logged[row["arm"]] += row["records"]
    for arm in evidence.scenario.arm_names:
        read = evidence.read.get(f"read/{arm}", -1)
        yield Law("view_rows", arm, -1, "records read from Kafka", read, "rows in log/, view raw", logged[arm])
        yield from _view_laws(evidence, arm)
    yield from _committed_laws(evidence)


def _view_laws(evidence: LawInputs, arm: str) -> Iterable[Law]:
    """Yields two laws about the committed view of an arm, i.e. the records that a read_committed consumer sees.

    First: a read_uncommitted consumer sees equal records at the same offsets. Second: the view was written to log/
    completely. For an arm without transactions, the first law has zero on both sides, and the second is left out.
    """
    rows = sum(count for (owner, _), count in evidence.views.rows.items() if owner == arm)
    same = evidence.views.equal_rows[arm]
    yield Law("views_agree", arm, -1, "rows in log/, view committed", rows, "of these the same in view raw", same)
    if arm in evidence.scenario.transactional:
        read = evidence.read.get(f"read_committed/{arm}", -1)
        yield Law("view_rows", arm, -1, "committed records read from Kafka", read, "rows in log/, view committed", rows)


def _committed_laws(evidence: LawInputs) -> Iterable[Law]:
    """Yields an equation per partition: a read_committed consumer saw as many records as the leader's log has for it.

    The number in the leader's log is the number of offsets minus control records and aborted records. The step `settle`
    counted these records without the ledger and without a consumer.
    """
    for part in evidence.offsets.partitions:
        if part.arm in evidence.scenario.transactional:
            visible = part.end - part.start - part.control_records - part.aborted_records
            rows = evidence.views.rows[part.arm, part.partition]
            left = "offsets without control records and records of aborted transactions"
            yield Law("view_rows", part.arm, part.partition, left, visible, "rows in log/, view committed", rows)


def _ledger_laws(evidence: LawInputs) -> Iterable[Law]:
    """Yields the laws that the ledger is complete.

    -1 stands for a count that produce.json and settle.json lack. No number of rows is -1, so the law is then broken.
    """
    rows: Counter[tuple[str, int, int]] = Counter()
    for row in evidence.ledger_census.to_pylist():
        rows[row["arm"], row["producer"], row["session"]] += row["attempted"]
    planned = {
        (arm.name, producer, session)
        for arm in evidence.scenario.arms
        for producer in range(arm.producers)
        for session in range(SESSIONS)
    }
    for arm, producer, session in sorted(rows.keys() | planned):
        key, owner = f"{arm}/{producer}/{session}", f"of producer {producer}, session {session}"
        count = rows[arm, producer, session]
        announced = evidence.announced.get(f"announced/{key}", -1)
        yield Law("ledger_complete", arm, -1, f"ledger rows {owner}", count, "announced", announced)
        attempted = evidence.announced.get(f"attempted/{key}")
        if attempted is None or attempted >= 0:  # negative: the producer was killed and left no count
            right = -1 if attempted is None else attempted
            yield Law("ledger_complete", arm, -1, f"ledger rows {owner}", count, "counted at exit", right)
        if arm != evidence.scenario.canary.name:
            yield from _transaction_laws(evidence, (arm, producer, session), count)


def _transaction_laws(evidence: LawInputs, producer: tuple[str, int, int], rows: int) -> Iterable[Law]:
    """Yields the laws about the transactions of one producer. `rows`: the number of its rows in the ledger.

    All rows of a transactional producer are in a transaction. No row of any other producer is in a transaction. For
    each outcome, the ledger has as many transactions of the producer as the producer counted.
    """
    arm, owner = producer[0], "of producer {1}, session {2}".format(*producer)
    transactional = arm in evidence.scenario.transactional
    inside = sum(
        row["in_transactions"]
        for row in evidence.ledger_census.to_pylist()
        if (row["arm"], row["producer"], row["session"]) == producer
    )
    expected = rows if transactional else 0
    yield Law("ledger_complete", arm, -1, f"ledger rows {owner} in a transaction", inside, "that must be", expected)
    if transactional:
        key = "{}/{}/{}".format(*producer)
        begun, committed, aborted = (
            evidence.announced.get(f"transactions_{what}/{key}", -1) for what in ("begun", "committed", "aborted")
        )
        counted = {"COMMITTED": committed, "ABORTED": aborted, "INDETERMINATE": begun - committed - aborted}
        for outcome, number in counted.items():
            ended = evidence.views.transactions[*producer, outcome]
            left = f"transactions {outcome} in the ledger {owner}"
            yield Law("ledger_complete", arm, -1, left, ended, "counted by the producer", number)


def _plan_laws(evidence: LawInputs, parts: Rows) -> Iterable[Law]:
    """Yields two equations per arm: books and snapshot have as many rows as planned. `parts`: rows of PARTITIONS."""
    books = Counter(row["arm"] for row in evidence.producers.to_pylist())
    snapshot = Counter(row["arm"] for row in parts)
    width = evidence.scenario.load.partitions
    for arm in evidence.scenario.arms:
        planned = width * (arm.producers * SESSIONS + 1)
        yield Law("partitions_complete", arm.name, -1, "rows in the books", books[arm.name], "planned", planned)
        yield Law(
            "partitions_complete",
            arm.name,
            -1,
            "partitions in the snapshot",
            snapshot[arm.name],
            "planned",
            width,
        )


def _case_laws(evidence: LawInputs) -> Iterable[Law]:
    """Yields an equation per arm and kind: anomalies/ has a row for each case in the books, at most `bound` rows."""
    for row in cases(evidence.producers, evidence.written, evidence.bound).to_pylist():
        count, name = (evidence.bound, "bound") if row["cut"] else (row["cases"], "cases in the books")
        yield Law("anomaly_rows", row["arm"], -1, f"rows of {row['kind']}", row["written"], name, count)
