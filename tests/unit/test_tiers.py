"""The summary of `make test` names each test that failed and each process that a tier left behind."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import tiers

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


def test_every_folder_with_tests_is_a_tier_of_one_lane() -> None:
    folders = {file.relative_to(tiers.HERE).parts[0] for file in tiers.HERE.rglob("test_*.py")}
    assert folders - {"compose"} == {*tiers.TIERS}
    assert sorted(tier for lane in tiers.LANES for tier in lane) == sorted(tiers.TIERS)
    assert {*tiers.NICENESS} < {*tiers.TIERS}


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
