"""Runs the tests tier by tier, cheapest tier first. Prints how long each tier took. Fails if a test fails, or if a
process is left behind."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil

HERE = Path(__file__).parent
ENDS_WITHIN_S = 30.0
ROUNDS = ((("unit", "airflow"), ("spark", "quality")), (("kafka",),), (("e2e",),))
"""The rounds, one after another. The lanes of a round run side by side, and the tiers of a lane run one after another.
The tiers that start clusters each have a round of their own."""
TIERS = tuple(tier for lanes in ROUNDS for lane in lanes for tier in lane)
OUTCOMES = ("tests", "failures", "errors", "skipped")


class Row(NamedTuple):
    """The result of one tier. `counts`: the figures named in OUTCOMES."""

    tier: str
    seconds: float
    counts: dict[str, int]


def main() -> int:
    """Runs the tiers that the command line names, or all tiers. Returns 0 if every tier passed and no process is left
    running, otherwise 1."""
    mark = f"KDV_TEST_RUN={os.getpid()}"
    os.environ["KDV_TEST_RUN"] = str(os.getpid())
    wanted = sys.argv[1:] or TIERS
    if unknown := sorted({*wanted} - {*TIERS}):
        sys.exit(f"no such tier: {', '.join(unknown)}; there are {', '.join(TIERS)}")
    rows: list[Row] = []
    left: dict[str, str] = {}
    begun = time.monotonic()
    for lanes in ROUNDS:
        asked = [lane for tiers in lanes if (lane := [tier for tier in tiers if tier in wanted])]
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            rows += itertools.chain(*pool.map(lambda lane: _lane(lane, alone=len(asked) == 1), asked))
        names = " or ".join(itertools.chain(*asked))
        left |= {process: names for process in (_left_behind(mark) if asked else ()) if process not in left}
    return _told(rows, left, time.monotonic() - begun)


def _lane(tiers: Sequence[str], alone: bool) -> list[Row]:
    return [_run(tier, alone) for tier in tiers]


def _run(tier: str, alone: bool) -> Row:
    """Runs one tier and returns its result. The output appears at once if the tier runs alone. Otherwise it appears in
    one piece when the tier has ended."""
    start = time.monotonic()
    if alone:
        print(f"== {tier}", flush=True)
    with tempfile.NamedTemporaryFile(suffix=".xml") as report, tempfile.TemporaryFile("w+") as said:
        command = [sys.executable, "-m", "pytest", str(HERE / tier), f"--junitxml={report.name}", "--durations=12"]
        output = {} if alone else {"stdout": said, "stderr": subprocess.STDOUT}
        code = subprocess.run(command, check=False, **output).returncode  # type: ignore[call-overload]
        said.seek(0)
        if not alone:
            print(f"== {tier}\n{said.read()}", flush=True)
        suite = ElementTree.parse(report.name).getroot().find("testsuite") if Path(report.name).stat().st_size else None
    counts = {key: int(suite.get(key, 0)) if suite is not None else 0 for key in OUTCOMES}
    if code and not counts["failures"] + counts["errors"]:
        counts["errors"] += 1
    return Row(tier, time.monotonic() - start, counts)


def _told(rows: list[Row], left: dict[str, str], seconds: float) -> int:
    """Prints the summary of all tiers. Returns the exit code: 1 if a test failed or a process is left, otherwise 0."""
    for row in rows:
        print(
            f"{row.tier:<10} {row.seconds:7.1f} s  {row.counts['tests']:4d} tests, "
            f"{row.counts['failures'] + row.counts['errors']} failed"
        )
    print(f"{'all':<10} {seconds:7.1f} s  by the clock")
    for process, tier in left.items():
        print(f"left behind by {tier}: {process}")
    totals = {key: sum(row.counts[key] for row in rows) for key in OUTCOMES}
    failed = totals["failures"] + totals["errors"] + len(left)
    print(
        f"{totals['tests'] - totals['failures'] - totals['errors'] - totals['skipped']} passed, {failed} failed, "
        f"{totals['skipped']} skipped"
    )
    return 1 if failed else 0


def _left_behind(mark: str) -> list[str]:
    """Waits until no process that the tests started is running, at most 30 s. Returns the processes that still run
    then. The tests pass the environment variable `mark` (`name=value`) on to all their processes.

    The wait is needed because a JVM ends seconds after its Python process: the JVM first notices the end of its
    standard input.
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
            if (
                process.pid != os.getpid()
                and process.environ().get(name) == value
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(f"{process.pid} {' '.join(process.info['cmdline'] or [])[:150]}")
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
