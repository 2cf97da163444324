"""The trial of a mutant: a process with a copy of the project runs the tests until one fails.

Each trial is a fork of this process. This process has already imported the foreign packages that the tests need, but no
module of this project. A trial runs only the tests that call the changed function, and takes about as long as these
tests.
"""

from __future__ import annotations

import compileall
import gc
import importlib
import json
import os
import py_compile
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType

import mutants_spark
import pytest

FOREIGN = (
    "hypothesis",
    "msgspec",
    "pandas",
    "pyarrow",
    "confluent_kafka",
    "pyspark.sql",
    "httpx",
    "jinja2",
    "psutil",
    "numpy",
    "rich",
)
PACKAGES = ("delivery_verifier", "spark_jobs", "expectations", "support")
SLOWEST_S, SLOWER = 30.0, 10
"""A mutant is killed by time if its tests take longer than SLOWEST_S seconds plus SLOWER times the time of the same
tests with the unchanged code."""

PASSED, TIMED_OUT = "", "time"

WITH_SPARK = "tests/spark/"
"""The folder of the tests that need Spark's JVM."""


class Trials:
    """A copy of the project in `folder`, in which one mutant at a time is tried."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._jvm: object = None
        self._unchanged_s: dict[str, float] = {}
        listed = subprocess.check_output(("git", "ls-files", "-co", "--exclude-standard"), cwd=root, text=True)
        for name in listed.splitlines():
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        by_hash = py_compile.PycInvalidationMode.CHECKED_HASH  # a changed file may have the size and time it had
        compileall.compile_dir(folder, quiet=1, invalidation_mode=by_hash)
        for module in FOREIGN:
            importlib.import_module(module)
        gc.freeze()  # what is imported here need not be searched for garbage in each trial
        if ours := [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
            raise RuntimeError(f"imported before the first trial: {ours}")

    def killer(self, module: str, code: str, first_line: int, tests: Iterable[str]) -> str:
        """Returns the file of `tests` that fails when `module` has the text `code`; PASSED if no file fails.

        Runs only tests that call the function with the first line `first_line`. Runs all tests if `first_line` is 0, or
        if a test file calls the function outside of its tests.

        Returns TIMED_OUT if the tests took too long. Raises RuntimeError if a file fails with the unchanged code.
        """
        tests = list(tests)
        if self._jvm is None and any(test.startswith(WITH_SPARK) for test in tests):
            self._jvm = mutants_spark.start_jvm(self.folder)
        for test in tests:
            self._try_unchanged(test)
        limit_s = SLOWEST_S + SLOWER * sum(self._unchanged_s[test] for test in tests)
        file = self.folder / module
        unchanged = file.read_text()
        file.write_text(code)
        try:
            function = f"{module}:{first_line}" if first_line else ""
            return _forked(lambda: _first_failure(self.folder, tests, function), limit_s)
        finally:
            file.write_text(unchanged)

    def _try_unchanged(self, test: str) -> None:
        if test in self._unchanged_s:
            return
        start = time.monotonic()
        if _forked(lambda: _first_failure(self.folder, [test]), 1000 * SLOWEST_S) != PASSED:
            raise RuntimeError(f"{test} fails without any mutant; try it in {self.folder}")
        self._unchanged_s[test] = time.monotonic() - start


def _forked(work: Callable[[], str], limit_s: float) -> str:
    """Returns what `work` returns in a fork of this process, or TIMED_OUT. Ends all processes of the fork."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.close(reader)
            os.write(writer, work().encode() or b"-")
        finally:
            os._exit(0)
    os.close(writer)
    try:
        in_time, _, _ = select.select([reader], [], [], limit_s)
        answer = os.read(reader, 4096).decode() if in_time else TIMED_OUT
    finally:
        os.close(reader)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:  # not yet, or no longer, a group
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not answer:
        raise RuntimeError("a trial ended without an answer")
    return PASSED if answer == "-" else answer


class CallsAndSeconds:
    """A plugin of pytest. In the run with the unchanged code, it notes which functions each test calls, and how long
    each test takes.

    A trial runs only the tests that call the changed function, and begins with the quickest test.
    """

    def __init__(self, folder: Path, test: str) -> None:
        self._folder = str(folder)
        self._file = folder / f".{test.replace('/', '.')}.json"
        self._seconds: dict[str, float] = {}
        self._calls: dict[str, dict[int, CodeType]] = {"": {}}
        self._now = self._calls[""]
        self._selected: set[str] | None = None

    def note(self) -> None:
        """Begins to note which functions are called, inside and outside of tests."""
        sys.settrace(self._note_call)

    def _note_call(self, frame: FrameType, _event: str, _argument: object) -> None:
        self._now[id(frame.f_code)] = frame.f_code

    def save(self) -> None:
        sys.settrace(None)
        calls = {
            test: sorted(
                f"{code.co_filename[len(self._folder) + 1 :]}:{code.co_firstlineno}"
                for code in codes.values()
                if code.co_filename.startswith(self._folder)
            )
            for test, codes in self._calls.items()
        }
        self._file.write_text(json.dumps({"seconds": self._seconds, "calls": calls}))

    def select(self, function: str) -> bool:
        """Selects the tests that call `function`. If `function` is empty, selects all tests. Returns False if there are
        none."""
        content = json.loads(self._file.read_text())
        self._seconds = content["seconds"]
        if function and function not in content["calls"][""]:
            self._selected = {test for test, names in content["calls"].items() if function in names}
        return self._selected != set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._selected is None or item.nodeid in self._selected]
        items.sort(key=lambda item: self._seconds.get(item.nodeid, 0.0))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._now = self._calls.setdefault(nodeid, {})

    def pytest_runtest_logfinish(self) -> None:
        self._now = self._calls[""]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration


def _first_failure(folder: Path, tests: list[str], function: str | None = None) -> str:
    """Runs files of tests, one after the other, in this process. Returns the first file in which a test fails, or
    PASSED.

    `function`: the changed function, or "" for a change outside of functions. None: the code is unchanged. In this
    case, the compiled tests, their seconds and their calls are kept for the trials.
    """
    import hypothesis

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.chdir(folder)
    sys.path[:0] = [str(folder / "plugins"), str(folder)]
    sys.dont_write_bytecode = function is not None
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # a failure need not be made small
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, phases=phases)
    hypothesis.settings.load_profile("mutants")
    mutants_spark.stop_left_context()
    options = ("-x", "-o", "timeout=0", "-p", "no:xdist", "--tb=no", "--assert=plain")
    for test in tests:
        plugin = CallsAndSeconds(folder, test)
        if function is None:
            plugin.note()
        elif not plugin.select(function):
            continue
        code = pytest.main([*options, test], plugins=[plugin])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return test
        if function is None:
            plugin.save()
    return PASSED
