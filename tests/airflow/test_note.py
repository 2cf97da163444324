"""Tests of the note that Airflow shows at a run: the note is the verdict's sentence. An error while writing the note
never fails a task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delivery_verifier.orchestration.local import settings
from delivery_verifier.orchestration.local.client import AirflowError, Client
from delivery_verifier.orchestration.tasks import note
from delivery_verifier.store.run_directory import RunDirectory


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    verdict = {
        "run_id": "r",
        "scenario": "s",
        "verdict": "VIOLATED",
        "green": False,
        "sentence": "VIOLATED: 3 records lost.",
    }
    (tmp_path / "scenario.json").write_text('{"run_id": "r"}')
    with RunDirectory(tmp_path).writing("conclude") as output:
        (output.staging / "verdict.json").write_text(json.dumps({**verdict, "limits": [], "arms": []}))
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv(settings.MARK, "here")
    monkeypatch.setenv("AIRFLOW__API__PORT", "8080")
    notes: list[tuple[str, str]] = []
    monkeypatch.setattr(Client, "note", lambda self, dag_id, run_id, text: notes.append((run_id, text)))
    return notes


def test_the_verdict_is_noted_with_its_sentence(noted: list[tuple[str, str]], tmp_path: Path) -> None:
    note.attach_verdict(tmp_path, "manual__1")
    assert noted == [("manual__1", "**VIOLATED**: 3 records lost.")]


@pytest.mark.parametrize("gone", ["verdict.json", "conclude.json"])
def test_without_a_sealed_verdict_there_is_no_note(noted: list[tuple[str, str]], tmp_path: Path, gone: str) -> None:
    (tmp_path / gone).unlink()
    note.attach_verdict(tmp_path, "manual__1")
    assert noted == []


def test_in_another_airflow_there_is_no_note(
    noted: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(settings.MARK)
    note.attach_verdict(tmp_path, "manual__1")
    assert noted == []


@pytest.mark.parametrize("error", [AirflowError("does not answer"), OSError("no password file")])
def test_a_note_that_cannot_be_written_changes_nothing(
    noted: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(Client, "note", refuse)
    note.attach_verdict(tmp_path, "manual__1")
    assert noted == []
