"""Tests of progress: the estimate comes from earlier runs of this host, and a terminal shows one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text
from support.live_runs import reconciling
from support.patience import PATIENCE_S
from support.refusals import bare_host
from support.run_builder import planned

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.live import LiveSpark
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.progress import estimates
from delivery_verifier.progress import follower as follow
from delivery_verifier.progress.follower import Follower
from delivery_verifier.progress.phases import Steps


def finished(folder: Path, reconcile_s: float) -> Path:
    """Writes the manifests of a finished run, in which reconcile took `reconcile_s`."""
    folder.mkdir(parents=True)
    for step, seconds in (("reconcile", reconcile_s), ("conclude", 1.0)):
        times = {"started_at_us": 5, "finished_at_us": 5 + int(seconds * 1e6)}
        (folder / f"{step}.json").write_text(json.dumps({"step": step, **times}))
    return folder


def test_the_runs_of_a_sentinel_say_nothing_about_other_runs(tmp_path: Path) -> None:
    runs = [finished(tmp_path / str(number), 10.0) for number in range(3)]
    of_sentinel = finished(tmp_path / "s", 1.0)
    (of_sentinel / "plan.json").write_text('{"notes": {"sentinel": "staging"}}')
    assert estimates.finished([of_sentinel, *runs]) == runs


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
    assert estimates.remaining_s(usual_s, Steps({"settle": "running"}, {"settle": 0.0})) == 18.0
    states = {"settle": "success", "reconcile": "running"}
    assert estimates.remaining_s(usual_s, Steps(states, {"reconcile": 4.0})) == 9.0
    assert estimates.remaining_s(usual_s, Steps(states, {"reconcile": 99.0})) is None


def test_the_reading_is_a_part_of_reconcile_only_where_it_is_no_step_of_its_own() -> None:
    usual_s = {"read_topic": 14.0, "reconcile": 26.0, "validate": 6.0}
    states = {"settle": "success", "reconcile": "running"}
    in_airflow = [
        estimates.remaining_s(usual_s, Steps(states, {"reconcile": since_s})) for since_s in (0.0, 10.0, 20.0)
    ]
    assert in_airflow == [46.0, 36.0, 26.0]
    reading = Steps({"settle": "success", "read_topic": "running"}, {"read_topic": 10.0})
    assert estimates.remaining_s(usual_s, reading) == 36.0
    states["read_topic"] = "success"
    directly = [estimates.remaining_s(usual_s, Steps(states, {"reconcile": since_s})) for since_s in (0.0, 10.0)]
    assert directly == [32.0, 22.0]


@pytest.mark.parametrize(("is_terminal", "quiet"), [(True, False), (False, False), (False, True)])
def test_steps_are_reported_line_by_line(
    is_terminal: bool, quiet: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare_host(tmp_path, monkeypatch)
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda self: is_terminal))
    with Follower(tmp_path / "run", quiet=quiet) as follower:
        follower.step_changed(StepProgress("run", "plan", "running"))
        assert follower.line().endswith("  planning the run")
        follower.step_changed(StepProgress("run", "plan", "success"))
        assert follower.line().endswith("  next: starting the cluster"), "no run has finished here: no estimate"
    told = capsys.readouterr().err
    assert ("plan           running" in told) is ("plan           success" in told) is (not quiet)


def test_a_narrow_terminal_shows_the_phase_and_the_time_left_before_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_host(tmp_path, monkeypatch)
    follower = Follower(tmp_path / "run", quiet=True)
    monkeypatch.setattr(follower, "_load", lambda: (["5 of 9 (safe)", "1 of 2 (control)"], "7/s"))
    monkeypatch.setattr(follower, "_left_s", lambda steps: 40.2)
    for step in ("produce", "inject_fault"):
        follower.step_changed(StepProgress("run", step, "running"))
    assert follower.line().endswith("s  sending the load  about 40 s left  5 of 9 (safe), 7/s")
    assert follower._plain_line() == (
        "sending the load; reported 5 of 9 (safe), 1 of 2 (control); 7/s; about 40 s left"
    )


def _cut(line: str, columns: int) -> str:
    """Returns the line as a terminal of this width shows it."""
    (segments,) = Console(width=columns).render_lines(Text(line, no_wrap=True, overflow="ellipsis"), pad=False)
    return "".join(segment.text for segment in segments)


@pytest.mark.parametrize("step", ["read_topic", "reconcile"])
def test_while_spark_works_the_line_says_what_it_does(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_host(tmp_path, monkeypatch)
    run = planned(tmp_path, "run")
    file = reconciling(run, tmp_path / "w", LiveSpark("job", 5, 41, 64))
    follower = Follower(run.path, quiet=True)
    monkeypatch.setattr(follower, "_left_s", lambda steps: 54.0)
    follower.step_changed(StepProgress("run", "settle", "success"))
    assert "job" not in follower.line()
    follower.step_changed(StepProgress("run", step, "running"))
    assert (line := follower.line()).endswith("  Spark reads the topics  about 54 s left  job 5, 41 of 64 tasks")
    assert _cut(line, 120) == line
    assert len(_cut(line, 60)) == 60 and "about 54 s left" in _cut(line, 60)
    file.write_bytes(b'{"unit":"jo')
    assert follower.line().endswith("s left")
    reconciling(run, tmp_path / "w", LiveSpark("job", 5))
    follower.step_changed(StepProgress("run", step, "success"))
    assert "job" not in follower.line()


def test_without_a_terminal_a_line_says_what_spark_does_when_that_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare_host(tmp_path, monkeypatch)
    monkeypatch.setattr(follow, "EVERY_S", 0.01)
    run = planned(tmp_path, "run")
    looks, spark = list[Path](), follow.live.spark

    def counted(run_dir: Path) -> LiveSpark | None:
        looks.append(run_dir)
        return spark(run_dir)

    monkeypatch.setattr(follow.live, "spark", counted)
    with Follower(run.path) as follower:
        follower.step_changed(StepProgress("run", "reconcile", "running"))
        for number in (1, 2):
            reconciling(run, tmp_path / "w", LiveSpark("query", number, number, 64))
            before = len(looks)
            wait_until(lambda before=before: len(looks) > before + 5, "some more looks", PATIENCE_S)  # type: ignore[misc]
    told = [line.split("  ")[-1] for line in capsys.readouterr().err.splitlines() if "Spark" in line]
    assert told == [f"Spark reads the topics; query {number}, {number} of 64 tasks" for number in (1, 2)]
