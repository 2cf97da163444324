"""Matching: turns the claims of a foreign ledger, and the records found in its topic, into ledger/ and log/ of a run.

From there on, the run is judged as any other. DuckDB joins, because the claims may not fit in memory. Each record gets
the numbers of the claim that its identity names. What no claim names:

* A record without an identity is a foreign writer's.
* A record whose identity no claim has is also a foreign writer's if others write to the topic. If the ledger is
  complete, it is one that was never attempted. Otherwise it is an attempt that the ledger lacks, and INDETERMINATE.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.audit import queries, rows, unproven
from delivery_verifier.cluster.protocol.batches import Hidden
from delivery_verifier.model.audit import Audit
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.run_directory import ledger
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.run_directory.tables import CLAIMS, LOG

FOUND = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("id", pa.string()),
        ("producer", pa.string()),
        ("sequence", pa.int64()),
        ("hash", pa.string()),
    ]
)
"""The records found in a topic. `id`, or `producer` and `sequence`, are what the identity found, or null. `hash` is the
checksum of the value, as text; null if it was not asked for, or the value is null."""
MEMORY_MB, MOST_MB, THREADS = 450, 4_000, 2
"""The memory and threads of DuckDB. What does not fit goes to a temporary folder. Each claim or
identity that is not plain adds 1 kB, up to MOST_MB, because the steps join these by their texts."""
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": f"{MEMORY_MB}MB",
    "threads": THREADS,
    "preserve_insertion_order": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_HIDDEN = pa.schema([("partition", pa.int32()), ("first", pa.int64()), ("end", pa.int64()), ("is_open", pa.bool_())])
LOG_SCHEMA, CLAIMS_SCHEMA = arrow_schema(LOG), arrow_schema(CLAIMS)


@dataclass(frozen=True)
class Bounds:
    """The offsets [start, end) of a partition that were read."""

    start: int
    end: int


@dataclass(frozen=True)
class Matching:
    """What is matched: the claims and the records of one arm.

    * `arm`, `ordinal`, `token`: what the records' headers would name in a run of our own.
    * `claims`, `found`: files with the columns `readers.WRITTEN` and FOUND. `names`: the names of the ledger's files.
    * `bounds`: by partition. `at_us`: the time of attempts without one, in µs since the epoch.
    * `hidden`: which of the records no read_committed consumer gets.
    """

    arm: str
    ordinal: int
    token: str
    claims: Path
    found: Path
    names: tuple[str, ...]
    bounds: Mapping[int, Bounds]
    audit: Audit
    at_us: int
    hidden: Sequence[Hidden] = ()


@dataclass
class Matched:
    """The counts of a matching.

    * `producers`: how many producers the ledger has now. `announced`: by producer and outcome, how many
      attempts are claimed, and how many there are.
    * `expired`: acked claims whose offsets the log no longer has. `unknowable`: reported claims without an offset that
      were not found, though the log has lost its beginning: they may have expired. Both are left out.
    * `past_the_end`: acked offsets at or behind the end of what was read. `shared`: offsets that more than one attempt
      was told. `shared_acks`: how many acks name them.
    * `foreign_writers`, `unclaimed`: records without an identity; with one that no claim has. `gaps`: numbers between a
      producer's first and last that neither ledger nor log have.
    * `inferred`: attempts that only the log shows. `left_out`: claims that are not in the ledger of the run.
    * `aborted_records`, `open_records`: records that no read_committed consumer gets. Only the claims of the others are
      judged (see `queries`).
    * `unproven`: what could not be decided (see `audit.unproven`).
    * `examples`: the first cases of some of these counts, in words.
    * `picks`: some claims with exactly one, sound record, and its place (`found_partition`, `found_offset`).
    """

    producers: int = 0
    announced: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    expired: int = 0
    unknowable: int = 0
    past_the_end: int = 0
    shared: int = 0
    shared_acks: int = 0
    foreign_writers: int = 0
    unclaimed: int = 0
    gaps: int = 0
    inferred: int = 0
    left_out: int = 0
    aborted_records: int = 0
    open_records: int = 0
    unproven: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    picks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return sum(attempts for _, attempts in self.announced.values())


class Written(NamedTuple):
    """The files that a matching writes: the arm's parts of the tables ledger, log and claims."""

    ledger: Path
    log: Path
    claims: Path


def match(matching: Matching, files: Written, folder: Path, picks: int = 0) -> Matched:
    """Writes the files of an arm. Returns the counts. `folder` holds data that do not fit in memory. `picks`: how many
    claims to pick.

    Raises BadInput if two claims are the same attempt, or a claim names a partition that the topic does not have.
    """
    with _database(folder) as database:
        _load(database, matching)
        _refuse_doubles(database, matching)
        _refuse_partitions(database, matching)
        _run(database, queries.steps(matching.audit, bool(matching.hidden)))
        database.execute(rows.RUNS)
        (lines_run_on,) = database.execute(rows.ALL_RUN_ON).fetchone()
        _run(database, rows.numbering(matching.audit, lines_run_on))
        matched = _counts(database, matching)
        matched.picks = database.execute(rows.PICKS, [str(matching.claims), picks]).to_arrow_table().to_pylist()
        _write_log(database, matching, files.log)
        _write_ledger_and_claims(database, matching, files)
        return matched


def _write_log(database: Any, matching: Matching, file: Path) -> None:
    with _writer(file, LOG_SCHEMA, ["arm", "view", "header_run"]) as log:
        for table in _tables(database, rows.LOG, (matching.arm, matching.token, matching.ordinal)):
            log.write_table(table.cast(LOG_SCHEMA))


def _write_ledger_and_claims(database: Any, matching: Matching, files: Written) -> None:
    in_parts = matching.audit.identity.in_parts
    with ledger.writer(files.ledger) as attempts, _writer(files.claims, CLAIMS_SCHEMA, ["arm", "file"]) as claims:
        for table in _tables(database, rows.ledger_and_claims(in_parts), (matching.arm, list(matching.names))):
            attempts.write_table(table.select(ledger.SCHEMA.names).cast(ledger.SCHEMA))
            claims.write_table(table.select(CLAIMS_SCHEMA.names).cast(CLAIMS_SCHEMA))
        for table in _tables(database, rows.phantoms(in_parts), (matching.arm,)):
            claims.write_table(table.cast(CLAIMS_SCHEMA))


def _writer(file: Path, schema: pa.Schema, repeated: list[str]) -> pq.ParquetWriter:
    """`repeated`: the columns with few different values. A dictionary of the others would cost, and save nothing."""
    return pq.ParquetWriter(file, schema, compression="zstd", compression_level=1, use_dictionary=repeated)


@contextmanager
def _database(folder: Path) -> Iterator[Any]:
    """Yields a connection to an empty database in a temporary folder below `folder`, which is then removed."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix=".matching-", dir=folder) as scratch:
        settings = _SETTINGS | {"temp_directory": f"{scratch}/spilled"}
        with duckdb.connect(f"{scratch}/claims.duckdb", config=settings) as database:
            yield database


def _tables(database: Any, query: str, values: tuple[object, ...]) -> Iterator[pa.Table]:
    for batch in database.execute(query, values).to_arrow_reader(1 << 16):
        yield pa.Table.from_batches([batch])


def _load(database: Any, matching: Matching) -> None:
    database.execute("SET TimeZone = 'UTC'")
    database.execute("SET VARIABLE at_us = ?::BIGINT", [matching.at_us])
    bounds = [(number, bound.start, bound.end) for number, bound in sorted(matching.bounds.items())]
    database.execute('CREATE TABLE bounds ("partition" INTEGER, "start" BIGINT, "end" BIGINT)')
    database.executemany("INSERT INTO bounds VALUES (?, ?, ?)", bounds)
    ranges = pa.Table.from_pylist([each._asdict() for each in matching.hidden], _HIDDEN)
    database.register("ranges", ranges)
    database.execute("CREATE TABLE hidden_ranges AS FROM ranges")
    _run(database, queries.views(matching.audit, str(matching.claims), str(matching.found), bool(matching.hidden)))
    (by_offset,) = database.execute(queries.MOST_HAVE_OFFSETS).fetchone()
    _run(database, queries.plain(matching.audit, by_offset))
    (not_plain,) = database.execute(queries.NOT_PLAIN).fetchone()
    database.execute(f"SET memory_limit = '{min(MOST_MB, MEMORY_MB + not_plain // 1000)}MB'")
    _run(database, queries.others(matching.audit))


def _run(database: Any, steps: Iterable[str]) -> None:
    for query in steps:
        database.execute(query)


def _refuse_doubles(database: Any, matching: Matching) -> None:
    """Raises BadInput if two claims are one attempt, with the lines of both."""
    for query in queries.doubles(matching.audit):
        row = database.execute(query).fetchone()
        if row is not None:
            what, attempt, places = row
            lines = " and ".join(_line_name(matching, line) for line in places)
            which = f"attempt {attempt} of {what}" if matching.audit.attempts else what
            remedy = "" if matching.audit.attempts else "; if it was sent again, number the attempts in `attempt`"
            raise BadInput(f"{which} is claimed twice: {lines}{remedy}")


def _refuse_partitions(database: Any, matching: Matching) -> None:
    row = database.execute(queries.OUTSIDE).fetchone()
    if row is not None:
        line, partition = row
        raise BadInput(
            f"{_line_name(matching, line)}: partition is {partition}, which the topic does not have; allowed: 0 "
            f"to {max(matching.bounds)}; is it the ledger of this topic?"
        )


def _counts(database: Any, matching: Matching) -> Matched:
    matched = Matched()
    for name, query in rows.COUNTS.items():
        setattr(matched, name, database.execute(query).fetchone()[0] or 0)
    for name, query in unproven.COUNTS.items():
        matched.unproven[name] = database.execute(query).fetchone()[0] or 0
    matched.announced = {(row[0], row[1]): row[2:] for row in database.execute(rows.ANNOUNCED).fetchall()}
    for name, query in rows.EXAMPLES.items():
        if (row := database.execute(query).fetchone()) is not None:
            places = " and ".join(_line_name(matching, line) for line in row[2])
            matched.examples[name] = f"partition {row[0]}, offset {row[1]}: {places}"
    return matched


def _line_name(matching: Matching, line: int) -> str:
    """Returns the place of a claim in words. `line`: as in the queries."""
    file, number = divmod(line, queries.FILE)
    return f"{matching.names[file]}, line {number}"
