"""Measures what the second opinion costs: DuckDB's count of ledger/ and log/, beside the reconciliation of the run.

`python bench/speed/second_opinion.py [--records 1000000] [--alone] [--memory 1GB]` makes a run directory with that
many records, without a cluster. A few of the records are lost, and a few are duplicated. Prints how long the second
half of the reconciliation takes, and how much of this time the second opinion takes. Also prints the most memory that
this process, in which DuckDB runs, has used. With `--alone`, Spark is not started. The exit code is 1 if an invariant
is broken.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.kit.saved import circumstances, option_parser
from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Load
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.planning.provenance import versions_of
from delivery_verifier.run_directory import ledger
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.checks import second_opinion
from spark_jobs.schemas import LOG, arrow

ARM, ODD = "acks_0", 999
"""ARM is the only arm that has records. Of its records, the last ODD are lost, and the first ODD are duplicated."""


def main() -> int:
    """Makes the run directory, and prints what the second opinion on it costs. Returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--alone", action="store_true", help="count with DuckDB alone")
    parser.add_argument("--memory", default=second_opinion.MEMORY, help="the memory that DuckDB may use, e.g. 100MB")
    arguments = parser.parse_args()
    second_opinion._SETTINGS["memory_limit"] = arguments.memory
    print(f"`{' '.join(['python', *sys.argv])}`; {circumstances(versions_of('4.3.1'))}; load {os.getloadavg()}")
    with tempfile.TemporaryDirectory() as folder:
        run = written(RunDirectory(Path(folder) / "run"), arguments.records)
        print(f"memory before: {_peak_mb()} MB", flush=True)
        return _alone(run) if arguments.alone else _beside_spark(run, arguments.records)


def written(run: RunDirectory, records: int) -> RunDirectory:
    """Writes into `run` all that the second half of a reconciliation needs. Only one producer, of ARM, sends records:
    about `records` in all, to all partitions."""
    planned = scenario(run.path.name, profile=PROFILES[ARM], fault=FAULTS["none"], load=Load(), records=records)
    width = planned.load.partitions
    records -= records % width  # so that offsets are dense
    with run.writing("plan") as output:
        output.write_json("scenario.json", planned)
    with run.writing("produce") as output:
        _write(output.staging / "ledger", _claims(records, width), ledger.SCHEMA)
        for arm in planned.arms:
            for producer in range(arm.producers):
                name, count = f"{arm.name}/{producer}/0", records if arm.name == ARM else 0
                output.counts |= {f"announced/{name}": count, f"attempted/{name}": count}
                output.counts |= {ledger.outcomes_key(outcome, name): 0 for outcome in (*Outcome, ledger.MISCOUNTED)}
                output.counts[ledger.outcomes_key(Outcome.SENT, name)] = count
    with run.writing("inject_fault") as output:
        output.write_json("injections.json", [])
    lines = _lines(records, width, planned.run_token, planned.arm(ARM).ordinal)
    ends = {(ARM, number): int((lines["partition"] == number).sum()) for number in range(width)}
    parts = [
        PartitionSnapshot(
            arm=arm.name,
            topic=arm.topic_name,
            partition=number,
            start=0,
            end=end,
            live_end=end,
            leader=1,
            leader_epoch=0,
        )
        for arm in planned.arms
        for number in range(width)
        for end in [ends.get((arm.name, number), 0)]
    ]
    with run.writing("settle") as output:
        output.write_json("offsets.json", Offsets(bootstrap_servers="nowhere:1", taken_at_us=0, partitions=parts))
    with run.writing("read_topic") as output:
        _write(output.staging / "log", lines, arrow(LOG))
        output.counts |= {f"read/{arm.name}": sum(ends.values()) if arm.name == ARM else 0 for arm in planned.arms}
        output.counts |= {f"tail/{part.arm}/{part.partition}": 0 for part in parts}
    return run


def _claims(records: int, width: int) -> dict[str, object]:
    sequence = np.arange(records)
    return {
        "sequence": sequence,
        "partition": sequence % width,
        "partition_sequence": sequence // width,
        "outcome": "SENT",
        "sent_at": 1_700_000_000_000_000 + sequence * 10,
        "settled_at": 1_700_000_000_000_500 + sequence * 10,
        "made_by": "client",
    }


def _lines(records: int, width: int, token: str, ordinal: int) -> dict[str, object]:
    """The log: all records except the last ODD. Behind them stand the first ODD records again."""
    sequence = np.concatenate([np.arange(records - ODD), np.arange(ODD)])
    return {
        "sequence": sequence,
        "partition": sequence % width,
        "partition_sequence": sequence // width,
        "offset": np.concatenate([sequence[: records - ODD], np.arange(records - ODD, records)]) // width,
        "view": "raw",
        "timestamp": 1_700_000_000_000_000,
        "header_run": token,
        "header_arm": ordinal,
        "parsed": True,
        "crc_ok": True,
        "foreign": False,
    }


def _write(folder: Path, columns: dict[str, object], schema: pa.Schema) -> None:
    """Writes a table in four files. If a column is missing in `columns`, `arm` is ARM, and `producer`, `session` and
    `attempt` are 0. Any other missing column is null."""
    size = len(columns["sequence"])  # type: ignore[arg-type]
    arrays = []
    for field in schema:
        value = columns.get(field.name, ARM if field.name == "arm" else None)
        if value is None and field.name in ("producer", "session", "attempt"):
            value = 0
        array = pa.array(value) if isinstance(value, np.ndarray) else pa.repeat(pa.scalar(value), size)
        arrays.append(array.cast(field.type))
    table = pa.table(arrays, schema=schema)
    folder.mkdir(parents=True)
    for part in range(4):
        begin, end = (size * bound // 4 for bound in (part, part + 1))
        pq.write_table(table.slice(begin, end - begin), folder / f"{part}.parquet", compression="zstd")


def _alone(run: RunDirectory) -> int:
    """Counts with DuckDB alone, and prints how long this took. Returns the exit code."""
    began_s = time.monotonic()
    counts = second_opinion.count(run.path, run.read_scenario(), run.path)[ARM]
    print(f"second opinion: {time.monotonic() - began_s:.1f} s; memory: {_peak_mb()} MB; {counts}")
    return 0 if (counts["lost"], counts["extra_copies"]) == (ODD, ODD) else 1


def _beside_spark(run: RunDirectory, records: int) -> int:
    """Reconciles twice in one Spark session, and prints the costs of both. The first reconciliation also warms the JVM.
    Returns the exit code."""
    from spark_jobs.reconcile import reconcile
    from spark_jobs.session.classic import end, local_session

    spark, broken = local_session(records), 0
    try:
        for _ in range(2):
            began_s = time.monotonic()
            reconcile(run.path, True, spark)
            whole_s, own_s = time.monotonic() - began_s, run.manifest("reconcile").counts["second_opinion_ms"] / 1000
            print(f"reconcile: {whole_s:.1f} s; second opinion: {own_s:.1f} s of these; memory: {_peak_mb()} MB")
            invariants = pq.read_table(run.path / "counts/invariants.parquet").to_pylist()
            broken += sum(row["left"] != row["right"] for row in invariants)
    finally:
        end(spark)
    print(f"equations of invariants that are broken: {broken}")
    return 1 if broken else 0


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main())
