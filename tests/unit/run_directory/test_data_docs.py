"""Tests that Data Docs forget a run that is removed, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from delivery_verifier.run_directory import data_docs


def site(runs: Path, *names: str) -> None:
    """Makes what Great Expectations writes for runs with these names."""
    for name in names:
        for part in ("guarantee", "evidence"):
            for folder, end in ((".results", "json"), ("validations", "html")):
                file = runs / "data_docs" / folder / part / name / "20261129T093404.544914Z" / f"tally-safe.{end}"
                file.parent.mkdir(parents=True)
                file.touch()
    (runs / "data_docs" / "index.html").touch()


def files(runs: Path) -> list[str]:
    return sorted(str(file.relative_to(runs)) for file in (runs / "data_docs").rglob("*") if file.is_file())


def test_results_and_pages_of_a_run_go_and_those_of_others_stay(tmp_path: Path) -> None:
    site(tmp_path, "one", "one-2")
    data_docs.forget(tmp_path / "one")
    assert len(files(tmp_path)) == 5 and not any("/one/" in file for file in files(tmp_path))
    data_docs.forget(tmp_path / "one")
    data_docs.forget(tmp_path / "never")


def test_while_another_process_writes_the_site_nothing_goes_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(data_docs, "LOCK_S", 0.1)
    site(tmp_path, "one")
    with FileLock(tmp_path / data_docs.LOCK):
        data_docs.forget(tmp_path / "one")
    assert len(files(tmp_path)) == 5 and "Data Docs still list one" in caplog.text
