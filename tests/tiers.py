"""Runs the tests tier by tier, cheapest first, prints what each took, and fails if a process is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import psutil

HERE = Path(__file__).parent
TIERS = ("unit", "quality", "spark", "kafka", "airflow", "e2e")


def main() -> int:
    """Exit code 0 if every tier passed and nothing is left running."""
    mark = f"KDV_TEST_RUN={os.getpid()}"
    os.environ["KDV_TEST_RUN"] = str(os.getpid())
    rows, totals = [], {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for tier in sys.argv[1:] or TIERS:
        print(f"== {tier}", flush=True)
        start = time.monotonic()
        with tempfile.NamedTemporaryFile(suffix=".xml") as report:
            code = subprocess.run(
                [sys.executable, "-m", "pytest", str(HERE / tier), f"--junitxml={report.name}", "--durations=5"], check=False
            ).returncode
            suite = ElementTree.parse(report.name).getroot().find("testsuite") if Path(report.name).stat().st_size else None
        counts = {key: int(suite.get(key, 0)) if suite is not None else 0 for key in totals}
        if code and not counts["failures"] + counts["errors"]:
            counts["errors"] += 1
        totals = {key: totals[key] + counts[key] for key in totals}
        rows.append((tier, time.monotonic() - start, counts))
    left = _left_behind(mark)
    for tier, seconds, counts in rows:
        print(f"{tier:<10} {seconds:7.1f} s  {counts['tests']:4d} tests, {counts['failures'] + counts['errors']} failed")
    print(f"{'all':<10} {sum(seconds for _, seconds, _ in rows):7.1f} s")
    for process in left:
        print(f"left behind: {process}")
    failed = totals["failures"] + totals["errors"] + len(left)
    print(f"{totals['tests'] - totals['failures'] - totals['errors'] - totals['skipped']} passed, {failed} failed, {totals['skipped']} skipped")
    return 1 if failed else 0


def _left_behind(mark: str) -> list[str]:
    """Processes that the tests started and that still run: they all inherit `mark` in their environment."""
    name, value = mark.split("=")
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        try:
            if process.pid != os.getpid() and process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.info['cmdline'] or [])[:150]}")
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
