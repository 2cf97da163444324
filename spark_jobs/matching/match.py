"""Matching: compares ledger and log record by record, except where the screen has proven that they agree.

The screen (see `spark_jobs.matching.screen`) compares counts and sums of whole ranges of records instead.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.given_up import given_up_counts
from delivery_verifier.run_directory.run_directory import StepOutput
from spark_jobs.matching import anomalies, attempts, committed, screen, tally
from spark_jobs.matching.append_times import with_append_times
from spark_jobs.matching.census import Census
from spark_jobs.reading import unreadable
from spark_jobs.reading.parse import is_marker, is_sound
from spark_jobs.schemas import ANOMALIES, BOUNDARIES, LEDGER, LOG, arrow

FEW = 100_000
"""The limit for two numbers:

* Corrupted records: up to this number, Spark broadcasts them to every task. If there are more, Spark shuffles the
  ledger instead.
* Rows of ledger and log that are matched: up to this number, the rows are collected into one Spark partition for the
  ledger and one for the log.
"""

FEW_DAMAGED = 1_000
"""If there are more corrupted records than this number, the rows of ledger and log are not collected (see FEW). Reason:
the query that collects them has a condition that lists the offset of each corrupted record."""

REFUTED = "screen/refuted"
"""The name of the count that says that the matching refuted the screen."""


class MatchingInputs(NamedTuple):
    """Everything that the matching needs.

    * `ledger`: LEDGER.
    * `log`: the rows of LOG that a read_uncommitted consumer sees (view `raw`).
    * `visible`: the rows of LOG that a read_committed consumer sees (view `committed`).
    * `census`: the counts of the ledger and the log.
    * `offsets`: the snapshot of the offsets of every partition, and which of these offsets cannot be read.
    * `output`: the output of the step, which gets anomalies/.
    * `bound`: the maximum number of cases that are written per arm and kind.
    * `together`: whether `ledger` is in one Spark partition, and `log` is, too; if so, no query shuffles.
    """

    ledger: DataFrame
    log: DataFrame
    visible: DataFrame
    census: Census
    scenario: Scenario
    offsets: Offsets
    output: StepOutput
    bound: int
    together: bool


def match(inputs: MatchingInputs, proven: screen.Screen | None) -> tuple[pa.Table, dict[tuple[str, str], int]]:
    """Matches ledger and log. Returns PRODUCERS, and the number of rows written to anomalies/ per (arm, kind).

    `proven`: the result of the screen; None if the screen has proven nothing. Only rows that are not proven are
    matched. If the matching refutes the screen (column `astray`), everything is matched again without the screen.
    Ledger and log are joined once, and two queries share the result of the join: one query counts the subjects (see
    `spark_jobs.matching.anomalies`), the other query lists the cases.
    """
    persisted: list[DataFrame] = []
    try:
        subjects = _subjects(inputs, proven, persisted)
        counted = tally.summary_rows(subjects, inputs.scenario).toArrow().to_pylist()
        if proven is None or not any(row["astray"] for row in counted):
            counted += proven.summary_rows if proven else []
            inputs.output.counts |= tally.foreign_writers(counted, inputs.scenario)
            inputs.output.counts |= unreadable.missing(counted, inputs.offsets)
            inputs.output.counts |= given_up_counts(counted, inputs.scenario.arm_names)
            producers = tally.producers(counted, inputs.census.ledger, inputs.scenario)
            return producers, _write_anomalies(subjects, producers, inputs)
    finally:
        for frame in persisted:
            frame.unpersist()
    inputs.output.counts[REFUTED] = 1
    return match(inputs, None)


def _subjects(inputs: MatchingInputs, proven: screen.Screen | None, persisted: list[DataFrame]) -> DataFrame:
    """Returns SUBJECTS, made of the rows of ledger and log that `proven` (the result of `spark_jobs.matching.screen`)
    has not proven.

    If `proven` is None, all rows are used. Appends every frame that this function persists to `persisted`. The caller
    unpersists these frames.
    """
    corrupted, foreign = _by_arm(inputs.census.log, "corrupted"), _by_arm(inputs.census.log, "foreign")
    ledger, log, together = inputs.ledger, inputs.log, inputs.together
    if proven is not None and not together and _few_rows(inputs, proven):
        ledger, log = _collected(inputs, proven, list(corrupted))
        together = True
    owned = unattributed = aliens = None
    if corrupted:
        few = sum(corrupted.values()) <= FEW
        owners = inputs.scenario.audit is None
        attributed = attempts.attribute(ledger, log, list(corrupted), few, together, foreign_writers_have_owners=owners)
        persisted.append(attributed.persist(StorageLevel.MEMORY_AND_DISK))
        owned, unattributed = attempts.owned_copies(persisted[0]), attempts.unowned(persisted[0])
    if foreign:
        aliens = attempts.foreign(log.where(F.col("arm").isin(*foreign)), inputs.scenario)
    claims, lines = (screen.unproven(side, proven, together) for side in (ledger, attempts.believable(log)))
    resends = _has_nonzero(inputs.census.ledger, "attempt")
    routed = inputs.scenario.audit is None
    matched = attempts.attempts(claims, lines, owned, resends, together, _boundaries(inputs, proven), routed)
    matched = _with_views(matched, inputs, corrupted, persisted)
    subjects = anomalies.subjects(matched, aliens, unattributed)
    subjects = unreadable.without_unproven_losses(subjects, unreadable.ownerless(unattributed, inputs.offsets))
    persisted.append(subjects.persist(StorageLevel.MEMORY_AND_DISK))
    return persisted[-1]


def _boundaries(inputs: MatchingInputs, proven: screen.Screen | None) -> DataFrame | None:
    """Returns the BOUNDARIES of `proven`: the last records of the proven ranges. Returns None if there are none."""
    if proven is None or not proven.boundaries.num_rows:
        return None
    return inputs.ledger.sparkSession.createDataFrame(proven.boundaries, BOUNDARIES)


def _few_rows(inputs: MatchingInputs, proven: screen.Screen) -> bool:
    """Returns whether `_collected` may be used: there are few corrupted records, and few rows to collect."""
    corrupted, foreign = (sum(_by_arm(inputs.census.log, name).values()) for name in ("corrupted", "foreign"))
    return corrupted <= FEW_DAMAGED and proven.counts["screen/examined"] + corrupted + foreign <= FEW


def _collected(inputs: MatchingInputs, proven: screen.Screen, damaged: list[str]) -> tuple[DataFrame, DataFrame]:
    """Returns two frames of one Spark partition each: the rows of LEDGER, and the rows of LOG, that have to be matched.
    `proven`: the result of the screen.

    Two queries that shuffle nothing collect these rows. `damaged`: the arms with corrupted lines. The rows of LEDGER
    include every attempt that was acknowledged at the offset of a corrupted line. So `attribute` finds the owner of the
    line even if the screen has proven the owner's row.
    """
    unbelievable = ~is_sound() | F.col("foreign")
    lines = screen.unproven(
        inputs.log.where(~F.coalesce(is_marker(), F.lit(False))), proven, exempt=unbelievable
    ).toArrow()
    offsets = pc.unique(lines["offset"].filter(pc.invert(pc.and_(lines["parsed"], lines["crc_ok"])))).to_pylist()
    acked = (F.col("outcome") == Outcome.ACKED) & F.col("arm").isin(damaged) & F.col("offset").isin(offsets)
    owners = F.coalesce(acked, F.lit(False)) if offsets else None
    claims = screen.unproven(inputs.ledger, proven, exempt=owners).toArrow()
    spark = inputs.ledger.sparkSession
    tables = ((claims, LEDGER), (lines, LOG))
    ledger, log = (spark.createDataFrame(table, schema).coalesce(1) for table, schema in tables)
    return ledger, log


def _with_views(
    matched: DataFrame, inputs: MatchingInputs, corrupted: dict[str, int], persisted: list[DataFrame]
) -> DataFrame:
    """Returns `matched` with the values of the columns `aborted_visible` and `torn`. If both are false for every
    attempt, no join with `matched` is made."""
    arms = inputs.scenario.transactional
    if not arms:
        return matched
    few, damaged = sum(corrupted.values()) <= FEW, [arm for arm in corrupted if arm in arms]
    flagged = committed.visibility_anomalies(inputs.ledger, inputs.visible, arms, damaged, few).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    persisted.append(flagged)
    if not flagged.count():
        return matched
    with_flags = committed.with_flags(matched, flagged)
    if not any(part.unreadable or part.held_back for part in inputs.offsets.partitions):
        return with_flags
    unknown = unreadable.is_hidden(inputs.offsets) | committed.is_undecided(inputs.offsets)
    return with_flags.withColumn("torn", F.col("torn") & ~unknown)


def _by_arm(log_census: pa.Table, name: str) -> dict[str, int]:
    """Maps each arm to the sum of the column `name` of `log_census`. Leaves out arms whose sum is 0."""
    counts: Counter[str] = Counter()
    for row in log_census.to_pylist():
        counts[row["arm"]] += row[name]
    return dict(+counts)


def _write_anomalies(subjects: DataFrame, producers: pa.Table, inputs: MatchingInputs) -> dict[tuple[str, str], int]:
    """Writes the cases to anomalies/. Returns the number of rows in the file, per (arm, kind).

    If the tables of counts have no case, no query runs, and the file has no rows.
    """
    rows = arrow(ANOMALIES).empty_table()
    if any(row["cases"] for row in tally.cases(producers, {}, inputs.bound).to_pylist()):
        rows = anomalies.cases(subjects, inputs.bound).toArrow().cast(rows.schema)
        # Nothing is permitted to the canary, so nobody asks when its copies were appended.
        asked = [part for part in inputs.offsets.partitions if part.arm != inputs.scenario.canary.name]
        rows = with_append_times(rows, inputs.ledger, inputs.log, asked)
        rows = unreadable.with_evidence(rows, inputs.offsets)
    file = inputs.output.write_table("anomalies/cases", rows)
    written = pq.read_table(file, columns=["arm", "kind"])
    counts = written.group_by(["arm", "kind"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["arm"], row["kind"]): row["count_all"] for row in counts}


def _has_nonzero(table: pa.Table, name: str) -> bool:
    return any(value for value in table[name].to_pylist())
