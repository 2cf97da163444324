"""The second opinion: DuckDB joins ledger/, log/ and effects/, and counts a part of the counts a second time.

Spark makes the counts. This module shares no matching code with Spark, so an error in Spark's matching makes the two
counts differ. This module uses only the columns of ledger/, log/ and effects/. It trusts the reading of the topics,
i.e. the columns that `spark_jobs.reading.parse` sliced from each record.

If an arm has damaged records, only the number of its damaged records is compared. Reason: the counts have a rule that
assigns damaged records to attempts, and this module has no such rule. A large run has no second opinion
(`run_directory.tally.has_second_opinion`).
"""

from __future__ import annotations

import glob
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.run_directory.tally import SECOND_OPINION, has_second_opinion
from spark_jobs.checks.effects_opinion import COLUMNS, NAMES, QUERY, parameters
from spark_jobs.checks.invariant import Invariant

MEMORY = "1GB"
"""The most memory that DuckDB may use. Data that do not fit are moved to files in a temporary folder."""
THREADS = 2
"""The number of threads of DuckDB. Each further thread would take a part of MEMORY for itself."""
COUNTS = subset(
    "the other kinds need the order of records, their owners or the ends of transactions; DUPLICATED: `extra_copies`",
    ("reported", "found", "lost", "extra_copies", "misrouted"),
)
"""The columns of the table PRODUCERS that are counted a second time."""

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": MEMORY,
    "threads": THREADS,
    "preserve_insertion_order": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_READER = "read_parquet(?, union_by_name = true, hive_partitioning = false)"
_QUERY = f"""
WITH arms AS (
    SELECT unnest(?::VARCHAR[]) AS arm, unnest(?::INTEGER[]) AS ordinal
), lines AS (
    SELECT arm, producer, session, sequence, attempt, partition, parsed AND crc_ok AS sound,
           header_run = ? AS of_run, of_run AND header_arm = ordinal AS own,
           of_run AND NOT own AND list_contains(?::INTEGER[], header_arm) AS stray
    FROM {_READER} JOIN arms USING (arm) WHERE view = 'raw'
), copies AS (
    SELECT arm, producer, session, sequence, attempt, count(*) AS copies, min(partition) AS least,
           max(partition) AS greatest
    FROM lines WHERE sound AND own GROUP BY ALL
), claims AS (
    SELECT arm, outcome IN ('ACKED', 'SENT') AS is_reported, outcome <> 'FAILED' AS may_be_there,
           coalesce(copies, 0) AS copies, copies > 0 AND (least <> partition OR greatest <> partition) AS is_misrouted
    FROM {_READER} LEFT JOIN copies USING (arm, producer, session, sequence, attempt)
), counts AS (
    SELECT arm,
           count(*) FILTER (is_reported) AS reported,
           count(*) FILTER (is_reported AND copies > 0) AS found,
           count(*) FILTER (is_reported AND copies = 0) AS lost,
           sum(copies - 1) FILTER (may_be_there AND copies > 1) AS extra_copies,
           count(*) FILTER (? AND may_be_there AND is_misrouted) AS attempts_misrouted
    FROM claims GROUP BY arm
), of_lines AS (
    SELECT arm, count(*) FILTER (NOT sound) AS damaged, count(*) FILTER (sound AND stray) AS strays
    FROM lines GROUP BY arm
), whole AS (
    SELECT arms.arm, damaged, counts.* EXCLUDE arm, coalesce(attempts_misrouted, 0) + coalesce(strays, 0) AS misrouted
    FROM arms LEFT JOIN counts USING (arm) LEFT JOIN of_lines USING (arm)
)
SELECT arm, coalesce(damaged, 0) AS damaged, {", ".join(f"coalesce({name}, 0)::BIGINT AS {name}" for name in COUNTS)}
FROM whole
"""

Opinion = dict[str, dict[str, int]]
"""Maps each arm to its counts. These are the counts in COUNTS, and `damaged`: the number of records in log/ that cannot
be parsed or have a wrong checksum. An arm with an application also has the counts in NAMES."""


def opinion(scenario: Scenario, offsets: Offsets, output: StepOutput) -> Opinion | None:
    """Returns the counts that DuckDB makes from the tables of a run. `output` is the output of the run's step
    reconcile.

    Returns None if the run is too large for a second opinion.
    """
    if not has_second_opinion(offsets):
        return None
    with output.timed("second_opinion"):
        counted = count(output.run.path, scenario, output.staging)
        if scenario.applied:
            for arm, counts in _count_effects(output.run.path, scenario, offsets, output.staging).items():
                counted[arm] |= counts
        return counted


def count(run_dir: Path, scenario: Scenario, folder: Path) -> Opinion:
    """Returns the counts that DuckDB makes from ledger/ and log/ of `run_dir`. Data that do not fit into MEMORY go to a
    temporary folder in `folder`, which is removed at the end.

    Raises duckdb.Error if a file cannot be read, or if memory and disk together do not suffice.
    """
    ledger, log = (f"{glob.escape(str(run_dir / name))}/*.parquet" for name in ("ledger", "log"))
    arms = [arm.name for arm in scenario.arms], [arm.ordinal for arm in scenario.arms]
    routed = scenario.audit is None  # as in `spark_jobs.matching.attempts`
    rows = _rows(_QUERY, [*arms, scenario.run_token, arms[1], log, ledger, routed], folder)
    return {arm: dict(zip(("damaged", *COUNTS), counts, strict=True)) for arm, *counts in rows}


def _count_effects(run_dir: Path, scenario: Scenario, offsets: Offsets, folder: Path) -> Opinion:
    """Returns, for each arm whose effects DuckDB counts, the counts from effects/ and log/ of `run_dir`."""
    rows = _rows(QUERY, parameters(run_dir, scenario, offsets), folder)
    return {arm: dict(zip(NAMES, counts, strict=True)) for arm, *counts in rows}


def _rows(query: str, values: list[object], folder: Path) -> list[tuple[Any, ...]]:
    """Returns the rows of `query` with the parameters `values`. Data that do not fit into MEMORY go to a temporary
    folder in `folder`."""
    with connected(folder) as connection:
        rows: list[tuple[Any, ...]] = connection.execute(query, values).fetchall()
        return rows


@contextmanager
def connected(folder: Path) -> Iterator[Any]:
    """Yields a connection to an empty database in memory. Data that do not fit into MEMORY go to a temporary folder in
    `folder`."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix=".second-opinion-", dir=folder) as spilled:
        with duckdb.connect(config=_SETTINGS | {"temp_directory": spilled}) as connection:
            yield connection


def opinion_invariants(
    counted: Mapping[str, Mapping[str, int]], producers: pa.Table, log_census: pa.Table
) -> Iterable[Invariant]:
    """Yields the invariant that DuckDB and Spark have the same counts. The invariant has one row for each arm and
    count.

    `counted`: the counts of DuckDB. `producers`: PRODUCERS. `log_census`: `Census.log`. If an arm has damaged records,
    the arm's only row is about the number of these records.
    """
    damaged, booked = _sums(log_census, "corrupted"), _sums(producers, *COUNTS)
    for arm, counts in counted.items():
        yield _equation(arm, "damaged records in log/", counts["damaged"], damaged[arm, "corrupted"])
        for name in COUNTS if not counts["damaged"] else ():
            yield _equation(arm, name.replace("_", " "), counts[name], booked[arm, name])
        for name, columns in zip(NAMES, COLUMNS.values(), strict=True) if not counts["damaged"] else ():
            if name in counts:
                yield _equation(arm, name, counts[name], sum(_sums(producers, each)[arm, each] for each in columns))


def _equation(arm: str, what: str, by_duckdb: int, by_spark: int) -> Invariant:
    return Invariant(
        SECOND_OPINION, arm, -1, f"{what}, counted by DuckDB", by_duckdb, f"{what}, counted by Spark", by_spark
    )


def _sums(table: pa.Table, *names: str) -> Counter[tuple[str, str]]:
    """Returns the sum of each column in `names` for each arm. The keys are (arm, column)."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in table.to_pylist():
        for name in names:
            sums[row["arm"], name] += row[name]
    return sums
