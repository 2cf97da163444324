"""The trial of a mutant: a process with a copy of the project runs the tests until one fails.

Each trial is a fork. Most are forks of a process that has collected the tests, so that a trial takes about as long as
its tests, and those are the tests that call the changed function. What takes effect on import is tried in a fork of
this process, which has imported what the tests import from other projects, but nothing of the project itself.
"""

from __future__ import annotations

import compileall
import gc
import importlib
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import mutants_spark
import pytest
from mutants_calls import Calls, Kept, NotesOfCalls
from mutants_forks import PASSED, forked
from mutants_warm import SLOW, Warm

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
"""A mutant whose tests take SLOWER times as long as those of the unchanged code, and SLOWEST_S, is killed by time."""

WITH_SPARK = "tests/spark/"
"""Where the tests are that need Spark's JVM."""


class Trials:
    """A copy of the project in `folder`, in which one mutant at a time is tried.

    `modules`: those with mutants. `kept`: the folder with what is known of the tests from earlier runs.
    """

    def __init__(self, root: Path, folder: Path, modules: Iterable[str], kept: Path) -> None:
        self.folder = folder
        self._modules = list(modules)
        self._jvm: object = None
        self._warm: Warm | None = None
        self._killers: list[str] = []
        listed = subprocess.check_output(("git", "ls-files", "-co", "--exclude-standard"), cwd=root, text=True)
        for name in listed.splitlines():
            if (root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, folder / name)
        by_hash = py_compile.PycInvalidationMode.CHECKED_HASH  # a changed file may have the size and time it had
        compileall.compile_dir(folder, quiet=1, invalidation_mode=by_hash)
        self._kept = Kept(kept, folder)
        for module in FOREIGN:
            importlib.import_module(module)
        gc.freeze()  # what is imported here need not be searched for garbage in each trial
        if ours := [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
            raise RuntimeError(f"imported before the first trial: {ours}")

    def killer(self, module: str, code: str, first_line: int, tests: Sequence[str]) -> str:
        """Returns the file of `tests` that fails when `module` has the text `code`: PASSED if none does.

        Only tests that call the function with the `first_line` are run; all if it is 0, or if the function is called
        outside of tests.

        TIMED_OUT: they took too long. Raises RuntimeError if a file fails with the unchanged code.
        """
        if self._jvm is None and any(test.startswith(WITH_SPARK) for test in tests):
            self._jvm = mutants_spark.start_jvm(self.folder)
        calls = self._calls(tests)
        function = f"{module}:{first_line}"
        in_place = first_line > 0 and function not in calls.on_import
        chosen = calls.tests_of(function) if in_place else sorted(calls.functions)
        if not chosen:
            return PASSED
        limit_s = SLOWEST_S + SLOWER * sum(calls.seconds[test] for test in chosen)
        answer, warm = SLOW, self._warm_with(tests)  # it imports the unchanged module
        with self._changed(module, code):
            if in_place:
                answer = warm.killer(module, code, self._ordered(chosen), limit_s)
            if answer == SLOW:
                files = [tests[0], *sorted(tests[1:], key=calls.seconds_of)]
                return forked(lambda: _first_failure(self.folder, files, chosen, calls), limit_s)
        if "::" in answer:
            if answer not in self._killers and (alone := warm.killer("", "", [answer], limit_s)):
                raise RuntimeError(f"{answer} fails alone, without any mutant: {alone}")
            self._killers = [*(test for test in self._killers if test != answer), answer]
        return answer.split("::")[0]

    @contextmanager
    def _changed(self, module: str, code: str) -> Iterator[None]:
        file = self.folder / module
        unchanged = file.read_text()
        file.write_text(code)
        try:
            yield
        finally:
            file.write_text(unchanged)

    def _ordered(self, chosen: Sequence[str]) -> list[str]:
        """Returns the tests, those first that killed another mutant of late."""
        earlier = [test for test in reversed(self._killers) if test in chosen]
        order = list(dict.fromkeys([*earlier, *chosen]))
        if any(test.startswith(WITH_SPARK) for test in order):  # the fixtures of a file are worth more than the order
            order.sort(key=lambda test: (test.startswith(WITH_SPARK), test.split("::")[0]))
        return order

    def _warm_with(self, tests: Sequence[str]) -> Warm:
        if self._warm is None or self._warm.tests != frozenset(tests):
            self.end()
            self._warm = Warm(self.folder, tests, _run)
        return self._warm

    def end(self) -> None:
        """Ends the process with the collected tests."""
        if self._warm is not None:
            self._warm.end()
            self._warm = None

    def _calls(self, tests: Sequence[str]) -> Calls:
        known = {test: self._kept.known(test) for test in tests}
        if due := {test: self._kept.file(test) for test, calls in known.items() if calls is None}:
            if failed := forked(lambda: _noted(self.folder, due, self._modules), 1e4):
                raise RuntimeError(f"{failed} fails without any mutant; try it in {self.folder}")
            known = {test: self._kept.known(test) for test in tests}
        return Calls.of_all(calls for calls in known.values() if calls is not None)


def _run(folder: Path, tests: Iterable[str], *plugins: object) -> int:
    """Runs pytest in this process, which is a fork, until a test fails. Returns its exit code."""
    import hypothesis

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.chdir(folder)
    sys.path[:0] = [str(folder / "plugins"), str(folder)]
    sys.dont_write_bytecode = True
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # a failure need not be made small
    hypothesis.settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        phases=phases,
        deadline=None,  # a busy machine kills no mutant
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("mutants")
    options = ("-x", "-o", "timeout=0", "-p", "no:xdist", "--tb=no", "--assert=plain")
    return int(pytest.main([*options, *tests], plugins=list(plugins)))


def _noted(folder: Path, files: dict[str, Path], modules: Iterable[str]) -> str:
    """Runs files of tests with the unchanged code, and writes what each test calls. Returns the test that fails."""
    notes = NotesOfCalls(files, folder, modules)
    notes.install()
    mutants_spark.stop_left_context()
    return PASSED if _run(folder, files, notes) == pytest.ExitCode.OK else notes.failed or "the collection"


def _first_failure(folder: Path, files: Sequence[str], chosen: Sequence[str], calls: Calls) -> str:
    """Runs the chosen tests, file after file, in this process. Returns the first file in which one fails, or PASSED."""
    mutants_spark.stop_left_context()
    for file in files:
        if any(test.startswith(file) for test in chosen):
            code = _run(folder, [file], _Selection(frozenset(chosen), calls))
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return file
    return PASSED


class _Selection:
    """A plugin of pytest: only the chosen tests, the quickest first."""

    def __init__(self, chosen: frozenset[str], calls: Calls) -> None:
        self._chosen, self._calls = chosen, calls

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._calls.seconds.get(item.nodeid, 0.0))
        items[:] = [item for item in items if item.nodeid in self._chosen]
