"""The summary of `make test` names each test that failed and each process that a tier left behind."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import batches
import psutil
import pytest
import tiers
import turns
from batches import Batch
from support.patience import PATIENCE_S

from delivery_verifier.host.waiting import wait_until

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


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_CACHE", str(tmp_path / "cache"))


def result(batch: Batch) -> tiers.Row:
    return tiers.Row(batch, 0.0, {"tests": 1, "failures": 0, "errors": 0, "skipped": 0}, [], [], [], [])


@pytest.mark.parametrize(("tests", "code"), [(1, 0), (0, 1)])
def test_a_batch_of_the_gate_that_ran_no_test_is_red(tests: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [result(Batch((name,))) for name in ("kafka", "unit")]
    rows[0].counts["tests"] = tests
    monkeypatch.setattr(tiers, "run", lambda _: rows)
    monkeypatch.setattr("sys.argv", ["tiers.py"])
    assert tiers.main() == code


def test_costs_are_recorded_of_whole_modules_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded: list[tiers.Spent] = []
    spent = [tiers.Spent(f"unit/test_{name}.py::test", 1.0, 1.0, True) for name in ("whole", "part")]
    rows = [result(Batch(("unit",)))._replace(spent=spent, unfinished=["unit/test_part.py"])]
    monkeypatch.setattr(tiers, "run", lambda _: rows)
    monkeypatch.setattr(tiers.costs, "record", recorded.extend)
    monkeypatch.setattr("sys.argv", ["tiers.py", "unit", "--record"])
    assert tiers.main() == 0 and recorded == spent[:1]
    monkeypatch.setattr("sys.argv", ["tiers.py", "--turn", "--record"])
    with pytest.raises(SystemExit):
        tiers.main()
    assert "--record needs whole modules" in capsys.readouterr().err


def test_every_folder_with_tests_is_a_tier_that_is_run_once() -> None:
    folders = {file.relative_to(tiers.HERE).parts[0] for file in tiers.HERE.rglob("test_*.py")}
    assert sorted(folders - {"compose"}) == sorted(batches.TIERS)
    assert {*tiers.NICENESS} < {*batches.TIERS}


@pytest.mark.parametrize("busy", range(tiers.LANES))
def test_a_lane_that_is_done_takes_the_next_batch(
    busy: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever lane is still busy, the others take the rest."""
    wanted = batches.of_tiers(batches.TIERS)
    taken = threading.Event()

    def run(batch: Batch, niceness: int | None) -> tiers.Row:
        if batch == wanted[-1]:
            taken.set()
        assert batch != wanted[busy] or taken.wait(PATIENCE_S), "nobody took the rest"
        assert niceness is not None
        return result(batch)

    monkeypatch.setattr(tiers, "_run", run)
    assert len(wanted) > tiers.LANES and [row.batch for row in tiers.run(wanted)] == wanted


@pytest.mark.parametrize(
    ("asked", "alone"), [(["airflow"], True), (["catalogue", "e2e"], True), (["unit", "e2e"], False)]
)
def test_a_batch_without_a_batch_beside_it_shows_its_output_at_once(
    asked: list[str], alone: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = dict[str, int | None]()

    def run(batch: Batch, niceness: int | None) -> tiers.Row:
        seen[batch.name] = niceness
        return result(batch)

    monkeypatch.setattr(tiers, "_run", run)
    monkeypatch.setattr("sys.argv", ["tiers.py", *asked])
    assert tiers.main() == 0
    assert {name for names in seen for name in names.split("+")} >= {*asked}
    assert all((niceness is None) == alone for niceness in seen.values())
    assert capsys.readouterr().out.splitlines()[-1] == f"{len(seen)} passed, 0 failed, 0 skipped"


@pytest.mark.slow
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
    *_, first, second, process, summary = capsys.readouterr().out.splitlines()
    assert first.startswith("failed: spark/test_some.py::test_of_a_value[b]: AssertionError: first line")
    assert (
        second == 'failed: spark/test_some.py::test_without_a_fixture: failed on setup with "RuntimeError: no fixture"'
    )
    assert process == f"left behind by spark: {left.pid} sleep 600"
    assert summary == "2 passed, 3 failed, 1 skipped"


@pytest.mark.slow
def test_what_had_passed_before_an_interruption_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, waits = tmp_path / "begun", "import time\nfrom pathlib import Path\n"
    for name, text in {
        "pytest.ini": "[pytest]\n",
        "conftest.py": (tiers.HERE / "conftest.py").read_text(),
        "spark/test_first.py": "def test_one(): ...\n",
        "spark/test_second.py": f"{waits}\ndef test_one():\n    Path({str(begun)!r}).touch()\n    time.sleep(600)\n",
        "unit/test_third.py": "def test_one(): ...\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tiers.HERE))
    monkeypatch.setattr(tiers, "HERE", tmp_path)
    monkeypatch.setattr(tiers, "_interrupted", threading.Event())
    monkeypatch.setattr("sys.argv", ["tiers.py", "spark", "unit"])

    def interrupt() -> None:
        wait_until(begun.exists, "the second module to begin", PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert tiers.main() == tiers.INTERRUPTED
    thread.join()
    assert "not finished, interrupted or out of time: spark/test_second.py" in capsys.readouterr().out
    assert {"spark/test_first.py", "spark/test_second.py"} & {*turns._read().green} == {"spark/test_first.py"}
