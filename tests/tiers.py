"""Runs tests in lanes, side by side, and prints what they cost. Without an option: the gate, as `make test` does.

Fails if a test fails, or if a process is left behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import costs
import gate
import psutil
import turns
from batches import TIERS, Batch
from costs import Spent
from meter import Meter

HERE = Path(__file__).parent
MARK = "KDV_TEST_RUN"
"""The environment variable that all processes of a batch inherit. Its value names the run and the batch."""
SPARK = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
"""The environment variables that all batches have for Spark. `spark-submit` gives the options to the JVM of the driver.

The Spark Connect server of a local Airflow has the JVM's optimizing compiler by default. This compiler pays for itself
after many runs, and a server in the tests makes few. A value of the user is kept."""
ENDS_WITHIN_S = 30.0
LANES = 3
"""How many batches run side by side. Clusters of two batches may run side by side, because each has a lock of its
own."""
NICENESS = {"unit": 10, "airflow": 10, "spark": 10, "quality": 10}
"""The niceness of a batch by the first of its folders, if not 0. Whoever computes gives way to clusters, whose faults
have moments."""
NO_TESTS = 5
"""The exit code of pytest if no test was chosen: a module that was reached may have no quick test."""
INTERRUPTED = 130
"""The exit code after Ctrl-C."""
OUTCOMES = ("tests", "failures", "errors", "skipped")
_interrupted = threading.Event()
_running: set[subprocess.Popen[bytes]] = set()
"""The running batches of all lanes. Each has a session of its own, so Ctrl-C in a terminal does not reach it."""


class Row(NamedTuple):
    """The result of one batch. `counts`: the figures named in OUTCOMES. `failed`: a line for each test that failed.
    `left`: the processes that the batch left behind. `spent`: what each test cost. `unfinished`: the modules of which
    not all tests were run."""

    batch: Batch
    seconds: float
    counts: dict[str, int]
    failed: list[str]
    left: list[str]
    spent: list[Spent]
    unfinished: list[str]


def main() -> int:
    """Runs what the command line asks for. Returns 0 if every test passed and no process is left running, otherwise
    1."""
    asked, begun = _arguments(), time.monotonic()
    plan = turns.plan(asked)
    if plan.sentence:
        print(plan.sentence, flush=True)
    if asked.dry_run:
        print(costs.estimate(plan.batches))
        return 0
    rows = run(plan.batches)
    if rows:
        print(costs.table([(row.batch.name, row.seconds, row.spent) for row in rows], time.monotonic() - begun))
    is_gate = not (asked.all or asked.turn or asked.tiers or asked.changed or asked.capability)
    if is_gate:
        print(costs.by_capability([one for row in rows for one in row.spent], gate.read()))
    code = _told(rows)
    if is_gate and not all(row.counts["tests"] for row in rows):
        code = 1  # a batch of the gate that ran no test proves nothing
    turns.remember(plan, rows)
    if asked.record:
        costs.record([one for row in rows for one in row.spent if costs.module_of(one.test) not in row.unfinished])
    return INTERRUPTED if _interrupted.is_set() else turns.compose(plan, code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"whole folders: {', '.join(TIERS)}")
    parser.add_argument("--all", action="store_true", help="everything; what has passed at this state is not run again")
    parser.add_argument("--changed", metavar="COMMIT", help="what the change since COMMIT can reach; 1 means HEAD")
    parser.add_argument(
        "--quick", action="store_true", help="with --changed: only quick tests of unit/, near the change"
    )
    parser.add_argument("--turn", action="store_true", help="what continuous integration runs beside the gate")
    parser.add_argument(
        "--capability", metavar="TEXT", help="the capabilities of the gate with this text in their name"
    )
    parser.add_argument("--afresh", action="store_true", help="with --all: run also what has passed at this state")
    parser.add_argument("--record", action="store_true", help="write the costs of what was run into tests/costs.json")
    parser.add_argument("--dry-run", action="store_true", help="print what would run and its recorded costs")
    asked = parser.parse_args()
    if asked.record and not (asked.all or asked.tiers):
        parser.error("--record needs whole modules: --all, or tiers")
    if unknown := sorted({*asked.tiers} - {*TIERS}):
        sys.exit(f"no such tier: {', '.join(unknown)}; there are {', '.join(TIERS)}")
    return asked


def run(wanted: Sequence[Batch]) -> list[Row]:
    """Runs batches in lanes, and returns their results in the order in which they were given.

    When it is interrupted, it ends all batches, and returns the results so far.
    """
    waiting = deque(enumerate(wanted))
    lanes = min(LANES, len(wanted))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if lanes > 1 else ():
        signal.signal(number, signal.default_int_handler)  # ends all sessions, as Ctrl-C does
    if not lanes:
        return []
    with ThreadPoolExecutor(lanes) as pool:
        done = [pool.submit(_lane, waiting, alone=lanes == 1) for _ in range(lanes)]
        try:
            futures.wait(done)
        except KeyboardInterrupt:
            _interrupted.set()
            for process in [*_running]:
                process.send_signal(signal.SIGINT)
        return [row for _, row in sorted((row for lane in done for row in lane.result()), key=lambda row: row[0])]


def _lane(waiting: deque[tuple[int, Batch]], alone: bool) -> list[tuple[int, Row]]:
    """Runs batches as long as any are waiting. All lanes share `waiting`."""
    return [
        (at, _run(batch, None if alone else NICENESS.get(batch.name.split("+")[0], 0)))
        for at, batch in _taken(waiting)
        if not _interrupted.is_set()
    ]


def _taken(waiting: deque[tuple[int, Batch]]) -> Iterator[tuple[int, Batch]]:
    with suppress(IndexError):  # another lane has taken the last one
        while True:
            yield waiting.popleft()


def _run(batch: Batch, niceness: int | None) -> Row:
    """Runs one batch and returns its result. The output appears at once if the batch has no lane beside it, i.e. if
    `niceness` is None. Otherwise it appears in one piece when the batch has ended."""
    start, alone, mark = time.monotonic(), niceness is None, f"{os.getpid()}-{batch.name}"
    print(f"== {batch.name}" if alone else f"== {batch.name} begins", flush=True)
    with tempfile.TemporaryDirectory(prefix="kdv-tests-") as folder, tempfile.TemporaryFile("w+") as said:
        report, times = Path(folder) / "junit.xml", Path(folder) / "times.jsonl"
        command = ["nice", "-n", str(niceness or 0), sys.executable, "-m", "pytest"]
        command += [*(str(HERE / name) for name in batch.ids), *batch.options, f"--junitxml={report}"]
        command += ["-o", "junit_family=xunit1"]  # it names the file of each test
        output = {} if alone else {"stdout": said, "stderr": subprocess.STDOUT}
        with Meter(MARK, mark) as meter:
            environment = {**SPARK, **os.environ, MARK: mark, costs.TIMES: str(times)}
            code = _exit_code(command, niceness, env=environment, **output)
            left = _left_behind(mark)
        said.seek(0)
        if not alone:
            print(f"== {batch.name}\n{said.read()}", flush=True)
        suite = ElementTree.parse(report).getroot().find("testsuite") if report.exists() else None
        spent, unfinished = costs.read(times, meter)
    counts = {key: int(suite.get(key, 0)) if suite is not None else 0 for key in OUTCOMES}
    if code not in (0, NO_TESTS) and not counts["failures"] + counts["errors"]:
        counts["errors"] += 1
    return Row(batch, time.monotonic() - start, counts, _failed(suite), left, spent, unfinished)


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


def _told(rows: Sequence[Row]) -> int:
    """Prints the summary of all batches. Returns the exit code: 1 if a test failed or a process is left, otherwise
    0."""
    left = [f"left behind by {row.batch.name}: {process}" for row in rows for process in row.left]
    for line in [*(line for row in rows for line in row.failed), *left]:
        print(line)
    for module in sorted({module for row in rows for module in row.unfinished}):
        print(f"not finished, interrupted or out of time: {module}")
    totals = Counter[str]()
    for row in rows:
        totals.update(row.counts)
    failed = totals["failures"] + totals["errors"] + len(left)
    passed = totals["tests"] - totals["failures"] - totals["errors"] - totals["skipped"]
    print(f"{passed} passed, {failed} failed, {totals['skipped']} skipped")
    return 1 if failed else 0


def _left_behind(mark: str) -> list[str]:
    """Waits until no process of the batch with the mark `mark` is running, at most 30 s. Returns the processes that
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
