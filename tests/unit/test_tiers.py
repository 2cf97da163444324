"""The summary of `make test` names each test that failed and each process that a tier left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil
import pytest
import tiers
from support.patience import PATIENCE_S

TESTS = """
import os, subprocess
from pathlib import Path
import pytest

@pytest.fixture
def broken():
    raise RuntimeError("no fixture")

@pytest.mark.parametrize("value", ["a", "b"])
def test_of_a_value(value):
    assert value == "a", "first line\\nsecond line"

def test_without_a_fixture(broken): ...

def test_that_is_skipped():
    pytest.skip("for now")

def test_that_leaves_a_process_behind():
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path(os.environ["LEFT"]).write_text(str(process.pid))
"""


def test_every_folder_with_tests_is_a_tier_that_is_run_once() -> None:
    folders = {file.relative_to(tiers.HERE).parts[0] for file in tiers.HERE.rglob("test_*.py")}
    assert folders - {"compose"} == {*tiers.TIERS}
    assert sorted([*tiers.REST, *(tier for lane in tiers.LANES for tier in lane)]) == sorted(tiers.TIERS)
    assert {*tiers.NICENESS} < {*tiers.TIERS}


@pytest.mark.parametrize("busy", range(len(tiers.LANES)))
def test_a_lane_that_is_done_takes_the_tiers_that_have_none(
    busy: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever lane is still busy, the others take the rest."""
    taken = threading.Event()

    def run(tier: str, niceness: int | None) -> tiers.Row:
        if tier == tiers.REST[-1]:
            taken.set()
        assert tier != tiers.LANES[busy][-1] or taken.wait(PATIENCE_S), "nobody took the rest"
        assert niceness is not None
        return tiers.Row(tier, 0.0, {"tests": 1, "failures": 0, "errors": 0, "skipped": 0}, [], [])

    monkeypatch.setattr(tiers, "_run", run)
    monkeypatch.setattr("sys.argv", ["tiers.py"])
    assert tiers.main() == 0
    *rows, _, summary = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == [*tiers.TIERS] and summary == "7 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    ("asked", "alone"), [(["airflow"], True), (["unit", "spark"], True), (["kafka", "airflow"], False)]
)
def test_a_tier_without_a_tier_beside_it_shows_its_output_at_once(
    asked: list[str], alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = dict[str, int | None]()

    def run(tier: str, niceness: int | None) -> tiers.Row:
        seen[tier] = niceness
        return tiers.Row(tier, 0.0, dict.fromkeys(tiers.OUTCOMES, 0), [], [])

    monkeypatch.setattr(tiers, "_run", run)
    monkeypatch.setattr("sys.argv", ["tiers.py", *asked])
    assert tiers.main() == 0
    assert {*seen} == {*asked} and all((niceness is None) == alone for niceness in seen.values())


def test_a_failed_test_and_a_process_left_behind_are_named_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark/test_some.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEFT", str(tmp_path / "left"))
    monkeypatch.setattr(tiers, "HERE", tmp_path)
    monkeypatch.setattr(tiers, "ENDS_WITHIN_S", 0.0)
    monkeypatch.setattr("sys.argv", ["tiers.py", "spark"])
    try:
        assert tiers.main() == 1
    finally:
        left = psutil.Process(int((tmp_path / "left").read_text()))
        left.kill()
        left.wait(60)
    *_, of_tier, whole, first, second, process, summary = capsys.readouterr().out.splitlines()
    assert of_tier.endswith(" 5 tests, 2 failed") and whole.startswith("all ")
    assert first.startswith("failed: spark/test_some.py::test_of_a_value[b]: AssertionError: first line")
    assert (
        second == 'failed: spark/test_some.py::test_without_a_fixture: failed on setup with "RuntimeError: no fixture"'
    )
    assert process == f"left behind by spark: {left.pid} sleep 600"
    assert summary == "2 passed, 3 failed, 1 skipped"
