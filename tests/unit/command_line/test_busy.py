"""Tests that a run on a host in use is refused before anything else is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delivery_verifier.cluster import lease
from delivery_verifier.command_line.main import main
from delivery_verifier.pipeline.steps import plan


@pytest.fixture(autouse=True)
def _in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    with lease.acquire_host("kdv-of-another"):
        yield


def test_a_second_run_says_nothing_but_who_uses_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--direct"]) == 75
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert "this host is in use: kdv-of-another" in line


def test_a_plan_looks_at_the_host_before_it_looks_at_the_input(tmp_path: Path) -> None:
    with pytest.raises(lease.HostBusy, match="kdv-of-another"):
        plan.plan_from_params({"profile": "acks_2"}, "r")
    assert not (tmp_path / "runs").exists()
