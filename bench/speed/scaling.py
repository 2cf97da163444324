"""Measures how a run grows with its number of records: the seconds of each step, and the peak memory of each process.

`python bench/speed/scaling.py [--sizes 20000,300000,1000000,3000000,10000000] [--replication-factor 1] [--plant]` makes
one run of each size: `kdv run --direct`, flat out, without a fault, one after the other. The default sizes take about
ten minutes and 5 GB of disk. With 3 replicas, 100,000,000 records need 60 GB of disk, with `--replication-factor 1` 20
GB.

The figures go to docs/results/scaling-DATE.md, .json and .svg. The plot shows the seconds per million records, which
must not rise with the size. The exit code is 1 if the largest run takes over a fifth more seconds per million records
than the second largest, or if a run is not HELD.

With `--plant`, the ledger of each run has a thousand wrong rows, spread over the load (bench/kit/planted.py). The exit
code is then 1 if a run is not VIOLATED, or if it does not find exactly the planted anomalies.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.kit import kdv_run, planted
from bench.kit.saved import option_parser, publish

SIZES = "20000,300000,1000000,3000000,10000000"
WORSE = 0.20
"""By how large a part the seconds per million records of the largest run may exceed those of the second largest."""

PLANTED = (sys.executable, planted.__file__)


def main() -> int:
    """Makes the runs, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--sizes", default=SIZES, help="the numbers of records, in ascending order")
    parser.add_argument("--replication-factor", type=int, default=3, choices=(1, 2, 3))
    parser.add_argument("--folder", type=Path, help="where the run directories are kept; without it, they are removed")
    parser.add_argument("--plant", action="store_true", help="write a thousand rows of each ledger down wrongly")
    arguments = parser.parse_args()
    replicas = str(arguments.replication_factor)
    options = ["--replication-factor", replicas, "--min-insync-replicas", "1" if replicas == "1" else "2"]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for records in map(int, arguments.sizes.split(",")):
            folder = arguments.folder or Path(name)
            run = kdv_run.run(records, folder, *options, program=PLANTED if arguments.plant else kdv_run.KDV)
            rows.append(row_of(records, run) | (_planted(run, records) if arguments.plant else {}))
            print(rows[-1], flush=True)
    bars = {f"{row['records']:,} records: s per million": row["s per million"] for row in rows}
    with_planted = ", with planted anomalies" if arguments.plant else ""
    publish("scaling", f"Growth with the number of records, {replicas} replicas{with_planted}", rows, bars)
    grown = len(rows) > 1 and rows[-1]["s per million"] > (1 + WORSE) * rows[-2]["s per million"]
    wrong = any(row["exit code"] != (1 if arguments.plant else 0) or row.get("differences") for row in rows)
    return 1 if grown or wrong else 0


def _planted(run: kdv_run.Measured, records: int) -> dict[str, int]:
    """Returns how many anomalies were planted, and in how many cases the run differs from them. Prints the first."""
    lines = planted.differences(run.directory, records)
    print(*lines[:10], sep="\n", file=sys.stderr)
    return {"planted": planted.expected_in(run.directory, records).total(), "differences": len(lines)}


def row_of(records: int, run: kdv_run.Measured) -> dict[str, Any]:
    """Returns the line of the table about `run`: seconds per step, in all, and per million records; and memory."""
    row: dict[str, Any] = {"records": records, **{f"{step} s": seconds for step, seconds in run.steps.items()}}
    row |= {"all s": round(run.seconds, 1), "s per million": round(run.seconds / records * 1e6, 1)}
    row |= {f"{kind} peak MB": peak for kind, peak in run.peak_mb.items()}
    row |= {f"{kind} CPU s": cpu_s for kind, cpu_s in run.cpu_s.items()}
    return row | {"exit code": run.code}


if __name__ == "__main__":
    sys.exit(main())
