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
ENDS_WITHIN_S = 30.0
TIERS = ("unit", "quality", "spark", "kafka", "airflow", "e2e")


def main() -> int:
    """Exit code 0 if every tier passed and nothing is left running."""
    mark = f"KDV_TEST_RUN={os.getpid()}"
    os.environ["KDV_TEST_RUN"] = str(os.getpid())
    left: dict[str, str] = {}
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
        left |= {process: tier for process in _left_behind(mark) if process not in left}
    for tier, seconds, counts in rows:
        print(f"{tier:<10} {seconds:7.1f} s  {counts['tests']:4d} tests, {counts['failures'] + counts['errors']} failed")
    print(f"{'all':<10} {sum(seconds for _, seconds, _ in rows):7.1f} s")
    for process, tier in left.items():
        print(f"left behind by {tier}: {process}")
    failed = totals["failures"] + totals["errors"] + len(left)
    print(f"{totals['tests'] - totals['failures'] - totals['errors'] - totals['skipped']} passed, {failed} failed, {totals['skipped']} skipped")
    return 1 if failed else 0


def _left_behind(mark: str) -> list[str]:
    """Processes that the tests started and that still run after 30 s: all inherit `mark` in their environment.

    A JVM whose Python has just exited notices it by the end of its standard input, and takes seconds to stop.
    """
    deadline = time.monotonic() + ENDS_WITHIN_S
    while (found := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _marked(mark: str) -> list[str]:
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
