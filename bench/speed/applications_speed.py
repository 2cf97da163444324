"""Compares a run in which an application applies every record with the same run without an application.

`python bench/speed/applications_speed.py [--records 10000000] [--batch 1000]` makes two runs, flat out and without a
fault. In the first run, the application `commit_after` applies all records of the subject: one member, with at most
`--batch` records in a batch. The catalogue's `commit_after` has 10 records in a batch, so that crashes between two
records can be ordered.

A row holds the seconds of each step and, for each kind of process, the peak memory of the largest process and the CPU
time of all. The seconds of the step settle contain the application's work after the load.

The figures go to docs/results/applications-speed-DATE.md, .json and .svg. The exit code is 1 if a run is not HELD.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from bench.kit import kdv_run
from bench.kit.saved import option_parser, publish
from bench.speed.scaling import row_of

NAME = "commit_after"


def main() -> int:
    """Makes both runs, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--apply", default="", help="make one run with this application, in this process")
    arguments = parser.parse_args()
    if arguments.apply:
        return _make(arguments.records, arguments.batch, arguments.apply)
    rows: list[dict[str, Any]] = []
    for application in (NAME, "none"):
        options = ["--records", arguments.records, "--batch", arguments.batch, "--apply", application]
        with tempfile.TemporaryDirectory() as name:
            run = kdv_run.measured((sys.executable, __file__, *map(str, options)), Path(name) / application)
        rows.append({"application": application} | row_of(arguments.records, run))
        print(rows[-1], flush=True)
    ratio = round(rows[0]["reconcile s"] / rows[1]["reconcile s"], 2)
    note = f"Reconcile with the application / without: **{ratio}**. A batch had at most {arguments.batch:,} records."
    bars = {f"{row['application']}: {step}": row[step] for row in rows for step in ("settle s", "reconcile s", "all s")}
    publish("applications-speed", "Applied records beside records that are only sent", rows, bars, [note])
    return 1 if any(row["exit code"] for row in rows) else 0


def _make(records: int, batch: int, application: str) -> int:
    """Makes one run with the application, or without one if it is `none`. Returns 0 if every arm met its
    expectation, else 1."""
    from delivery_verifier.catalogue.applications import APPLICATIONS
    from delivery_verifier.pipeline import direct

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that the cluster is ended
    APPLICATIONS[NAME] = msgspec.structs.replace(APPLICATIONS[NAME], batch=batch)
    params = {"profile": "idempotent", "fault": "none", "pacing": "flat_out", "records": records}
    chosen = {} if application == "none" else {"application": application}
    verdict = direct.run(params | chosen, "applied", lambda step: print(step, flush=True))
    return 0 if all(arm.as_expected for arm in verdict.arms) else 1


if __name__ == "__main__":
    sys.exit(main())
