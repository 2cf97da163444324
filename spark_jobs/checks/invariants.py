"""The invariants of the counts. An invariant says that two counts are equal.

The two counts are made independently of each other, with one exception. For records that the screen has proven, the
number of attempted records and the number of found records are the same count. Other invariants check that these
records were read and counted at all (docs/adr/0014), and `spark_jobs.checks.second_opinion` counts all records once
more.

An invariant holds in several places, for example in each partition of each arm. The table INVARIANTS has one row for
each place, with the two counts there. If the two counts of a row differ, the evidence of the run cannot be trusted: the
verdict is then neither HELD nor VIOLATED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from delivery_verifier.model.unreadable import count_unreadable
from delivery_verifier.run_directory.tally import MISSING, START_ZERO
from spark_jobs.checks.effect_invariants import effect_invariants
from spark_jobs.checks.invariant import Invariant, InvariantInputs, Rows
from spark_jobs.checks.ledger_invariants import ledger_invariants
from spark_jobs.checks.second_opinion import opinion_invariants
from spark_jobs.matching.tally import SESSIONS, cases, partitions
from spark_jobs.reading import unreadable
from spark_jobs.schemas import INVARIANTS, arrow


def invariants(evidence: InvariantInputs) -> pa.Table:
    """Returns INVARIANTS: one row for each place in which an invariant must hold, whether the two counts of this row
    are equal or not.

    The invariant `canary` is missing here, because the judgement adds it (`verdict.evaluation`).
    """
    parts = partitions(evidence.offsets, evidence.log_census, evidence.read).to_pylist()
    equations: list[Invariant] = [
        *_offset_invariants(parts, has_start_zero=evidence.scenario.audit is None),
        *_outcome_invariants(evidence.producers, evidence.missing),
        *_line_invariants(evidence, parts),
        *ledger_invariants(evidence),
        *_plan_invariants(evidence, parts),
        *_case_invariants(evidence),
    ]
    if evidence.opinion is not None:
        equations += opinion_invariants(evidence.opinion, evidence.producers, evidence.log_census)
    if evidence.effects is not None:
        equations += effect_invariants(evidence.scenario, evidence.producers, evidence.effects, evidence.announced)
    return pa.Table.from_pylist([invariant._asdict() for invariant in equations], schema=arrow(INVARIANTS))


def _offset_invariants(parts: Rows, has_start_zero: bool) -> Iterable[Invariant]:
    """Yields the invariants about the offsets of each partition. `parts`: rows of PARTITIONS. `has_start_zero`: whether
    the log must begin at offset 0."""
    for row in parts:
        arm, partition = row["arm"], row["partition"]
        read = row["data_records"] + row["control_records"]
        yield Invariant(
            "offsets_accounted",
            arm,
            partition,
            "end - start",
            row["end"] - row["start"],
            "records and control records in the log",
            read,
        )
        if has_start_zero:
            yield Invariant(START_ZERO, arm, partition, "start offset", row["start"], "zero", 0)
        yield Invariant("log_moved", arm, partition, "records behind the snapshot", row["tail_records"], "zero", 0)


def _outcome_invariants(producers: pa.Table, missing: Mapping[str, int]) -> Iterable[Invariant]:
    """Yields two invariants per partition. `producers`: PRODUCERS. `missing`: the counts `missing/...` of the manifest.

    1. The number of attempts is the sum over all outcomes of the number of attempts with this outcome.
    2. The number of reported attempts is the sum of three numbers: those of the found, lost and missing attempts.
    """
    sums: Counter[tuple[str, int, str]] = Counter()
    for row in producers.to_pylist():
        key = row["arm"], row["partition"]
        for name in ("attempted", "reported"):
            sums[*key, name] += row[name]
        sums[*key, "outcomes"] += row["acked"] + row["sent"] + row["failed"] + row["indeterminate"]
        sums[*key, "found or lost"] += row["found"] + row["lost"]
    for arm, partition in sorted({(arm, partition) for arm, partition, _ in sums}):
        for invariant, left, right in (
            ("outcomes_sum", "attempted", "outcomes"),
            ("reported_sum", "reported", "found or lost"),
        ):
            sides = sums[arm, partition, left], sums[arm, partition, right]
            absent = missing.get(f"{MISSING}{arm}/{partition}", 0) if invariant == "reported_sum" else 0
            name = "found, lost or missing" if absent else right
            yield Invariant(invariant, arm, partition, left, sides[0], name, sides[1] + absent)


def _line_invariants(evidence: InvariantInputs, parts: Rows) -> Iterable[Invariant]:
    """Yields the invariants about the number of records in the log. `parts`: rows of PARTITIONS."""
    booked: Counter[tuple[str, int]] = Counter()
    for row in evidence.producers.to_pylist():
        lines = row["first_copies"] + row["extra_copies"] + row["phantoms"] + row["unattributed"]
        booked[row["arm"], row["partition"]] += lines
    in_log = {(row["arm"], row["partition"]): row["data_records"] for row in parts}
    for arm, partition in sorted(booked.keys() | in_log.keys()):
        data, lines = in_log.get((arm, partition), 0), booked[arm, partition]
        yield Invariant("log_sum", arm, partition, "data records in the log", data, "lines in the counts", lines)
    logged: Counter[str] = Counter()
    for row in evidence.log_census.to_pylist():
        logged[row["arm"]] += row["records"]
    lacking: Counter[str] = Counter()
    for part in evidence.offsets.partitions:
        lacking[part.arm] += unreadable.count(part)
    for arm in evidence.scenario.arm_names:
        read, name = evidence.read.get(f"read/{arm}", -1), "records read from Kafka"
        if lacking[arm]:
            read, name = read + lacking[arm], f"{name}, and unreadable offsets"
        yield Invariant("view_rows", arm, -1, name, read, "rows in log/, view raw", logged[arm])
    yield from _views_agree(evidence)
    yield from _committed_count(evidence)


def _views_agree(evidence: InvariantInputs) -> Iterable[Invariant]:
    """Yields two invariants about the committed view of each arm, i.e. the records that a read_committed consumer sees.

    1. For each record of this view, the raw view has an equal record at the same offset. For an arm without
       transactions, both counts are 0.
    2. log/ holds the complete view. For an arm without transactions, this invariant is left out.
    """
    rows: Counter[str] = Counter()
    for (arm, _), count in evidence.views.rows.items():
        rows[arm] += count
    transactional = {*evidence.scenario.transactional}
    in_log = "rows in log/, view committed"
    for arm in evidence.scenario.arm_names:
        same = evidence.views.equal_rows[arm]
        yield Invariant("views_agree", arm, -1, in_log, rows[arm], "of these the same in view raw", same)
        if arm in transactional:
            read = evidence.read.get(f"read_committed/{arm}", -1)
            yield Invariant("view_rows", arm, -1, "committed records read from Kafka", read, in_log, rows[arm])


def _committed_count(evidence: InvariantInputs) -> Iterable[Invariant]:
    """Yields the invariant that a read_committed consumer saw as many records as the log must show to this consumer.
    There is one row per partition of the transactional arms.

    The log must show one record per offset, with three exceptions: control records, records of aborted transactions,
    and unreadable offsets. The step `settle` counted these exceptions without the ledger and without a consumer. If an
    open transaction holds back the last stable offset, the view ends there.
    """
    transactional = {*evidence.scenario.transactional}
    for part in evidence.offsets.partitions:
        if part.arm in transactional:
            lacking = count_unreadable(part.unreadable, part.start, part.visible_end)
            visible = part.visible_end - part.start - part.visible_controls - part.aborted_records - lacking
            rows = evidence.views.rows[part.arm, part.partition]
            left = "offsets without control records and records of aborted transactions"
            left += ", and without unreadable offsets" if lacking else ""
            yield Invariant("view_rows", part.arm, part.partition, left, visible, "rows in log/, view committed", rows)


def _plan_invariants(evidence: InvariantInputs, parts: Rows) -> Iterable[Invariant]:
    """Yields two invariants for each arm: the counts have as many rows as planned, and the snapshot has as many rows as
    planned. `parts`: rows of PARTITIONS."""
    tally = Counter(row["arm"] for row in evidence.producers.to_pylist())
    snapshot = Counter(row["arm"] for row in parts)
    width = evidence.scenario.load.partitions
    for arm in evidence.scenario.arms:
        planned = width * (arm.producers * SESSIONS + 1)
        yield Invariant("partitions_complete", arm.name, -1, "rows in the counts", tally[arm.name], "planned", planned)
        yield Invariant(
            "partitions_complete",
            arm.name,
            -1,
            "partitions in the snapshot",
            snapshot[arm.name],
            "planned",
            width,
        )


def _case_invariants(evidence: InvariantInputs) -> Iterable[Invariant]:
    """Yields an invariant for each arm and kind: anomalies/ has a row for each case in the counts, but at most
    `InvariantInputs.bound` rows."""
    for row in cases(evidence.producers, evidence.written, evidence.bound).to_pylist():
        count, name = (evidence.bound, "bound") if row["cut"] else (row["cases"], "cases in the counts")
        yield Invariant("anomaly_rows", row["arm"], -1, f"rows of {row['kind']}", row["written"], name, count)
