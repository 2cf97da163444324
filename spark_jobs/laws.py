"""The laws of the books: pairs of figures that were counted independently and must be equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.history import Offsets
from delivery_verifier.model.scenario import Scenario
from spark_jobs.books import SESSIONS
from spark_jobs.committed import NONE, Views
from spark_jobs.schemas import CASES, LAWS, PARTITIONS, arrow

Rows = list[dict[str, Any]]


class Law(NamedTuple):
    """One equation; a row of books/laws.parquet. `partition` is -1 where it is about all of the arm."""

    law: str
    arm: str
    partition: int
    left_name: str
    left: int
    right_name: str
    right: int


class LawInputs(NamedTuple):
    """All that the laws are read off. `announced` are the counts of produce.json and settle.json together, `read` those
    of read_topic.json, `written` the rows really found in anomalies/ per (arm, kind)."""

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


def partitions(offsets: Offsets, log_census: pa.Table, read: Mapping[str, int]) -> pa.Table:
    """PARTITIONS: the snapshot beside what the log holds. Control records are the verifier's own markers, and those of
    transactions, which no consumer shows and which `settle` counted off the leader's batches."""
    census = {(row["arm"], row["partition"]): row for row in log_census.to_pylist()}
    rows = []
    for part in offsets.partitions:
        found = census.get((part.arm, part.partition), {"records": 0, "markers": 0})
        rows.append(
            {
                "arm": part.arm,
                "topic": part.topic,
                "partition": part.partition,
                "start": part.start,
                "end": part.end,
                "data_records": found["records"] - found["markers"],
                "control_records": found["markers"] + part.control_records,
                "tail_records": read.get(f"tail/{part.arm}/{part.partition}", -1),
            }
        )
    return pa.Table.from_pylist(rows, schema=arrow(PARTITIONS))


def cases(producers: pa.Table, written: Mapping[tuple[str, str], int], bound: int) -> pa.Table:
    """CASES: per arm and kind how many the books count, and how many rows anomalies/ has."""
    totals = _totals(producers, [column(kind) for kind in Anomaly])
    rows = []
    for arm in sorted({row["arm"] for row in producers.to_pylist()}):
        for kind in Anomaly:
            count = totals[arm, column(kind)]
            rows.append(
                {
                    "arm": arm,
                    "kind": kind.value,
                    "cases": count,
                    "written": written.get((arm, kind.value), 0),
                    "cut": count > bound,
                }
            )
    return pa.Table.from_pylist(rows, schema=arrow(CASES))


def laws(evidence: LawInputs) -> pa.Table:
    """LAWS: every law for every arm, whether it holds or not."""
    parts = partitions(evidence.offsets, evidence.log_census, evidence.read).to_pylist()
    found: list[Law] = [
        *_of_offsets(parts),
        *_of_outcomes(evidence.producers),
        *_of_lines(evidence, parts),
        *_of_ledger(evidence),
        *_of_plan(evidence, parts),
        *_of_cases(evidence),
    ]
    return pa.Table.from_pylist([law._asdict() for law in found], schema=arrow(LAWS))


def _of_offsets(parts: Rows) -> Iterable[Law]:
    for row in parts:
        arm, at = row["arm"], row["partition"]
        read = row["data_records"] + row["control_records"]
        yield Law(
            "offsets_accounted",
            arm,
            at,
            "end - start",
            row["end"] - row["start"],
            "records and control records in the log",
            read,
        )
        yield Law("start_zero", arm, at, "start offset", row["start"], "zero", 0)
        yield Law("log_moved", arm, at, "records behind the snapshot", row["tail_records"], "zero", 0)


def _of_outcomes(producers: pa.Table) -> Iterable[Law]:
    by_place: Counter[tuple[str, int, str]] = Counter()
    for row in producers.to_pylist():
        place = row["arm"], row["partition"]
        for name in ("attempted", "reported"):
            by_place[*place, name] += row[name]
        by_place[*place, "outcomes"] += row["acked"] + row["sent"] + row["failed"] + row["indeterminate"]
        by_place[*place, "found or lost"] += row["found"] + row["lost"]
    for arm, partition in sorted({(arm, partition) for arm, partition, _ in by_place}):
        for law, left, right in (
            ("outcomes_sum", "attempted", "outcomes"),
            ("reported_sum", "reported", "found or lost"),
        ):
            sides = by_place[arm, partition, left], by_place[arm, partition, right]
            yield Law(law, arm, partition, left, sides[0], right, sides[1])


def _of_lines(evidence: LawInputs, parts: Rows) -> Iterable[Law]:
    booked: Counter[tuple[str, int]] = Counter()
    for row in evidence.producers.to_pylist():
        lines = row["first_copies"] + row["extra_copies"] + row["phantoms"] + row["unattributed"]
        booked[row["arm"], row["partition"]] += lines
    in_log = {(row["arm"], row["partition"]): row["data_records"] for row in parts}
    for arm, at in sorted(booked.keys() | in_log.keys()):
        data = in_log.get((arm, at), 0)
        yield Law("log_sum", arm, at, "data records in the log", data, "lines in the books", booked[arm, at])
    logged: Counter[str] = Counter()
    for row in evidence.log_census.to_pylist():
        logged[row["arm"]] += row["records"]
    for arm in evidence.scenario.arm_names:
        read = evidence.read.get(f"read/{arm}", -1)
        yield Law("view_rows", arm, -1, "records read from Kafka", read, "rows in log/, view raw", logged[arm])
        yield from _of_views(evidence, arm)
    yield from _of_committed(evidence)


def _of_views(evidence: LawInputs, arm: str) -> Iterable[Law]:
    """Without transactions there is no committed view, and nothing in it."""
    rows = sum(count for (of, _), count in evidence.views.rows.items() if of == arm)
    same = evidence.views.same[arm]
    yield Law("views_agree", arm, -1, "rows in log/, view committed", rows, "of these the same in view raw", same)
    if arm in evidence.scenario.transactional:
        read = evidence.read.get(f"read_committed/{arm}", -1)
        yield Law("view_rows", arm, -1, "committed records read from Kafka", read, "rows in log/, view committed", rows)


def _of_committed(evidence: LawInputs) -> Iterable[Law]:
    """The committed view was read whole, by what the leader's batches say, hence neither the ledger nor a consumer."""
    for part in evidence.offsets.partitions:
        if part.arm in evidence.scenario.transactional:
            shown = part.end - part.start - part.control_records - part.aborted_records
            rows = evidence.views.rows[part.arm, part.partition]
            left = "offsets without control records and records of aborted transactions"
            yield Law("view_rows", part.arm, part.partition, left, shown, "rows in log/, view committed", rows)


def _of_ledger(evidence: LawInputs) -> Iterable[Law]:
    """A count that nobody announced is -1, which no number of rows equals."""
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
        key, who = f"{arm}/{producer}/{session}", f"of producer {producer}, session {session}"
        count = rows[arm, producer, session]
        announced = evidence.announced.get(f"announced/{key}", -1)
        yield Law("ledger_complete", arm, -1, f"ledger rows {who}", count, "announced", announced)
        attempted = evidence.announced.get(f"attempted/{key}")
        if attempted is None or attempted >= 0:  # a killed producer left no count
            right = -1 if attempted is None else attempted
            yield Law("ledger_complete", arm, -1, f"ledger rows {who}", count, "counted at exit", right)
        if arm != evidence.scenario.canary.name:
            yield from _of_transactions(evidence, (arm, producer, session), count)


def _of_transactions(evidence: LawInputs, producer: tuple[str, int, int], rows: int) -> Iterable[Law]:
    """Every row of a transactional producer is in a transaction, and there are as many as it counted; else there is
    none."""
    arm, who = producer[0], "of producer {1}, session {2}".format(*producer)
    transactional = arm in evidence.scenario.transactional
    inside = sum(
        row["in_transactions"]
        for row in evidence.ledger_census.to_pylist()
        if (row["arm"], row["producer"], row["session"]) == producer
    )
    wanted = rows if transactional else 0
    yield Law("ledger_complete", arm, -1, f"ledger rows {who} in a transaction", inside, "that must be", wanted)
    if transactional:
        key = "{}/{}/{}".format(*producer)
        begun, committed, aborted = (
            evidence.announced.get(f"transactions_{what}/{key}", -1) for what in ("begun", "committed", "aborted")
        )
        counted = {"COMMITTED": committed, "ABORTED": aborted, "INDETERMINATE": begun - committed - aborted}
        for outcome, number in counted.items():
            found = evidence.views.ended[*producer, outcome]
            left = f"transactions {outcome} in the ledger {who}"
            yield Law("ledger_complete", arm, -1, left, found, "counted by the producer", number)


def _of_plan(evidence: LawInputs, parts: Rows) -> Iterable[Law]:
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


def _of_cases(evidence: LawInputs) -> Iterable[Law]:
    for row in cases(evidence.producers, evidence.written, evidence.bound).to_pylist():
        count, name = (evidence.bound, "bound") if row["cut"] else (row["cases"], "cases in the books")
        yield Law("anomaly_rows", row["arm"], -1, f"rows of {row['kind']}", row["written"], name, count)


def _totals(producers: pa.Table, names: list[str]) -> Counter[tuple[str, str]]:
    totals: Counter[tuple[str, str]] = Counter()
    for row in producers.to_pylist():
        for name in names:
            totals[row["arm"], name] += row[name]
    return totals
