"""Tests of the warm start: the scheduler of the local Airflow imports beforehand what the tasks need, and its
dag-processor the libraries that the DAG files need. No other process of Airflow does. A task imports edited code anew.
`tests/e2e/test_local_airflow.py` looks at a real local Airflow."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery_verifier.model.steps import TIMEOUTS
from delivery_verifier.orchestration.names import MARK
from delivery_verifier.orchestration.plugin import warm

START = """
import importlib.util, os, sys
from pathlib import Path
from delivery_verifier.orchestration.plugin import warm
kind, command, mark = sys.argv[1:]
os.environ.pop("{mark}", None)
if mark:
    os.environ["{mark}"] = mark
sys.argv = ["airflow", command]
before = set(sys.modules)
warm.on_starting(component=type(kind, (), {{}})())
after = set(sys.modules)
"""
"""A program that calls the listener, as Airflow does when a process of the kind `kind` starts with the command."""
LIBRARIES = """
print(sorted({"great_expectations", "pandas", "pyarrow", "confluent_kafka"} & after))
"""
READ = """
for file in sorted(Path("{dags}").glob("*.py")):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
own = sorted(name for name in after - before if name.partition(".")[0] in warm.PACKAGES)
print((own, [name for name in warm.DAG_LIBRARIES if name in after], sorted(set(sys.modules) - after)))
"""
DAGS = Path(__file__).parents[2] / "dags"


@pytest.mark.parametrize(
    ("kind", "command", "mark", "loaded"),
    [
        ("Job", "scheduler", "home", True),
        ("TaskRunnerMarker", "scheduler", "home", False),
        ("Job", "triggerer", "home", False),
        ("Job", "scheduler", "", False),
    ],
)
def test_it_is_the_scheduler_of_a_local_airflow_that_imports_them(
    tmp_path: Path, kind: str, command: str, mark: str, loaded: bool
) -> None:
    imported = _last_line(LIBRARIES, tmp_path, kind, command, mark)
    assert imported == (str(["confluent_kafka", "great_expectations", "pandas", "pyarrow"]) if loaded else "[]")


def _last_line(rest: str, folder: Path, *arguments: str) -> str:
    """Returns the last line that the program START and `rest` prints. `arguments`: kind, command and mark."""
    script = folder / "called.py"  # a file: PySpark takes `python -c` for its doctests, and exits
    script.write_text(START.format(mark=MARK) + rest)
    return subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ).stdout.splitlines()[-1]


@pytest.mark.parametrize("mark", ["home", ""])
def test_the_dag_processor_of_a_local_airflow_imports_the_libraries_of_the_dags_and_nothing_of_the_project(
    tmp_path: Path, mark: str
) -> None:
    printed = _last_line(READ.format(dags=DAGS), tmp_path, "Job", "dag-processor", mark)
    own, libraries, of_dags = ast.literal_eval(printed)
    assert own == [] and libraries == ([*warm.DAG_LIBRARIES] if mark else [])
    assert "delivery_verifier.orchestration.tasks.form" in of_dags, "a DAG file is read with the newest code"
    providers = [name for name in of_dags if name.startswith("airflow.providers")]
    assert (providers == []) if mark else (warm.DAG_LIBRARIES[0] in providers)


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package, with one module, that stands for this project in `warm`. Returns the file of the module."""
    file = tmp_path / "made_up" / "step.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text("VALUE = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(MARK, "home")
    monkeypatch.setattr(sys, "argv", ["airflow", "scheduler"])
    names = {"DAG_LIBRARIES": (), "LIBRARIES": (), "PACKAGES": ("made_up",), "STEPS": ("made_up.step",)}
    for name, value in {**names, "_imported": {}}.items():
        monkeypatch.setattr(warm, name, value)
    yield file
    for module in ("made_up", "made_up.step"):
        sys.modules.pop(module, None)


def _start(kind: str) -> None:
    warm.on_starting(component=type(kind, (), {})())


def test_a_task_takes_the_modules_of_the_project_from_the_scheduler(made_up: Path) -> None:
    _start("Job")
    imported = sys.modules["made_up.step"]
    _start("TaskRunnerMarker")
    assert sys.modules["made_up.step"] is imported


@pytest.mark.parametrize("name", ["step.py", "new.py"])
def test_a_task_imports_the_project_anew_if_a_file_was_edited_or_added(made_up: Path, name: str) -> None:
    _start("Job")
    assert importlib.import_module("made_up.step").VALUE == 1
    (made_up.parent / name).write_text("VALUE = 22")
    _start("TaskRunnerMarker")
    assert not [module for module in sys.modules if module.startswith("made_up")]
    assert importlib.import_module(f"made_up.{name.removesuffix('.py')}").VALUE == 22


def test_the_lock_file_of_an_editor_is_no_edit(made_up: Path) -> None:
    """Emacs makes a link without a target while a buffer is unsaved."""
    _start("Job")
    (made_up.parent / ".#step.py").symlink_to("nobody@nowhere.1:2")
    _start("TaskRunnerMarker")
    assert "made_up.step" in sys.modules


def test_files_that_cannot_be_read_count_as_edited(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanished() -> warm.Files:
        raise FileNotFoundError("a file vanished between two looks")

    _start("Job")
    monkeypatch.setattr(warm, "_files", vanished)
    _start("TaskRunnerMarker")
    assert "made_up.step" not in sys.modules


def test_a_file_that_is_edited_while_the_scheduler_imports_counts_as_edited(made_up: Path) -> None:
    made_up.write_text("import os\nos.utime(__file__, (1, 1))\nVALUE = 1")
    _start("Job")
    _start("TaskRunnerMarker")
    assert "made_up.step" not in sys.modules


def test_a_task_whose_scheduler_imported_nothing_forgets_nothing(made_up: Path) -> None:
    importlib.import_module("made_up.step")
    _start("TaskRunnerMarker")
    assert "made_up.step" in sys.modules


def test_the_scheduler_imports_what_the_tasks_of_the_dag_import() -> None:
    """The module of each step is in STEPS, so no task has to import it."""
    steps = {f"delivery_verifier.run.steps.{step}" for step in TIMEOUTS if step != "reconcile"}
    assert steps <= {*warm.STEPS} and {"spark_jobs.reconcile", "spark_jobs.session.connect"} <= {*warm.STEPS}
    for name in warm.STEPS:
        assert importlib.util.find_spec(name), name
        assert name.partition(".")[0] in warm.PACKAGES
