"""The campaign: what takes hours. Every profile under every fault, again and again, with one Spark session.

`make campaign` or `python bench/campaign.py [--repetitions N] [--profiles a,b] [--faults x,y] [--cycles C]`. One row
per run goes to bench/results/campaign-<date>.json with date, machine and versions; an INCONCLUSIVE is repeated once
and counted. Exit code 1 if a run was not as expected.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from delivery_verifier import catalogue
from delivery_verifier.host.java.jars import spark_jars
from delivery_verifier.planning.provenance import versions_of
from delivery_verifier.run import direct


def main() -> int:
    """Runs the matrix and saves it after every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--profiles", default=",".join(catalogue.PROFILES))
    parser.add_argument("--faults", default="kill_leader,pause_leader")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--cycles", type=int, default=4)
    arguments = parser.parse_args()
    os.environ["KDV_SPARK_JARS"] = ",".join(str(jar) for jar in spark_jars())
    from spark_jobs.session import local_session

    started = datetime.datetime.now().strftime("%Y-%m-%dT%H%M")
    rows: list[dict[str, Any]] = []
    target = Path(__file__).parent / "results" / f"campaign-{started}.json"
    target.parent.mkdir(exist_ok=True)
    with local_session() as spark:
        for repetition in range(arguments.repetitions):
            for fault in arguments.faults.split(","):
                for profile in arguments.profiles.split(","):
                    fields = {
                        "profile": profile,
                        "fault": fault,
                        "records": arguments.records,
                        "cycles": arguments.cycles,
                        "seed": repetition,
                    }
                    row = _run(fields, spark)
                    if row["verdict"] == "INCONCLUSIVE":
                        row = {**_run(fields, spark), "repeated_because": row["doubts"]}
                    rows.append(row)
                    print(json.dumps(row), flush=True)
                    _save(target, rows)
    return 0 if all(row["green"] for row in rows) else 1


def _run(fields: dict[str, Any], spark: Any) -> dict[str, Any]:
    name, start = f"campaign-{time.strftime('%m%dT%H%M%S')}-{fields['profile']}-{fields['fault']}", time.monotonic()
    verdict = direct.run(fields, name, lambda *_: None, spark)
    arms = {
        arm.arm: {
            "verdict": arm.verdict,
            "attempted": arm.books.get("attempted"),
            "lost": arm.books.get("lost"),
            "extra_copies": arm.books.get("extra_copies"),
            "reordered": arm.books.get("reordered"),
            "longest_gap_s": arm.longest_gap_s,
            "exposed": sum(e.reported for e in arm.exposure),
        }
        for arm in verdict.arms
        if arm.role != "canary"
    }
    doubts = sorted({doubt.name for arm in verdict.arms for doubt in arm.doubts})
    return {
        **fields,
        "verdict": verdict.verdict,
        "green": verdict.green,
        "doubts": doubts,
        "arms": arms,
        "seconds": round(time.monotonic() - start, 1),
        "load_average": os.getloadavg()[0],
    }


def _save(target: Path, rows: list[dict[str, Any]]) -> None:
    machine = {"cpus": os.cpu_count(), "platform": platform.platform(), "versions": versions_of("4.3.1")}
    target.write_text(json.dumps({"command": " ".join(sys.argv), **machine, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
