"""Tests of the choice of the stored run with which the Spark Connect server is warmed up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from delivery_verifier.host import variables
from delivery_verifier.local_airflow import warm_up


def _run(runs: Path, name: str, *, at: int, size: int = 10, sealed: bool = True) -> Path:
    (runs / name / "ledger").mkdir(parents=True)
    with (runs / name / "ledger" / "a.parquet").open("wb") as file:
        file.truncate(size)
    if sealed:
        (runs / name / "reconcile.json").touch()
        os.utime(runs / name / "reconcile.json", (at, at))
    return runs / name


def test_the_newest_reconciled_run_that_is_small_is_chosen(tmp_path: Path) -> None:
    assert warm_up.newest_small_run(tmp_path / "none") is None
    _run(tmp_path, "large", at=4, size=warm_up.MOST_BYTES + 1)
    _run(tmp_path, "unfinished", at=0, sealed=False)
    assert warm_up.newest_small_run(tmp_path) is None
    chosen = _run(tmp_path, "newer", at=3)
    _run(tmp_path, "older", at=2)
    assert warm_up.newest_small_run(tmp_path) == chosen


def test_before_the_user_has_made_a_run_that_of_the_setup_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(warm_up, "FIRST_RUN", tmp_path / "first-run")
    assert warm_up.run_to_reconcile() is None
    first = _run(tmp_path / "first-run", "run", at=9)
    assert warm_up.run_to_reconcile() == first
    own = _run(tmp_path / "runs", "own", at=1)
    _run(tmp_path / "runs", "smaller", at=2, size=9)
    assert warm_up.run_to_reconcile() == own


@pytest.mark.parametrize(
    ("busy_from", "chosen", "passes"),
    [(0, "", 0), (2, "", 2), (99, "", variables.WARM_UP_PASSES), (99, "6", 6), (99, "0", 0)],
)
def test_no_pass_begins_while_a_run_uses_the_host_and_no_more_than_the_user_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy_from: int, chosen: str, passes: int
) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv("KDV_WARM_UP", chosen)
    monkeypatch.setattr(warm_up.spark_server, "listens", lambda port: True)
    done: list[Path] = []
    monkeypatch.setattr(warm_up, "_reconcile_copy", lambda run, port: done.append(run))
    monkeypatch.setattr(warm_up.lease, "holder", lambda: "a run" if len(done) >= busy_from else None)
    warm_up.warm_up(tmp_path, 1)
    assert len(done) == passes
