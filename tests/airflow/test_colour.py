"""Tests of the colour of a run: Airflow's own functions decide, on the DAG as the scheduler reads it, which task comes
next and in which state the run ends. Only the tasks do not work: a test says which of them fail.

`tests/e2e/test_no_false_green.py` has real runs through a real scheduler in which a step fails.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow.api.common.mark_tasks import set_dag_run_state_to_failed
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from support.played_dags import Played

from delivery_verifier.model.steps import BEFORE_GATE, GATE, STEPS

BESIDE = {"produce", "inject_fault"}
"""The steps that run at the same time. If one of them fails, the other may fail, too, or have succeeded already."""
NEEDED = (*BEFORE_GATE, GATE)
"""The steps on which a verdict rests."""
CASES = [pytest.param({step}, id=step) for step in NEEDED] + [pytest.param(BESIDE, id="produce and inject_fault")]
PUBLISH, STOP = "publish_verdict", "stop_cluster"
TASKS = (*STEPS, PUBLISH)


@pytest.fixture
def played(dag: SerializedDAG) -> Iterator[Played]:
    with create_session() as session:
        yield Played(dag, session)
        session.rollback()


def test_a_run_in_which_no_step_fails_is_green(played: Played) -> None:
    assert played.play(lambda step: False) == "success"
    assert played.states == dict.fromkeys(TASKS, "success")
    assert sorted(played.begun) == sorted(TASKS)


@pytest.mark.parametrize("end", ["success", "skipped", "failed"])
@pytest.mark.parametrize("beside", [PUBLISH, STOP])
def test_however_a_task_ends_on_which_no_verdict_rests_the_gate_alone_decides(
    played: Played, beside: str, end: str
) -> None:
    played.ends[beside] = TaskInstanceState(end)
    assert played.play(lambda step: False) == "success"
    assert played.states == {**dict.fromkeys(TASKS, "success"), beside: end}


@pytest.mark.parametrize("end", ["success", "skipped", "failed"])
@pytest.mark.parametrize("failing", CASES)
def test_a_red_run_stays_red_however_the_tasks_end_on_which_no_verdict_rests(
    played: Played, failing: set[str], end: str
) -> None:
    played.ends |= dict.fromkeys((PUBLISH, STOP), TaskInstanceState(end))
    assert played.play(failing.__contains__) == "failed"


def test_a_publisher_that_could_fail_the_run_would_make_red_runs_green(
    played: Played, dag: SerializedDAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This shows that the tests above can fail."""
    monkeypatch.setattr(dag.get_task(PUBLISH), "on_failure_fail_dagrun", True)
    assert played.play({GATE}.__contains__) == "success"


def test_a_stop_of_the_cluster_that_could_fail_the_run_would_make_green_runs_red(
    played: Played, dag: SerializedDAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This shows that the tests above can fail."""
    monkeypatch.setattr(dag.get_task(STOP), "on_failure_fail_dagrun", True)
    assert played.play({STOP}.__contains__) == "failed"


@pytest.mark.parametrize("failing", CASES)
def test_whichever_step_fails_the_run_is_red_and_its_gate_stays_shut(played: Played, failing: set[str]) -> None:
    assert played.play(failing.__contains__) == "failed"
    states = played.states
    assert {step for step, state in states.items() if state == "failed"} == failing | (
        {GATE} if failing & {*BEFORE_GATE} else set()
    )
    assert states[GATE] == "failed", "the gate runs whatever happened, and lets nothing through"


@pytest.mark.parametrize("failing", CASES)
def test_whichever_step_fails_no_step_that_needs_it_begins_and_the_cluster_is_stopped_if_it_began(
    played: Played, dag: SerializedDAG, failing: set[str]
) -> None:
    played.play(failing.__contains__)
    behind = set.union(*(dag.get_task(step).get_flat_relative_ids(upstream=False) for step in failing))
    assert {*played.begun} & behind <= {GATE, PUBLISH, STOP}
    has_cluster = played.states["start_cluster"] == "success"
    assert (STOP in played.begun) == has_cluster or "start_cluster" in failing


@pytest.mark.parametrize("after", [None, *TASKS])
def test_a_run_that_a_user_marks_as_failed_is_green_only_if_all_its_work_had_been_done(
    played: Played, dag: SerializedDAG, after: str | None
) -> None:
    """Airflow skips the plain tasks that have not begun, and never a teardown. `after` is the last step that ends
    before the user marks the run."""
    while after and played.states[after] != "success":
        for ti in played.round():
            ti.state = TaskInstanceState.SUCCESS
    was_done = all(played.states[step] == "success" for step in BEFORE_GATE)
    played.session.commit()
    set_dag_run_state_to_failed(dag=dag, run_id=played.run.run_id, commit=True, session=played.session)
    played.session.commit()
    played.session.refresh(played.run)
    if played.run.state == DagRunState.RUNNING:
        played.play(lambda step: False)
    assert was_done == (after in ("validate", GATE, STOP, PUBLISH))
    is_whole = played.states == dict.fromkeys(TASKS, "success")
    assert played.run.state == "failed" or (played.run.state == "success" and was_done and is_whole), played.states
