"""Tests of the choice of the stored run with which the Spark Connect server is warmed up."""

from __future__ import annotations

import os
from pathlib import Path

from delivery_verifier.orchestration.local import warm_up


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
