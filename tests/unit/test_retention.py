"""Retention: the oldest runs go, what is in progress stays, and nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hand_made import RUN
from sealed_runs import judged

from delivery_verifier import cli, processes, retention
from delivery_verifier.cluster import lease
from delivery_verifier.commands.parsers import BAD_INPUT
from delivery_verifier.runs import RunDirectory


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    for number in range(4):
        run, _ = judged(tmp_path / "runs", f"r{number}")
        os.utime(run.path / "scenario.json", (number, number))
    return tmp_path / "runs"


def names(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir())


def begun(runs: Path, name: str, owner: str = "", age_s: float = 0) -> RunDirectory:
    """A run that was planned, and is older than all others, but has no verdict."""
    run = RunDirectory(runs / name)
    with run.writing("plan") as output:
        output.write_json("scenario.json", RUN)
        output.notes |= {"owner": owner} if owner else {}
    then = time.time() - age_s
    for file in (*run.path.iterdir(), run.path):
        os.utime(file, (then, then))
    os.utime(run.path / "scenario.json", (0, 0))
    return run


def test_the_oldest_go(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prune", "--keep", "2"]) == 0
    assert names(runs) == ["r2", "r3"]
    assert capsys.readouterr().out.splitlines()[0].startswith(f"removed {runs / 'r0'}")


def test_a_dry_run_removes_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prune", "--keep", "0", "--dry-run"]) == 0
    assert names(runs) == ["r0", "r1", "r2", "r3"]
    assert "would remove" in capsys.readouterr().out


def test_the_size_is_bounded_too(runs: Path) -> None:
    size = retention.runs(runs)[0].size
    assert cli.main(["prune", "--max-gb", str(2.5 * size / 1e9)]) == 0
    assert names(runs) == ["r2", "r3"]


def test_what_is_no_run_directory_stays(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("data_docs", "notes", "half"):
        (runs / name).mkdir()
    (runs / "data_docs" / "scenario.json").write_text("{}")
    (runs / "half" / "scenario.json").write_text("{}")
    (runs / "file.txt").write_text("x")
    run, _ = judged(tmp_path / "elsewhere", "linked")
    (runs / "link").symlink_to(run.path)
    assert cli.main(["prune", "--keep", "0"]) == 0
    assert names(runs) == ["data_docs", "file.txt", "half", "link", "notes"]
    assert (run.path / "verdict.json").exists()


def test_a_run_that_holds_the_host_stays(runs: Path) -> None:
    begun(runs, "working", age_s=10 * retention.IDLE_S)
    with lease.acquire_host("working"):
        cli.main(["prune", "--keep", "0"])
    assert names(runs) == ["working"]
    cli.main(["prune", "--keep", "0"])
    assert names(runs) == []


def test_a_run_whose_owner_lives_or_that_changed_just_now_stays(runs: Path) -> None:
    me = processes.myself()
    begun(runs, "owned", owner=f"{me.pid}:{me.started}", age_s=10 * retention.IDLE_S)
    begun(runs, "young")
    begun(runs, "abandoned", owner="1:1", age_s=10 * retention.IDLE_S)
    cli.main(["prune", "--keep", "0"])
    assert names(runs) == ["owned", "young"]


def test_a_judged_run_that_is_being_judged_again_stays(runs: Path) -> None:
    working = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (runs / "r0" / f".reconcile.{working.pid}.partial").mkdir()
    cli.main(["prune", "--keep", "0"])
    assert names(runs) == ["r0"]
    working.communicate(b"\n")
    cli.main(["prune", "--keep", "0"])
    assert names(runs) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [([], "neither --keep nor --max-gb is given"), (["--keep", "-1"], "--keep is '-1'; allowed: a whole number from 0"),
     (["--keep", "few"], "--keep is 'few'"), (["--max-gb", "nan"], "--max-gb is 'nan'; allowed: a number from 0"), (["--max-gb", "-1"], "--max-gb is '-1'")],
)  # fmt: skip
def test_a_bound_that_is_none_is_refused_and_nothing_goes(
    runs: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    assert cli.main(["prune", *options]) == BAD_INPUT
    assert told in capsys.readouterr().err
    assert len(names(runs)) == 4
