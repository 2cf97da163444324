"""The second opinion on effects: a query in which DuckDB joins effects/ and log/, and counts the anomalies of effects.

Spark also counts these anomalies (`spark_jobs.effects.effect_attempts`). This module shares no code with Spark's count.
It trusts the columns of effects/, i.e. the earlier step that read them from the sinks.
"""

from __future__ import annotations

import glob
from pathlib import Path

from delivery_verifier.model.anomalies import Anomaly, subset
from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets

COLUMNS: dict[Anomaly, tuple[str, ...]] = subset(
    "the kinds of the log are counted in `spark_jobs.checks.second_opinion`",
    {
        Anomaly.SKIPPED: ("skipped",),
        Anomaly.REAPPLIED: ("reapplied",),
        Anomaly.GHOST: ("ghost",),
        Anomaly.OVERTAKEN: ("overtaken", "also_overtaken"),
    },
)
"""`QUERY` counts the cases of each kind of effects. Maps each kind to columns of the table PRODUCERS. The sum of these
columns must equal the count of `QUERY`."""
NAMES = tuple(columns[0] for columns in COLUMNS.values())
"""The names of the counts of `QUERY`, in its order."""
_READER = "read_parquet(?, union_by_name = true, hive_partitioning = false)"
_KEY = "arm, producer, session, sequence, attempt"
QUERY = f"""
WITH arms AS (
    SELECT unnest(?::VARCHAR[]) AS arm, unnest(?::INTEGER[]) AS ordinal, unnest(?::VARCHAR[]) AS shown
), ends AS (
    SELECT unnest(?::VARCHAR[]) AS arm, unnest(?::INTEGER[]) AS partition, unnest(?::BIGINT[]) AS first_marker
), copies AS (
    SELECT {_KEY}, count(*) AS copies, arg_min(partition, (log."offset", partition)) AS partition
    FROM {_READER} AS log JOIN arms USING (arm)
    WHERE log.view = shown AND parsed AND crc_ok AND header_run = ? AND header_arm = ordinal
      AND producer <> {MARKER_PRODUCER}
    GROUP BY ALL
), landed AS (
    SELECT effects.*, crc_ok AND NOT "foreign" AND producer = {MARKER_PRODUCER} AS is_marker,
           "offset" >= 0 AND coalesce(max("offset") OVER (
               PARTITION BY arm, partition ORDER BY "order", "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) > "offset", false) AS is_behind
    FROM {_READER} AS effects SEMI JOIN arms USING (arm)
), drained AS (
    SELECT DISTINCT ends.arm, ends.partition FROM ends JOIN landed ON ends.arm = landed.arm AND is_marker AND (
        (landed."offset" >= first_marker AND landed.partition = ends.partition)
        OR (landed."offset" < 0 AND landed.attempt = ends.partition AND landed.sequence = ?)
    )
), applied AS (
    SELECT {_KEY}, count(*) AS times, coalesce(arg_min(is_behind, "order"), false) AS is_late,
           count(DISTINCT (partition, "offset")) FILTER ("offset" >= 0) AS places
    FROM landed WHERE parsed AND crc_ok AND NOT "foreign" AND NOT is_marker GROUP BY ALL
), attempts AS (
    SELECT arm, coalesce(copies, 0) AS copies, coalesce(times, 0) AS times, coalesce(is_late, false) AS is_late,
           least(copies, CASE WHEN places > 0 THEN places ELSE copies END) AS most,
           drained.arm IS NOT NULL AS is_drained
    FROM copies FULL JOIN applied USING ({_KEY}) LEFT JOIN drained USING (arm, partition)
)
SELECT arm, count(*) FILTER (copies > 0 AND times = 0 AND is_drained), count(*) FILTER (copies > 0 AND times > most),
       count(*) FILTER (copies = 0 AND times > 0), count(*) FILTER (is_late)
FROM arms LEFT JOIN attempts USING (arm) GROUP BY arm
"""
"""Counts attempts per arm, in the order of NAMES. `shown` is the view of the log that consumers of the arm read. An
attempt is late if its first effect came after an effect of a record with a higher offset of the partition."""


def parameters(run_dir: Path, scenario: Scenario, offsets: Offsets) -> list[object]:
    """Returns the parameters of `QUERY` for the run in `run_dir`. The query counts the arms in `Scenario.applied`. Arms
    of which not all records are known are left out: unreadable records, or records behind an open transaction. Nobody
    knows whether such an arm has an effect too many."""
    held_back = {part.arm for part in offsets.partitions if part.held_back} & {*scenario.transactional}
    hidden = {part.arm for part in offsets.partitions if part.unreadable} | held_back
    arms = [arm for arm in scenario.arms if arm.name in scenario.applied and arm.name not in hidden]
    names = {arm.name for arm in arms}
    parts = [part for part in offsets.partitions if part.arm in names]
    log, effects = (f"{glob.escape(str(run_dir / name))}/*.parquet" for name in ("log", "effects"))
    return [
        [arm.name for arm in arms],
        [arm.ordinal for arm in arms],
        ["committed" if arm.name in scenario.transactional else "raw" for arm in arms],
        [part.arm for part in parts],
        [part.partition for part in parts],
        [part.end for part in parts],
        log,
        scenario.run_token,
        effects,
        offsets.rounds - 1,
    ]
