"""Shared offsets: acknowledged offsets of one topic and partition that more than one attempt was told.

They are counted from the ledger alone, so the count depends neither on the reading of the topics nor on the matching.
DuckDB sets one bit per acknowledged offset of a partition. Only where there are fewer bits than acknowledgements, and
outside the bounds of the snapshot, it groups the acknowledgements by offset.
"""

from __future__ import annotations

import glob
from typing import Any

import pyarrow as pa

from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.store.run_directory import StepOutput
from delivery_verifier.store.shared_offsets import MOST, MOST_ACKS, SHARED
from delivery_verifier.store.table import arrow_schema
from delivery_verifier.store.tables import SHARED_OFFSETS
from spark_jobs.checks.second_opinion import connected

MOST_BITS = 1 << 30
"""The greatest number of bits of all partitions together (128 MiB). If there were more, all acknowledgements are
grouped; DuckDB can move groups to the disk, and bits it cannot."""
_COLUMNS = ", ".join(f'"{name}"' for name in SHARED_OFFSETS.column_names)
_INSIDE = '"offset" >= "start" AND "offset" < "end"'
_SURPLUS = """CREATE TABLE suspect AS SELECT arm, "partition" FROM ack JOIN bounds USING (arm, "partition")
    WHERE {inside} GROUP BY arm, "partition"
    HAVING count(*) > bit_count(bitstring_agg("offset" - "start", 0, {widest}))"""
_EVERY = 'CREATE TABLE suspect AS SELECT arm, "partition" FROM bounds'
_SHARED = f"""CREATE TABLE shared AS
    SELECT arm, "partition", "offset" FROM ack LEFT JOIN bounds USING (arm, "partition")
    WHERE NOT coalesce({_INSIDE}, false) OR (arm, "partition") IN (FROM suspect)
    GROUP BY arm, "partition", "offset" HAVING count(*) > 1"""
_LISTED = f"""SELECT {_COLUMNS} FROM ack JOIN (
        FROM shared QUALIFY row_number() OVER (PARTITION BY arm ORDER BY "partition", "offset") <= {MOST}
    ) USING (arm, "partition", "offset")
    WHERE arm IN (SELECT arm FROM shared)
    QUALIFY row_number() OVER (PARTITION BY arm, "partition", "offset"
        ORDER BY settled_at, producer, "session", sequence, attempt) <= {MOST_ACKS}
    ORDER BY arm, "partition", "offset", settled_at, producer, sequence, attempt"""


def write(scenario: Scenario, offsets: Offsets, output: StepOutput) -> None:
    """Counts the shared offsets of each arm of the run, and lists their acknowledgements (SHARED_OFFSETS).

    `offsets`: the snapshot. Raises duckdb.Error if the ledger cannot be read, or if memory and disk do not suffice.
    """
    with output.timed("shared_offsets"):
        counts, listed = find(glob.escape(str(output.run.path / "ledger")) + "/*.parquet", offsets, output)
        output.counts |= {SHARED + arm: counts.get(arm, 0) for arm in scenario.arm_names}
        output.write_table("books/shared_offsets", listed)


def find(ledger: str, offsets: Offsets, output: StepOutput) -> tuple[dict[str, int], pa.Table]:
    """Returns the number of shared offsets of each arm that has some, and SHARED_OFFSETS. `ledger`: the files."""
    bounds = [(part.arm, part.partition, part.start, part.end) for part in offsets.partitions if part.end > part.start]
    widest = max((end - start for *_, start, end in bounds), default=0)
    fits = bounds and len(bounds) * widest <= MOST_BITS
    with connected(output.staging) as database:
        database.execute("SET TimeZone = 'UTC'")
        quoted = ledger.replace("'", "''")
        reader = f"read_parquet('{quoted}', union_by_name = true, hive_partitioning = false)"
        database.execute(f"""CREATE VIEW ack AS FROM {reader} WHERE outcome = 'ACKED' AND "offset" IS NOT NULL""")
        database.execute('CREATE TABLE bounds (arm VARCHAR, "partition" INTEGER, "start" BIGINT, "end" BIGINT)')
        if bounds:
            database.executemany("INSERT INTO bounds VALUES (?, ?, ?, ?)", bounds)
        database.execute(_SURPLUS.format(inside=_INSIDE, widest=widest) if fits else _EVERY)
        database.execute(_SHARED)
        counts: dict[str, int] = dict(database.execute("SELECT arm, count(*) FROM shared GROUP BY arm").fetchall())
        return counts, _listed(database) if counts else arrow_schema(SHARED_OFFSETS).empty_table()


def _listed(database: Any) -> pa.Table:
    listed: pa.Table = database.execute(_LISTED).to_arrow_table()
    return listed.cast(arrow_schema(SHARED_OFFSETS))
