"""Tests of the live line and of the page of a run, on a played clock: in each phase both say the words of this phase
and no others, and the time that is left runs down or is not told."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.played_runs import Happening, PlayedRun, directly, play, through_airflow
from support.refusals import bare_host
from support.run_builder import planned

from delivery_verifier.catalogue import FAULTS
from delivery_verifier.model.data import dumps
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.model.steps import DOING, STEPS
from delivery_verifier.orchestration.plugin import live_run, unreported
from delivery_verifier.orchestration.plugin.dag_runs import State, Step
from delivery_verifier.progress import estimates, phases
from delivery_verifier.progress.follower import Follower
from delivery_verifier.progress.phases import Steps, phase
from delivery_verifier.run_directory.format import FORMAT, schema_digest
from delivery_verifier.run_directory.run_directory import RunDirectory

Script = Callable[[PlayedRun], list[Happening]]
LEFT = re.compile(r"about (\d+) s left")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare host with three finished runs, each step of which took as long as in the played runs."""
    bare_host(tmp_path, monkeypatch)
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    for number in range(estimates.RUNS_NEEDED):
        earlier(tmp_path / "runs", f"earlier-{number}")
    return tmp_path


SECONDS = {"plan": 3, "start_cluster": 10, "create_topics": 2, "produce": 21, "settle": 6, "read_topic": 10}
SECONDS |= {"reconcile": 25, "validate": 6, "conclude": 8}


def earlier(runs: Path, name: str, **seconds: float) -> None:
    run = planned(runs, name)
    for step, taken_s in {**SECONDS, **seconds}.items():
        times = {"format": FORMAT, "schema": schema_digest(), "started_at_us": 0, "finished_at_us": int(taken_s * 1e6)}
        (run.path / f"{step}.json").write_text(json.dumps(times))


class Tab:
    """What Airflow's database has of the played run, and the page that the tab shows of it."""

    def __init__(self, run: PlayedRun) -> None:
        self.run, self.states = run, dict[str, str]()
        self.times = dict[str, tuple[float | None, float | None]]()

    def hear(self, change: StepProgress) -> None:
        began_s, ended_s = self.times.get(change.step, (None, None))
        began_s = self.run.now_s if change.state == "running" else began_s
        ended_s = self.run.now_s if change.state in phases.ENDED else ended_s
        self.states[change.step], self.times[change.step] = change.state, (began_s, ended_s)

    def page(self) -> str:
        state = State("running", [self._step(name) for name in STEPS])
        whole = unreported.run_without_report("played", state, live_run.look(self.run.path, state))
        return " ".join(re.sub(r"<[^>]*>", "\n", whole).split())

    def _step(self, name: str) -> Step:
        began_s, ended_s = self.times.get(name, (None, None))
        now_s = self.run.now_s
        took_s = None if began_s is None else (now_s if ended_s is None else ended_s) - began_s
        return Step(name, self.states.get(name), [], took_s, None if ended_s is None else now_s - ended_s)


@pytest.mark.parametrize("cycles", [1, 3])
@pytest.mark.parametrize("script", [directly, through_airflow])
def test_each_phase_has_its_own_words_in_terminal_and_tab(
    script: Script, cycles: int, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PlayedRun(runs, monkeypatch, cycles)
    happenings, follower, tab = script(run), Follower(run.path, quiet=True, clock=run.clock), Tab(run)
    words = {happening.phase for happening in happenings}

    def hear(change: StepProgress) -> None:
        follower.step_changed(change)
        tab.hear(change)

    for second, expected in play(run, happenings, hear):
        line = follower.line()
        said = re.split(r"  +", line.strip())[1]
        assert re.fullmatch(expected, said), (second, line)
        assert [each for each in words - {expected} if re.fullmatch(each, said)] == []
        if script is through_airflow:
            assert f"{said[:1].upper()}{said[1:]}" in tab.page(), (second, said)


@pytest.mark.parametrize("script", [directly, through_airflow])
def test_the_time_left_runs_down_second_by_second_or_is_not_told(
    script: Script, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PlayedRun(runs, monkeypatch)
    follower, tab = Follower(run.path, quiet=True, clock=run.clock), Tab(run)

    def hear(change: StepProgress) -> None:
        follower.step_changed(change)
        tab.hear(change)

    told: list[tuple[float, int, int]] = []  # the second, the seconds that are left, and how many states were heard of
    for second, _ in play(run, script(run), hear):
        if found := LEFT.search(follower.line()):
            told.append((second, int(found[1]), sum(happening.at_s <= second for happening in script(run))))
        if script is through_airflow:
            pages = LEFT.search(tab.page())
            assert (pages and pages[1]) == (found and found[1]), "terminal and tab say the same"
    assert len(told) > 60, "the played run is as long as the earlier ones"
    for (before, left_before, state), (after, left_after, state_after) in pairwise(told):
        if after - before == 1 and state == state_after:
            assert left_after == left_before - 1, f"{left_before} s left at {before} s, {left_after} s at {after} s"
        assert left_after <= left_before + 2, "a step that begins late puts it up by so much"
    (second, left, _), end = told[0], script(run)[-1].at_s
    assert abs(second + left - end) <= 12, "it is about right from the first time on"


def test_a_step_that_takes_longer_than_usual_has_no_estimate_and_the_next_one_has(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual_s = {"settle": 6.0, "read_topic": 10.0, "reconcile": 25.0, "validate": 6.0}
    states = {"settle": "success", "reconcile": "running"}
    lefts = [estimates.remaining_s(usual_s, Steps(states, {"reconcile": at_s})) for at_s in (0.0, 34.0, 35.0, 36.0, 99)]
    assert lefts == [41.0, 7.0, 6.0, None, None]
    assert estimates.remaining_s(usual_s, Steps({**states, "reconcile": "success", "validate": "running"}, {})) == 6.0
    assert estimates.in_words(None) == "" and estimates.in_words(6.4) == "about 6 s left"


def test_while_no_step_is_under_way_the_time_of_the_next_one_runs() -> None:
    states = dict.fromkeys(("plan", "start_cluster", "create_topics", "produce", "inject_fault"), "success")
    usual_s = {"settle": 6.0, "validate": 6.0}
    assert [estimates.remaining_s(usual_s, Steps(states, {}, at_s)) for at_s in (0.0, 2.0, 7.0)] == [12.0, 10.0, None]
    assert estimates.remaining_s(usual_s, Steps({}, {}, 2.0)) is None, "a run that waits may wait for long"
    assert estimates.remaining_s(usual_s, Steps({**states, "settle": "failed"}, {})) is None


@pytest.mark.parametrize("number", range(estimates.RUNS_NEEDED + 1))
def test_no_estimate_comes_from_one_or_two_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare_host(tmp_path, monkeypatch)
    for at in range(number):
        earlier(tmp_path, f"earlier-{at}")
    load = planned(tmp_path, "this").read_scenario().load
    usual_s = estimates.usual_s(sorted(tmp_path.glob("earlier-*")), load)
    assert (usual_s is None) is (number < estimates.RUNS_NEEDED)


def test_the_load_takes_as_much_longer_than_planned_as_the_loads_before(tmp_path: Path) -> None:
    load = planned(tmp_path, "this").read_scenario().load
    planned_s = load.duration_s + load.recovery_s
    for at, taken_s in enumerate((planned_s + 90, planned_s + 4, planned_s + 5)):
        earlier(tmp_path, f"earlier-{at}", produce=taken_s)
    runs = sorted(tmp_path.glob("earlier-*"))
    usual_s = estimates.usual_s(runs, load)
    assert usual_s is not None and usual_s["produce"] == planned_s + 5
    for run in runs:
        (run / "produce.json").write_text("{")
    usual_s = estimates.usual_s(runs, load)
    assert usual_s is not None and usual_s["produce"] == planned_s


def test_a_run_that_failed_or_was_ended_names_no_next_step(tmp_path: Path) -> None:
    for state in ("failed", "upstream_failed", "skipped"):
        assert phase(tmp_path, Steps({"plan": "success", "start_cluster": state}, {})) == "ending the run"
    assert phase(tmp_path, Steps({"plan": "failed", "stop_cluster": "running"}, {})) == DOING["stop_cluster"]


def test_where_nobody_sees_the_workspace_only_the_step_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = PlayedRun(runs, monkeypatch)
    loading = Steps({"produce": "running", "inject_fault": "running"}, {})
    assert phase(run.path, loading) == DOING["produce"]
    run.plan()
    assert phase(run.path, loading) == DOING["produce"]
    run.start_cluster()
    assert phase(run.path, loading) == "warm-up of the producers"
    run.workspace.rmdir()
    assert phase(run.path, loading) == DOING["produce"]


def test_a_load_without_a_fault_says_so(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = PlayedRun(runs, monkeypatch)
    planned(run.runs, "played", fault="none")
    run.start_cluster()
    run.touch("produce.begun")()
    assert phase(run.path, Steps({"produce": "running"}, {})) == "load without a fault"


def test_before_the_load_the_tab_says_what_will_come_and_afterwards_it_shows_what_is(runs: Path) -> None:
    run = planned(runs / "runs", "coming")
    fault = run.read_scenario().fault

    def page(name: str, **states: str | None) -> str:
        state = State("running", [Step(step, at, took_s=1.0 if at else None) for step, at in states.items()])
        return html.unescape(unreported.run_without_report(name, state, live_run.look(runs / "runs" / name, state)))

    unplanned = page("not yet", plan="running", produce=None)
    assert "What comes: the brokers start; producers send the load, under the fault that was asked for" in unplanned
    begun = page("coming", plan="success", start_cluster="running", produce=None)
    assert f"producers send at least 1,000 records, under the fault {fault.name} ({fault.summary[:-1]})" in begun
    assert "What comes" not in page("coming", plan="success", start_cluster="success", produce="running")
    assert "What comes" not in page("coming", plan="success", start_cluster="failed", produce=None)
    assert "without a fault" in _coming_without_fault(run)


def _coming_without_fault(run: RunDirectory) -> str:
    scenario = replace(run.read_scenario(), fault=FAULTS["none"])
    (run.path / "scenario.json").write_bytes(dumps(scenario))
    return phases.coming(run.path)
