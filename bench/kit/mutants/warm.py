"""A process that imports all tests once, and then forks for each trial. The fork changes functions in place, and runs
tests.

This gives the same result as a new import of the changed module only if nothing called the changed functions before the
fork. If the functions cannot be changed in place, the fork answers SLOW.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import BinaryIO

import pytest

from bench.kit.mutants import spark as mutants_spark
from bench.kit.mutants.forks import PASSED, forked

SLOW = "in place, the function cannot be changed"

FunctionsOfFile = dict[str, list[FunctionType]]


class Warm:
    """The process with the imported tests, seen from its parent. The constructor calls `start` in a fork, with the
    folder of the code, the files of tests, and a plugin. `start` must run pytest with this plugin."""

    def __init__(
        self, folder: Path, tests: Sequence[str], start: Callable[[Path, Sequence[str], object], None]
    ) -> None:
        self.tests = frozenset(tests)
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                os.setsid()
                self._requests.close()
                self._answers.close()
                start(folder, tests, _Loop(folder, requests, answers))
            finally:
                os._exit(1)
        requests.close()
        answers.close()
        self._answer()  # all is imported: from now on, a file may be changed

    def killer(self, module: str, source: str, tests: Sequence[str], limit_s: float) -> str:
        """Returns the id of the first of `tests` (ids) that fails if the functions of `module` have the code in
        `source`. Returns PASSED if none fails, TIMED_OUT if the tests exceed `limit_s` (see `forked`), and SLOW if the
        functions cannot be changed in place."""
        request = {"module": module, "source": source, "tests": tests, "limit_s": limit_s}
        self._requests.write(json.dumps(request).encode() + b"\n")
        self._requests.flush()
        return self._answer()

    def _answer(self) -> str:
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError("the process with the collected tests has ended")
        return str(json.loads(answer))

    def end(self) -> None:
        """Ends the process."""
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        self._requests.close()
        self._answers.close()


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reader, writer = os.pipe()
    return os.fdopen(reader, "rb"), os.fdopen(writer, "wb")


class _Loop:
    """A plugin of pytest. Instead of running all tests, it waits for requests. For each request it forks, and the fork
    runs the tests that the request names."""

    def __init__(self, folder: Path, requests: BinaryIO, answers: BinaryIO) -> None:
        self._folder, self._requests, self._answers = folder, requests, answers
        self._failed = False
        self._originals: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = _functions(self._folder)
        self._originals = {file: Path(file).read_text() for file in functions}
        gc.collect()
        gc.freeze()
        self._tell(PASSED)
        for line in self._requests:
            request = json.loads(line)
            file = str(self._folder / request["module"])  # no file: the tests are tried, and nothing is changed
            trial = partial(
                self._trial, functions.get(file), file, request["source"], [items[test] for test in request["tests"]]
            )
            self._tell(forked(trial, request["limit_s"]))
        return True

    def _tell(self, answer: str) -> None:
        self._answers.write(json.dumps(answer).encode() + b"\n")
        self._answers.flush()

    def _trial(self, functions: list[FunctionType] | None, file: str, source: str, items: list[pytest.Item]) -> str:
        if functions is not None and not change(functions, file, self._originals[file], source):
            return SLOW  # without functions, the file is not imported yet, and was changed on the disk
        return self._first_failure(items)

    def _first_failure(self, items: list[pytest.Item]) -> str:
        mutants_spark.stop_left_context()
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return item.nodeid
        return PASSED


def _functions(folder: Path) -> FunctionsOfFile:
    functions: FunctionsOfFile = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(folder)):
            functions.setdefault(thing.__code__.co_filename, []).append(thing)
    return functions


def change(functions: Sequence[FunctionType], file: str, source: str, changed: str) -> bool:
    """Gives `functions`, the functions of `file`, the code that they have in `changed`. `source` is the text before the
    change. Returns False if this is not possible, or if nothing would change."""
    before, after = (list(_codes(compile(text, file, "exec"))) for text in (source, changed))
    if [_name(code) for code in before] != [_name(code) for code in after]:
        return False
    changes = {_position(old): new for old, new in zip(before, after, strict=True) if _position(old) != _position(new)}
    changed_functions = [
        (function, changes[position]) for function in functions if (position := _position(function.__code__)) in changes
    ]
    if any(function.__code__.co_freevars != new.co_freevars for function, new in changed_functions):
        return False
    for function, new in changed_functions:
        function.__code__ = new
    return bool(changed_functions)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yields the code of all functions in `code`, at any depth."""
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield constant
            yield from _codes(constant)


def _name(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _position(code: CodeType) -> tuple[object, ...]:
    """A key that no other code object of the same file has."""
    return code, tuple(code.co_positions())
