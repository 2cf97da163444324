"""Tests of retention, the removal of old runs. It removes the oldest runs, keeps runs in progress, and changes nothing
else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.catalogue_runs import catalogue, item
from support.evidence import RUN
from support.report_material import sealed
from support.run_builder import RunBuilder

from delivery_verifier.cluster import lease
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.parsers import BAD_INPUT
from delivery_verifier.host import processes
from delivery_verifier.maintenance import retention
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import RunDirectory


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    for number in range(4):
        run, _ = sealed(tmp_path / "runs", f"r{number}")
        os.utime(run.path / "scenario.json", (number, number))
    return tmp_path / "runs"


def names(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir())


def begun(runs: Path, name: str, owner: str = "", age_s: float = 0) -> RunDirectory:
    """Makes a run that was planned but has no verdict. Its scenario is older than all other runs. `owner`: the process
    of the run. `age_s`: how long ago its files changed."""
    run = RunBuilder(RUN, **({"owner": owner} if owner else {})).at(runs / name)
    then = time.time() - age_s
    for file in (*run.path.iterdir(), run.path):
        os.utime(file, (then, then))
    os.utime(run.path / "scenario.json", (0, 0))
    return run


def test_the_oldest_go(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["prune", "--keep", "2"]) == 0
    assert names(runs) == ["r2", "r3"]
    assert capsys.readouterr().out.splitlines()[0].startswith(f"removed {runs / 'r0'}")


def test_data_docs_forget_what_goes(runs: Path) -> None:
    parts = [runs / "data_docs" / "validations" / "evidence" / f"r{number}" for number in range(4)]
    for part in parts:
        part.mkdir(parents=True)
    assert cli.main(["prune", "--keep", "2"]) == 0
    assert [part.exists() for part in parts] == [False, False, True, True]


def test_what_an_interrupted_removal_left_is_no_run_and_goes_with_the_next_one(runs: Path) -> None:
    catalogue_runs.write(catalogue(item("a")))
    halves = [runs / ".pruned-old-999999999", catalogue_runs.folder() / ".pruned-c-999999999"]
    shutil.copytree(runs / "r3", halves[0])
    shutil.copytree(catalogue_runs.directory("c"), halves[1])
    at_work = runs / f".pruned-mine-{os.getpid()}"
    at_work.mkdir()
    assert len(retention.units(runs)) == 5 and [one.id for one in catalogue_runs.newest(9)] == ["c"]
    assert cli.main(["prune", "--keep", "5", "--dry-run"]) == 0 and all(half.is_dir() for half in halves)
    assert cli.main(["prune", "--keep", "5"]) == 0
    assert not any(half.exists() for half in halves) and at_work.is_dir() and len(retention.units(runs)) == 5


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
    run, _ = sealed(tmp_path / "elsewhere", "linked")
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
    [
        ([], "neither --keep nor --max-gb is given"),
        (["--keep", "-1"], "--keep is '-1'; allowed: a whole number from 0"),
        (["--keep", "few"], "--keep is 'few'"),
        (["--max-gb", "nan"], "--max-gb is 'nan'; allowed: a number from 0"),
        (["--max-gb", "-1"], "--max-gb is '-1'"),
    ],
)
def test_a_bound_that_is_none_is_refused_and_nothing_goes(
    runs: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    assert cli.main(["prune", *options]) == BAD_INPUT
    assert told in capsys.readouterr().err
    assert len(names(runs)) == 4


def with_catalogue(runs: Path, name: str, *ages: int, ended: bool = True) -> None:
    """Writes a catalogue run `name`, and one run of its entry `a` for each of `ages`. An age is the time of the run, in
    seconds since the epoch. `ended`: whether the catalogue run has ended."""
    catalogue_runs.write(catalogue(item("a", *["as expected"] * len(ages)), ended=ended, id=name))
    for number, age in enumerate(ages, 1):
        run, _ = sealed(runs, f"{name}-a" + (f"-{number}" if number > 1 else ""))
        os.utime(run.path / "scenario.json", (age, age))
    os.utime(runs / "catalogues" / name / catalogue_runs.FILE, (ages[-1], ages[-1]))


def test_a_catalogue_run_and_its_runs_stay_or_go_together(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_catalogue(runs, "old", 1, 2)
    with_catalogue(runs, "new", 8, 9)
    assert cli.main(["prune", "--keep", "2"]) == 0
    assert names(runs) == ["catalogues", "new-a", "new-a-2", "r3"]
    assert [path.name for path in (runs / "catalogues").iterdir()] == ["new"]
    assert "catalogues/old with 2 runs" in capsys.readouterr().out


def test_a_catalogue_run_counts_with_the_size_of_its_runs(runs: Path) -> None:
    with_catalogue(runs, "new", 8, 9)
    (runs / "new-a" / "padding").write_bytes(b"x" * 1_000_000)
    found = retention.units(runs)
    assert found[0].path.name == "new" and found[0].size > 1_000_000
    assert [one.path.name for one in retention.surplus(runs, None, 500_000)][-1] == "new"


def test_a_catalogue_run_that_is_under_way_stays_with_all_its_runs(runs: Path) -> None:
    with_catalogue(runs, "now", 1, 2, ended=False)
    os.utime(runs / "catalogues" / "now" / catalogue_runs.FILE)
    assert cli.main(["prune", "--keep", "0"]) == 0
    assert names(runs) == ["catalogues", "now-a", "now-a-2"]
    old = time.time() - 2 * retention.IDLE_S  # given up: nobody takes it up again after so long
    os.utime(runs / "catalogues" / "now" / catalogue_runs.FILE, (old, old))
    assert cli.main(["prune", "--keep", "0"]) == 0
    assert names(runs) == ["catalogues"]


def test_a_run_is_not_taken_for_one_of_a_catalogue_run_by_a_similar_name(runs: Path) -> None:
    with_catalogue(runs, "r", 9)
    (one,) = retention.catalogues(runs)
    assert [path.name for path in one.runs] == ["r-a"]


def test_a_damaged_catalogue_run_is_removed_alone(runs: Path) -> None:
    with_catalogue(runs, "broken", 9)
    (runs / "catalogues" / "broken" / catalogue_runs.FILE).write_text("{")
    assert cli.main(["prune", "--keep", "0"]) == 0
    assert names(runs) == ["catalogues"] and not list((runs / "catalogues").iterdir())
