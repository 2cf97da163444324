"""Measures what the reading of all replicas costs, compared with the reconciliation of the same run.

`python bench/speed/read_replicas.py [--records 1000000] [--save]` makes one run on the embedded cluster, without a
fault. The step settle reads every replica while it proves the end of the snapshot. It computes a SHA-256 of all batches
and the CRC-32C of each batch. The two checksums are also measured alone, over 100 MB in memory. Prints a table. The
exit code is 1 if the reading took more than a tenth of the time of the reconciliation, i.e. of the steps read_topic and
reconcile together.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pyarrow.compute as pc

from bench.kit.saved import circumstances, target
from delivery_verifier.planning.provenance import versions_of
from delivery_verifier.run_directory.replicas import read_replicas
from delivery_verifier.run_directory.run_directory import RunDirectory

ALLOWED = 0.10
"""The greatest part of the time of a reconciliation that the reading of all replicas may take."""
SIZE, BATCH = 100_000_000, 16_384
"""`SIZE`: the number of bytes over which each checksum is measured alone. `BATCH`: the number of bytes of one batch."""


def main() -> int:
    """Makes the run, and prints what the reading of its replicas cost. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--run-dir", type=Path, help="a finished run, in place of a new one")
    parser.add_argument("--save", action="store_true", help="save the table in bench/results/")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row, share = _row(RunDirectory(arguments.run_dir or _run(arguments.records, Path(folder))))
    lines = [
        f"`{' '.join(['python', *sys.argv])}`; {circumstances(versions_of('4.3.1'))}",
        "",
        "| replicas | batches | reading of all | reconciliation | share | SHA-256 of 100 MB | CRC-32C of 100 MB |",
        "|---|---|---|---|---|---|---|",
        f"{row} {_checksum_s(hashlib.sha256):.3f} s | {_checksum_s(google_crc32c.value):.3f} s |",
    ]
    print("\n".join(lines))
    if arguments.save:
        target("replicas").write_text("\n".join(lines) + "\n")
    return 0 if share <= ALLOWED else 1


def _run(records: int, folder: Path) -> Path:
    """Makes a run below `folder`, and returns its run directory."""
    command = ("run", "--direct", "--profile", "idempotent", "--fault", "none", "--records", str(records))
    subprocess.run(
        [Path(sys.executable).with_name("kdv"), *command],
        env=os.environ | {"KDV_RUNS": str(folder)},
        timeout=1800,
        check=False,  # whatever the verdict: a run without manifests has no figures
    )
    return next(file.parent for file in folder.glob("*/reconcile.json"))


def _row(run: RunDirectory) -> tuple[str, float]:
    """Returns the first cells of the table, and the time of the reading as a share of the time of the
    reconciliation."""
    replicas = read_replicas(run)
    if replicas is None or not replicas.num_rows:
        raise SystemExit(f"{run.path} has no replicas")
    reading_s = run.manifest("settle").counts["replicas_ms"] / 1000
    steps = [run.manifest(step) for step in ("read_topic", "reconcile")]
    reconciliation_s = sum(step.finished_at_us - step.started_at_us for step in steps) / 1e6
    share, batches = reading_s / reconciliation_s, pc.sum(replicas["batches"]).as_py()
    cells = f"{replicas.num_rows} | {batches:,} | {reading_s:.2f} s | {reconciliation_s:.1f} s | {share:.1%}"
    return f"| {cells} |", share


def _checksum_s(checksum: Callable[[bytes], object]) -> float:
    """Returns the seconds in which `checksum` reads SIZE bytes in memory."""
    batch = os.urandom(BATCH)
    started_s = time.monotonic()
    for _ in range(SIZE // BATCH):
        checksum(batch)
    return time.monotonic() - started_s


if __name__ == "__main__":
    sys.exit(main())
