"""Tests of progress: the estimate comes from earlier runs of this host, and a terminal shows one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.refusals import bare_host

from delivery_verifier.model.progress import StepProgress
from delivery_verifier.run import estimates
from delivery_verifier.run.progress import Follower, _Load


def finished(folder: Path, reconcile_s: float) -> Path:
    """Writes the manifests of a finished run, in which reconcile took `reconcile_s`."""
    folder.mkdir(parents=True)
    for step, seconds in (("reconcile", reconcile_s), ("conclude", 1.0)):
        times = {"started_at_us": 5, "finished_at_us": 5 + int(seconds * 1e6)}
        (folder / f"{step}.json").write_text(json.dumps({"step": step, **times}))
    return folder


def test_a_step_takes_as_long_as_the_median_of_the_newest_finished_runs(tmp_path: Path) -> None:
    runs = [finished(tmp_path / str(number), seconds) for number, seconds in enumerate([9.0, 10.0, 50.0])]
    (unfinished := finished(tmp_path / "u", 500.0) / "conclude.json").unlink()
    usual_s = estimates.seconds_of([unfinished.parent, *runs])
    assert (usual_s["reconcile"], usual_s["conclude"]) == (10.0, 1.0)
    assert usual_s["settle"] == estimates.DEFAULTS_S["settle"]
    assert estimates.seconds_of([]) == estimates.DEFAULTS_S
    (runs[0] / "reconcile.json").write_text("{")
    assert estimates.seconds_of(runs)["reconcile"] == 30.0
    old = [finished(tmp_path / f"old{number}", 1.0) for number in range(estimates.RUNS_READ)]
    assert estimates.seconds_of([*old, *runs])["reconcile"] == 1.0


def test_what_is_left_is_the_rest_of_the_step_under_way_and_all_later_steps() -> None:
    usual_s = {"settle": 5.0, "reconcile": 10.0, "validate": 3.0}
    assert estimates.remaining_s(usual_s, (), {}) == 18.0
    assert estimates.remaining_s(usual_s, ("settle",), {"reconcile": 4.0}) == 9.0
    assert estimates.remaining_s(usual_s, ("settle",), {"reconcile": 99.0}) == 3.0


@pytest.mark.parametrize(("is_terminal", "quiet"), [(True, False), (False, False), (False, True)])
def test_steps_are_told_line_by_line(
    is_terminal: bool, quiet: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare_host(tmp_path, monkeypatch)
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda self: is_terminal))
    with Follower(tmp_path / "run", quiet=quiet) as follower:
        follower.step_changed(StepProgress("run", "plan", "running"))
        assert " plan 0 s" in follower._line()
        follower.step_changed(StepProgress("run", "plan", "success"))
        assert "about 60 s left" in follower._line()
    told = capsys.readouterr().err
    assert ("plan           running" in told) is ("plan           success" in told) is (not quiet)


def test_a_narrow_terminal_shows_the_step_and_the_time_left_before_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_host(tmp_path, monkeypatch)
    follower = Follower(tmp_path / "run", quiet=True)
    load = _Load(["5 of 9 (safe)", "1 of 2 (control)"], "7/s", "fault kill_leader", "about 40 s left")
    monkeypatch.setattr(follower, "_load", lambda: load)
    for step in ("produce", "inject_fault"):
        follower.step_changed(StepProgress("run", step, "running"))
    line = follower._line()
    assert line.endswith("s  produce 0 s  about 40 s left  5 of 9 (safe), 7/s  fault kill_leader"), line
    assert str(load) == "reported 5 of 9 (safe), 1 of 2 (control); 7/s; fault kill_leader; about 40 s left"
