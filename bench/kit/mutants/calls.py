"""Notes which functions of the mutated modules each test calls. A trial then runs only the tests that call the changed
function."""

from __future__ import annotations

import ast
import builtins
import hashlib
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import msgspec
import pytest

from bench.kit.mutants.changes import bodies

_NOTE = "__note_of_a_call__"


class Calls(msgspec.Struct):
    """What is known of the tests in one file of tests.

    `seconds` maps the id of each test to the time that the test takes. `functions` maps the id to the functions that
    the test calls, each as `module:first line`. `on_import` are the functions that are called outside of tests: when
    the file, or a module that it imports, is imported.
    """

    seconds: dict[str, float]
    functions: dict[str, set[str]]
    on_import: set[str]

    @property
    def all_seconds(self) -> float:
        """How long all tests of the file take."""
        return sum(self.seconds.values())

    def tests_of(self, function: str) -> list[str]:
        """Returns the tests that call `function`, the quickest first."""
        return sorted(
            (test for test, functions in self.functions.items() if function in functions), key=self.seconds.__getitem__
        )


class CallsCache:
    """The noted calls, stored in a folder. The calls of a file of tests are used only while this file and all code are
    unchanged."""

    def __init__(self, folder: Path, project: Path) -> None:
        self._folder, self._project = folder, project
        folder.mkdir(parents=True, exist_ok=True)
        patterns = ("plugins/**/*.py", "spark_jobs/**/*.py", "tests/support/*.py")
        code = [file for pattern in patterns for file in project.glob(pattern)]
        self._known: dict[str, Calls] = {}
        self._of_code = [file.read_bytes() for file in sorted(code)]

    def file(self, test: str) -> Path:
        """The file in which the calls of the file of tests `test` are stored, for the code as it is now."""
        state = hashlib.sha256(b"\n".join([test.encode(), *self._of_code, (self._project / test).read_bytes()]))
        return self._folder / f"{Path(test).stem}.by-file.{state.hexdigest()[:16]}.json"

    def known(self, test: str) -> Calls | None:
        """Returns the calls of the file of tests `test`, or None if they are not stored."""
        if test not in self._known and (file := self.file(test)).exists():
            self._known[test] = msgspec.json.decode(file.read_bytes(), type=Calls)
        return self._known.get(test)


class NotesOfCalls:
    """A plugin of pytest: notes the calls of each test, and how long the test takes.

    `files` maps each file of tests to the file to which its calls are written. `modules` are the mutated modules. Only
    calls of their functions are noted.
    """

    def __init__(self, files: Mapping[str, Path], folder: Path, modules: Iterable[str]) -> None:
        self._files, self._folder = files, folder
        self._modules = {str(folder / module): module for module in modules}
        self._shared: set[str] = set()
        self._now = self._shared
        self._calls = {test: Calls({}, {}, set()) for test in files}
        self._of_fixtures: dict[object, set[str]] = {}
        self.failed = ""

    def install(self) -> None:
        """Changes Python's import: it loads mutated modules with code that notes its calls."""
        setattr(builtins, _NOTE, self._note)
        sys.meta_path.insert(0, _Finder(self._modules))

    def _note(self, function: str) -> None:
        self._now.add(function)

    def _note_on_import(self, file: str, function: str) -> None:
        """Notes a call that happens while the file of tests `file` is imported. If the top-level code of this file led
        to the call, it counts for this file. If the top-level code of another module did, it counts for all files of
        tests."""
        frame = sys._getframe(1)
        while frame is not None and not (
            frame.f_code.co_name == "<module>" and "importlib" not in frame.f_code.co_filename
        ):
            frame = frame.f_back
        is_own = frame is not None and frame.f_code.co_filename == str(self._folder / file)
        (self._calls[file].on_import if is_own else self._shared).add(function)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        if isinstance(collector, pytest.Module):
            setattr(builtins, _NOTE, partial(self._note_on_import, collector.nodeid))
        try:
            return (yield)
        finally:
            setattr(builtins, _NOTE, self._note)

    def _calls_of(self, nodeid: str) -> Calls:
        return self._calls[nodeid.split("::")[0]]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._now = self._calls_of(nodeid).functions.setdefault(nodeid, set())

    def pytest_runtest_logfinish(self) -> None:
        self._now = self._shared

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self._calls_of(report.nodeid).seconds
        seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Notes the calls of a fixture separately, because they count for each test that uses the fixture."""
        outer, self._now = self._now, self._of_fixtures.setdefault(fixturedef, set())
        try:
            return (yield)
        finally:
            self._now = outer

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        result = yield
        test = item.nodeid.split("::")[0]
        for fixtures in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
            for fixture in fixtures:
                self._calls[test].functions[item.nodeid] |= self._of_fixtures.get(fixture, set())
        if nextitem is None or nextitem.nodeid.split("::")[0] != test:
            self._save(test)
        return result

    def _save(self, test: str) -> None:
        calls = self._calls[test]
        self._files[test].write_bytes(
            msgspec.json.encode(Calls(calls.seconds, calls.functions, calls.on_import | self._shared))
        )


class _Finder(PathFinder):
    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin not in self._modules:
            return None
        spec.loader = _Loader(name, spec.origin, self._modules[spec.origin])
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, module: str) -> None:
        super().__init__(name, path)
        self._module = module

    def get_code(self, fullname: str) -> CodeType:
        return noting(Path(self.path).read_text(), self.path, self._module)


def noting(source: str, path: str, module: str) -> CodeType:
    """Returns the compiled code of a module. Each function and each lambda in it first notes that it is called."""
    tree = ast.parse(source)
    for node, first_line in [(node, line) for node, _, line in bodies(tree)]:
        function = ast.Constant(f"{module}:{first_line}")
        note = ast.Call(ast.Name(_NOTE, ast.Load()), [function], [])
        if isinstance(node, ast.Lambda):
            both = ast.Tuple([note, node.body], ast.Load())
            node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        else:
            node.body.insert(ast.get_docstring(node) is not None, ast.Expr(note))
    return compile(ast.fix_missing_locations(tree), path, "exec")
