"""Run directories made by hand: a scenario, a ledger and a log, sealed as if all steps up to `read_topic` had run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier import canary
from delivery_verifier.catalogue import FAULTS, PROFILES
from delivery_verifier.model import record
from delivery_verifier.model.history import Injection
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Arm, Load, Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.run_directory import ledger
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from spark_jobs.schemas import LOG, arrow

TOKEN = "abcdefgh"
UNPLANNED_ARM = 9000
"""Runs that are made here have no arm with this ordinal, or with a higher one."""
START_US = 1_700_000_000_000_000
Row = dict[str, Any]


def scenario(
    arms: Sequence[str], partitions: int = 2, producers: int = 1, transactional: Collection[str] = ()
) -> Scenario:
    """Returns a scenario with the subjects `arms` (ordinals from 1) and an idle canary.

    The arms in `transactional` write transactions.
    """
    made = [
        Arm(
            name=name,
            ordinal=at,
            role="subject",
            profile=PROFILES["transactional" if name in transactional else "safe"],
            topic_name=f"t-{name}",
            producers=producers,
        )
        for at, name in enumerate(arms, 1)
    ]
    canary = Arm(name="canary", ordinal=0, role="canary", profile=PROFILES["safe"], topic_name="t-canary")
    return Scenario(
        run_id="by-hand",
        run_token=TOKEN,
        name="by-hand",
        arms=(*made, canary),
        fault=FAULTS["none"],
        load=Load(partitions=partitions),
    )


def attempt(arm: str, sequence: int, outcome: str = "ACKED", **more: Any) -> Row:
    """Returns a ledger row. Each sequence is sent 1 ms after the sequence before, and settled 500 µs later.

    `more` overrides columns of the row.
    """
    sent = START_US + sequence * 1000
    row: Row = {
        "arm": arm,
        "producer": 0,
        "session": 0,
        "sequence": sequence,
        "attempt": 0,
        "partition": 0,
        "partition_sequence": sequence,
        "outcome": outcome,
        "offset": None,
        "transaction": None,
        "transaction_outcome": None,
        "sent_at": sent,
        "settled_at": sent + 500,
        "error": None,
        "made_by": "client",
    }
    return row | more


def line(arm: str, ordinal: int, offset: int, sequence: int, **more: Any) -> Row:
    """Returns a log row of a sound record of this run. `more` overrides columns of the row."""
    row: Row = {
        "arm": arm,
        "partition": 0,
        "offset": offset,
        "view": "raw",
        "timestamp": START_US,
        "header_run": TOKEN,
        "header_arm": ordinal,
        "producer": 0,
        "session": 0,
        "sequence": sequence,
        "attempt": 0,
        "partition_sequence": sequence,
        "parsed": True,
        "crc_ok": True,
        "foreign": False,
    }
    return row | more


ILLEGIBLE: Row = dict.fromkeys(
    ("header_run", "header_arm", "producer", "session", "sequence", "attempt", "partition_sequence")
) | {"parsed": False, "crc_ok": False}
"""The columns of a log row whose bytes are no record, as far as they differ from the row of a sound record."""

OF_FOREIGN_WRITER: Row = ILLEGIBLE | {"foreign": True}
"""The columns in which the log row of a foreign writer's bytes differs from other rows."""


def canary_lines(made: Scenario, layout: canary.CanaryLayout) -> tuple[list[Row], list[int]]:
    """Returns the log's rows of the canary, in both views, and the offset of each record."""
    ends: defaultdict[int, int] = defaultdict(int)
    rows, offsets = [], []
    shown = {effect.position for effect in canary.applied(made, layout)}
    hidden = range(len(layout.values) - (layout.transactions[-1][0] if layout.transactions else 0), len(layout.values))
    assert not shown & set(hidden)
    for index, (partition, value) in enumerate(layout.values):
        offsets.append(ends[partition])
        ends[partition] += 1
        header: Any = record.parse(value)
        names = ("producer", "sequence", "attempt", "partition_sequence", "crc_ok")
        known = {name: getattr(header, name) for name in names} if header else ILLEGIBLE
        known |= {"header_arm": header.arm, "foreign": header.arm != 0} if header else {}
        rows.append(line("canary", 0, offsets[-1], 0, partition=partition) | known)
        if layout.transactions and index not in hidden:
            rows.append(rows[-1] | {"view": "committed"})
    return rows, offsets


def write(
    path: Path,
    made: Scenario,
    attempts: Sequence[Row],
    lines: Sequence[Row],
    *,
    injections: Sequence[Injection] = (),
    announced: dict[str, int] | None = None,
    counts: dict[str, int] | None = None,
    snapshot: Callable[[list[PartitionSnapshot]], list[PartitionSnapshot]] = lambda parts: parts,
    effects: Callable[[Offsets, StepOutput], None] = lambda offsets, output: None,
) -> RunDirectory:
    """Writes a whole run directory that spark_jobs/reconcile.py accepts with `--from-log`.

    `effects` writes effects/ and their counts into the output of settle.

    Counts and snapshot fit the ledger and the log, unless `announced`, `counts` or `snapshot` override them.
    """
    run = RunDirectory(path)
    with run.writing("plan") as output:
        output.write_json("scenario.json", made)
    with run.writing("produce") as output:
        _parquet(output.staging / "ledger" / "all.parquet", attempts, ledger.SCHEMA)
        output.counts |= _announced(made, attempts) | (announced or {})
    with run.writing("inject_fault") as output:
        output.write_json("injections.json", list(injections))
    with run.writing("settle") as output:
        offsets = _offsets(made, lines, snapshot)
        output.write_json("offsets.json", offsets)
        effects(offsets, output)
    with run.writing("read_topic") as output:
        _parquet(output.staging / "log" / "all.parquet", lines, arrow(LOG))
        output.counts |= _read(made, lines) | (counts or {})
    return run


def table(run: RunDirectory, name: str) -> list[Row]:
    """Returns the rows of a table that `reconcile` wrote."""
    rows: list[Row] = pq.read_table(run.path / name).to_pylist()
    return rows


def _parquet(file: Path, rows: Sequence[Row], schema: pa.Schema) -> None:
    file.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), file)


def _announced(made: Scenario, attempts: Sequence[Row]) -> dict[str, int]:
    rows = Counter((row["arm"], row["producer"]) for row in attempts)
    return (
        _transactions(made, attempts)
        | _outcomes(made, attempts)
        | {
            f"{what}/{arm.name}/{producer}/0": rows[arm.name, producer]
            for what in ("announced", "attempted")
            for arm in made.arms
            for producer in range(arm.producers)
        }
    )


def _outcomes(made: Scenario, attempts: Sequence[Row]) -> dict[str, int]:
    reports = Counter((row["arm"], row["producer"], row["outcome"]) for row in attempts if row["made_by"] == "client")
    return {
        ledger.outcomes_key(outcome, f"{arm.name}/{producer}/0"): reports[arm.name, producer, outcome]
        for outcome in (*Outcome, ledger.MISCOUNTED)
        for arm in made.arms
        for producer in range(arm.producers)
    }


def _transactions(made: Scenario, attempts: Sequence[Row]) -> dict[str, int]:
    told = {
        (row["arm"], row["producer"], row["transaction"]): row["transaction_outcome"]
        for row in attempts
        if row["transaction"]
    }
    counted = Counter((arm, producer, outcome) for (arm, producer, _), outcome in told.items())
    of = {"begun": ("COMMITTED", "ABORTED", "INDETERMINATE"), "committed": ("COMMITTED",), "aborted": ("ABORTED",)}
    return {
        f"transactions_{what}/{arm.name}/{producer}/0": sum(
            counted[arm.name, producer, outcome] for outcome in outcomes
        )
        for what, outcomes in of.items()
        for arm in made.loaded
        if arm.transactional_id
        for producer in range(arm.producers)
    }


def _read(made: Scenario, lines: Sequence[Row]) -> dict[str, int]:
    rows = Counter(row["arm"] for row in lines if row["view"] == "raw")
    visible = Counter(row["arm"] for row in lines if row["view"] == "committed")
    places = [(arm.name, partition) for arm in made.arms for partition in range(made.load.partitions)]
    views = {f"read_committed/{name}": visible[name] for name in made.transactional}
    return (
        views
        | {f"read/{arm.name}": rows[arm.name] for arm in made.arms}
        | {f"tail/{arm}/{partition}": 0 for arm, partition in places}
    )


def _offsets(
    made: Scenario,
    lines: Sequence[Row],
    snapshot: Callable[[list[PartitionSnapshot]], list[PartitionSnapshot]],
) -> Offsets:
    """Returns the snapshot. All records that the committed view lacks count as records of aborted transactions."""
    rows, seen = (
        Counter((row["arm"], row["partition"]) for row in lines if row["view"] == view) for view in ("raw", "committed")
    )
    transactional = {*made.transactional}
    parts = [
        PartitionSnapshot(
            arm=arm.name,
            topic=arm.topic_name,
            partition=partition,
            start=0,
            end=rows[arm.name, partition],
            live_end=rows[arm.name, partition] + 2,
            leader=1,
            leader_epoch=0,
            aborted_records=rows[arm.name, partition] - seen[arm.name, partition] if arm.name in transactional else 0,
        )
        for arm in made.arms
        for partition in range(made.load.partitions)
    ]
    return Offsets(bootstrap_servers="nowhere:1", taken_at_us=START_US, partitions=snapshot(parts), rounds=2)
