"""Runs the tests tier by tier, in three lanes. Prints how long each tier took.

Fails if a test fails, or if a process is left behind.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

HERE = Path(__file__).parent
MARK = "KDV_TEST_RUN"
"""The environment variable that all processes of a tier inherit. Its value names the run of the tests and the tier."""
SPARK = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
"""The environment variables that all tiers have for Spark. `spark-submit` gives the options to the JVM of the driver.

The Spark Connect server of a local Airflow has the JVM's optimizing compiler by default. This compiler pays for itself
after many runs, and a server in the tests makes few. A value of the user is kept."""
ENDS_WITHIN_S = 30.0
LANES = (("kafka", "e2e"), ("unit", "spark"), ("quality",))
"""The lanes, side by side. The tiers of a lane run one after another. The tiers of the first lane, and the catalogue,
start clusters, and spend much of their time waiting. All other tiers mostly compute. Clusters of two tiers may run side
by side, because each tier has a lock of its own."""
REST = ("catalogue", "airflow")
"""The tiers that have no lane, in order. A lane that has run its own tiers takes the next one. Which lane is free first
depends on the host: where processors are slow, those that compute take longest."""
NICENESS = {"unit": 10, "airflow": 10, "spark": 10, "quality": 10}
"""The niceness of a tier, if not 0. Whoever computes gives way to clusters, whose faults have moments."""
WORKERS = {"unit": 2}
"""How many processes run the tests of a tier side by side, if not one. Many unit tests wait for child processes."""
TIERS = ("unit", "airflow", "spark", "quality", "kafka", "catalogue", "e2e")
OUTCOMES = ("tests", "failures", "errors", "skipped")
_interrupted = threading.Event()
_running: set[subprocess.Popen[bytes]] = set()
"""The running tiers of all lanes. Each has a session of its own, so Ctrl-C in a terminal does not reach it."""


class Row(NamedTuple):
    """The result of one tier. `counts`: the figures named in OUTCOMES. `failed`: a line for each test that failed.
    `left`: the processes that the tier left behind."""

    tier: str
    seconds: float
    counts: dict[str, int]
    failed: list[str]
    left: list[str]


def main() -> int:
    """Runs the tiers that the command line names, or all tiers. Returns 0 if every tier passed and no process is left
    running, otherwise 1."""
    wanted = sys.argv[1:] or TIERS
    if unknown := sorted({*wanted} - {*TIERS}):
        sys.exit(f"no such tier: {', '.join(unknown)}; there are {', '.join(TIERS)}")
    rest = deque(tier for tier in REST if tier in wanted)
    asked = [own for lane in LANES if (own := [tier for tier in lane if tier in wanted])]
    asked += [[]] * min(len(rest), len(LANES) - len(asked))
    begun = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGHUP) if len(asked) > 1 else ():
        signal.signal(number, signal.default_int_handler)  # ends all sessions, as Ctrl-C does
    with ThreadPoolExecutor(len(asked)) as pool:
        done = pool.map(lambda lane: _lane(lane, rest, alone=len(asked) == 1), asked)
        try:
            rows = [*itertools.chain(*done)]
        except KeyboardInterrupt:
            _interrupted.set()
            for process in [*_running]:
                process.send_signal(signal.SIGINT)
            raise
    return _told(sorted(rows, key=lambda row: TIERS.index(row.tier)), time.monotonic() - begun)


def _lane(own: Sequence[str], rest: deque[str], alone: bool) -> list[Row]:
    """Runs the tiers `own`, and then tiers of `rest` as long as there are any. All lanes share `rest`."""
    tiers = itertools.chain(own, _taken(rest))
    return [_run(tier, None if alone else NICENESS.get(tier, 0)) for tier in tiers if not _interrupted.is_set()]


def _taken(rest: deque[str]) -> Iterator[str]:
    with suppress(IndexError):  # another lane has taken the last one
        while True:
            yield rest.popleft()


def _run(tier: str, niceness: int | None) -> Row:
    """Runs one tier and returns its result. The output appears at once if the tier has no lane beside it, i.e. if
    `niceness` is None. Otherwise it appears in one piece when the tier has ended."""
    start, alone, mark = time.monotonic(), niceness is None, f"{os.getpid()}-{tier}"
    print(f"== {tier}" if alone else f"== {tier} begins", flush=True)
    with tempfile.NamedTemporaryFile(suffix=".xml") as report, tempfile.TemporaryFile("w+") as said:
        command = ["nice", "-n", str(niceness or 0), sys.executable, "-m", "pytest", str(HERE / tier)]
        command += [f"--junitxml={report.name}", "--durations=12", "-n", str(WORKERS.get(tier, 0))]
        command += ["-o", "junit_family=xunit1"]  # it names the file of each test
        output = {} if alone else {"stdout": said, "stderr": subprocess.STDOUT}
        code = _exit_code(command, niceness, env={**SPARK, **os.environ, MARK: mark}, **output)
        said.seek(0)
        if not alone:
            print(f"== {tier}\n{said.read()}", flush=True)
        suite = ElementTree.parse(report.name).getroot().find("testsuite") if Path(report.name).stat().st_size else None
    counts = {key: int(suite.get(key, 0)) if suite is not None else 0 for key in OUTCOMES}
    if code and not counts["failures"] + counts["errors"]:
        counts["errors"] += 1
    return Row(tier, time.monotonic() - start, counts, _failed(suite), _left_behind(mark))


def _failed(suite: ElementTree.Element | None) -> list[str]:
    """Returns a line for each failed test of a JUnit report: its name, as pytest takes it, and the reason."""
    return [
        f"failed: {case.get('file')}::{case.get('name')}: {why.get('message', '').partition(chr(10))[0][:200]}"
        for case in (suite if suite is not None else ())
        for why in case
        if why.tag in ("failure", "error")
    ]


def _exit_code(command: list[str], niceness: int | None, **more: Any) -> int:
    """Runs a command and returns its exit code. If `niceness` is not None, the command has a session of its own.

    Where Linux groups processes by session (autogroup, see sched(7)), the niceness of a process counts only within its
    session. So the whole session gets the niceness, too.
    """
    process = subprocess.Popen(command, start_new_session=niceness is not None, **more)
    if niceness is not None:
        _running.add(process)
        if _interrupted.is_set():
            process.send_signal(signal.SIGINT)
        with suppress(OSError):  # a kernel without autogroups
            Path(f"/proc/{process.pid}/autogroup").write_text(str(niceness))
    try:
        return process.wait()
    finally:
        _running.discard(process)


def _told(rows: list[Row], seconds: float) -> int:
    """Prints the summary of all tiers. Returns the exit code: 1 if a test failed or a process is left, otherwise 0."""
    for row in rows:
        print(
            f"{row.tier:<10} {row.seconds:7.1f} s  {row.counts['tests']:4d} tests, "
            f"{row.counts['failures'] + row.counts['errors']} failed"
        )
    print(f"{'all':<10} {seconds:7.1f} s  by the clock")
    left = [f"left behind by {row.tier}: {process}" for row in rows for process in row.left]
    for line in itertools.chain(*(row.failed for row in rows), left):
        print(line)
    totals = {key: sum(row.counts[key] for row in rows) for key in OUTCOMES}
    failed = totals["failures"] + totals["errors"] + len(left)
    print(
        f"{totals['tests'] - totals['failures'] - totals['errors'] - totals['skipped']} passed, {failed} failed, "
        f"{totals['skipped']} skipped"
    )
    return 1 if failed else 0


def _left_behind(mark: str) -> list[str]:
    """Waits until no process of the tier with the mark `mark` is running, at most 30 s. Returns the processes that
    still run then.

    The wait is needed because a JVM ends seconds after its Python process: the JVM first notices the end of its
    standard input.
    """
    deadline = time.monotonic() + ENDS_WITHIN_S
    while (found := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _marked(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.info['cmdline'] or [])[:150]}")
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
