"""Tests of the names of run directories. Each name is safe as a file name, always the same for a run id, and different
for different run ids."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.host import folders
from delivery_verifier.model.scenario import Scenario

RUN_IDS = st.text(alphabet=st.sampled_from("abzAZ09_.-:+~ /\\é"), min_size=1, max_size=200)
SCENARIO_RUN_ID = re.compile(
    next(f.type.pattern for f in msgspec.inspect.type_info(Scenario).fields if f.name == "run_id")
)  # type: ignore[attr-defined]


@pytest.mark.parametrize("run_id", ["nightly-7", "r1", "a.b_c"])
def test_a_safe_run_id_is_the_name(run_id: str) -> None:
    assert folders.run_directory_name(run_id) == run_id


def test_an_airflow_run_id_stays_readable() -> None:
    name = folders.run_directory_name("manual__2026-01-01T00:00:00+00:00")
    assert name.startswith("manual__2026-01-01T00-00-00-00-00-")


@given(RUN_IDS)
def test_every_name_is_one_folder_and_a_run_id_of_the_scenario(run_id: str) -> None:
    name = folders.run_directory_name(run_id)
    assert len(name) <= 120
    assert Path(name).name == name
    assert name != folders.DATA_DOCS
    assert SCENARIO_RUN_ID.fullmatch(name)


@given(RUN_IDS)
def test_naming_a_name_changes_nothing(run_id: str) -> None:
    name = folders.run_directory_name(run_id)
    assert folders.run_directory_name(name) == name


@given(RUN_IDS, RUN_IDS)
def test_two_run_ids_that_look_alike_when_made_safe_do_not_share_a_directory(one: str, other: str) -> None:
    names = {folders.run_directory_name(one), folders.run_directory_name(other)}
    assert len(names) == len({one, other})


def test_the_folder_of_the_data_docs_belongs_to_no_run() -> None:
    assert folders.run_directory_name("data_docs").startswith("data_docs-")


def test_a_run_needs_a_name() -> None:
    with pytest.raises(ValueError, match="run_id is empty"):
        folders.run_directory_name("")


def test_the_environment_says_where_things_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KDV_RUNS", raising=False)
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    assert (folders.runs_dir(), folders.state_dir()) == (tmp_path / "runs", tmp_path / ".kdv")
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "elsewhere"))
    assert folders.runs_dir() == tmp_path / "elsewhere"


def test_latest_points_at_the_run_planned_last_and_is_no_run_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    for name, at_s in (("b", 100), ("a", 200)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scenario.json").write_text("{}")
        os.utime(tmp_path / name / "scenario.json", (at_s, at_s))
        folders.point_latest_at(tmp_path / name)
    assert (tmp_path / folders.LATEST).resolve() == tmp_path / "a"
    assert [run.name for run in folders.stored_runs()] == ["a", "b"]
    assert folders.run_directory_name(folders.LATEST) != folders.LATEST
    (tmp_path / folders.LATEST).unlink()
    (tmp_path / folders.LATEST).mkdir()
    folders.point_latest_at(tmp_path / "a")
    assert not (tmp_path / folders.LATEST).is_symlink()
