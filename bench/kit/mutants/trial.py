"""The trial of a mutant: a process with a copy of the project runs the tests until one fails.

Each trial is a fork, and runs only the tests that call the changed function. Most trials are forks of a process that
has collected the tests. A mutant that takes effect on import is tried in a fork of this process. This process has
imported the foreign packages that the tests need, but no module of this project.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.kit.mutants import spark as mutants_spark
from bench.kit.mutants.calls import Calls, CallsCache, NotesOfCalls
from bench.kit.mutants.forks import PASSED, forked
from bench.kit.mutants.warm import SLOW, Warm

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

    `modules`: those with mutants. `cache`: the folder with what is known of the tests from earlier runs.
    """

    def __init__(self, root: Path, folder: Path, modules: Iterable[str], cache: Path) -> None:
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
        self._cache = CallsCache(cache, folder)
        for module in FOREIGN:
            importlib.import_module(module)
        gc.freeze()  # what is imported here need not be searched for garbage in each trial
        if ours := [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
            raise RuntimeError(f"imported before the first trial: {ours}")

    def killer(self, module: str, code: str, first_line: int, tests: Sequence[str]) -> str:
        """Returns the file of `tests` that fails when `module` has the text `code`: PASSED if none does.

        Only tests that call the function with the `first_line` are run; all if it is 0. They run in place, but for
        those in files that call the function when they are imported: these are imported anew.

        TIMED_OUT: they took too long. Raises RuntimeError if a file fails with the unchanged code.
        """
        if self._jvm is None and any(test.startswith(WITH_SPARK) for test in tests):
            self._jvm = mutants_spark.start_jvm(self.folder)
        calls, function = self._calls(tests), f"{module}:{first_line}"
        anew = [test for test in tests if not first_line or function in calls[test].on_import]
        in_place = [name for test in tests if test not in anew for name in calls[test].tests_of(function)]
        seconds = {name: taken for test in tests for name, taken in calls[test].seconds.items()}
        warm = self._warm_with(tests) if in_place else None  # it imports the unchanged module
        limit_s = SLOWEST_S + SLOWER * sum(seconds.values())
        answer = PASSED
        with self._changed(module, code):
            if warm is not None:
                answer = warm.killer(module, code, self._ordered(in_place, module, seconds), limit_s)
            if answer == SLOW:
                answer, anew = PASSED, list(tests)
            if answer == PASSED and anew:
                files = [anew[0], *sorted(anew[1:], key=lambda test: calls[test].all_seconds)]
                return forked(lambda: _first_failure(self.folder, files, seconds), limit_s)
        if warm is not None and "::" in answer:
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

    def _ordered(self, chosen: Sequence[str], module: str, seconds: Mapping[str, float]) -> list[str]:
        """Returns the tests, those first that killed another mutant of late, then those named like the module."""

        def rank(test: str) -> tuple[bool, str, bool, float]:
            file = test.split("::")[0]
            with_spark = test.startswith(WITH_SPARK)  # the fixtures of such a file are worth more than the order
            return with_spark, file if with_spark else "", Path(module).stem not in Path(file).stem, seconds[test]

        earlier = [test for test in reversed(self._killers) if test in chosen and not test.startswith(WITH_SPARK)]
        return list(dict.fromkeys([*earlier, *sorted(chosen, key=rank)]))

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

    def _calls(self, tests: Sequence[str]) -> dict[str, Calls]:
        due = {test: self._cache.file(test) for test in tests if self._cache.known(test) is None}
        if due and (failed := forked(lambda: _noted(self.folder, due, self._modules), 1e4)):
            raise RuntimeError(f"{failed} fails without any mutant; try it in {self.folder}")
        known = {test: self._cache.known(test) for test in tests}
        return {test: calls for test, calls in known.items() if calls is not None}


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


def _first_failure(folder: Path, files: Sequence[str], seconds: Mapping[str, float]) -> str:
    """Runs files of tests, one after the other, in this process. Returns the first in which a test fails, or PASSED."""
    mutants_spark.stop_left_context()
    for file in files:
        code = _run(folder, [file], _Order(seconds))
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return file
    return PASSED


class _Order:
    """A plugin of pytest: the quickest tests first."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._seconds.get(item.nodeid, 0.0))
