"""Tests of the code that a task of the local Airflow runs: always that on disk, though its scheduler has imported older
code. `tests/e2e/test_local_airflow.py` looks at a real local Airflow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery_verifier.orchestration.names import MARK
from delivery_verifier.orchestration.plugin import current_code


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package, with one module, that stands for this project and was imported. Returns the file of the module."""
    file = tmp_path / "made_up" / "step.py"
    file.parent.mkdir()
    (file.parent / "__init__.py").touch()
    file.write_text("VALUE = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(MARK, "home")
    monkeypatch.setattr(current_code, "PACKAGES", ("made_up",))
    assert importlib.import_module("made_up.step").VALUE == 1
    yield file
    for module in ("made_up", "made_up.step"):
        sys.modules.pop(module, None)


def _start(kind: str) -> None:
    current_code.on_starting(component=type(kind, (), {})())


@pytest.mark.parametrize("name", ["step.py", "new.py"])
def test_a_task_imports_what_was_edited_or_added_since_its_scheduler_started(made_up: Path, name: str) -> None:
    (made_up.parent / name).write_text("VALUE = 22")
    _start("TaskRunnerMarker")
    assert importlib.import_module(f"made_up.{name.removesuffix('.py')}").VALUE == 22


@pytest.mark.parametrize(("kind", "mark"), [("Job", "home"), ("TaskRunnerMarker", "")])
def test_a_component_of_airflow_and_a_task_of_another_airflow_forget_nothing(
    made_up: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mark: str
) -> None:
    if not mark:
        monkeypatch.delenv(MARK)
    _start(kind)
    assert sys.modules["made_up.step"].VALUE == 1
