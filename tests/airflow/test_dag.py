"""Tests of the DAG of one run: it loads, its edges follow the declared steps, and no failed step can end in a green
run."""

from __future__ import annotations

import copy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from support.patience import PATIENCE_S

from delivery_verifier.model.scenario import Load
from delivery_verifier.model.steps import BEFORE_GATE, STEPS, TIMEOUTS
from delivery_verifier.orchestration.tasks import form, verdict_event

DAGS = Path(__file__).resolve().parents[2] / "dags"
WORK = ["plan", "start_cluster", "create_topics", "produce", "settle", "reconcile", "validate", "conclude"]

PUBLISH = "publish_verdict"
"""The task that emits the verdict as an event. It is no step."""


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(dag_folder=str(DAGS))


@pytest.fixture(scope="module")
def dag(bag: DagBag) -> DAG:
    return bag.dags["verify_delivery"]


def test_every_dag_file_loads(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert "verify_delivery" in bag.dags


def test_neither_a_dag_nor_the_plugin_imports_what_only_some_tasks_need() -> None:
    """Airflow executes the DAG files and the plugin again for every task. It also parses the DAG files every few
    seconds."""
    program = (
        "import runpy, sys\nfor path in "
        f"{sorted(map(str, [*DAGS.glob('*.py'), DAGS.parent / 'plugins' / 'delivery_plugin.py']))}:\n    "
        "runpy.run_path(path)\nprint([name for name in ('pandas', 'pyarrow', 'pyspark', 'great_expectations', "
        "'confluent_kafka') if name in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout
    assert told.splitlines()[-1] == "[]"


def test_the_tasks_are_the_steps(dag: DAG) -> None:
    assert set(dag.task_ids) == {*STEPS, PUBLISH} and set(STEPS) == set(TIMEOUTS)
    assert {task.task_id: task.execution_timeout for task in dag.tasks if task.task_id != PUBLISH} == TIMEOUTS


def test_every_step_that_needs_the_cluster_works_between_its_start_and_its_stop(dag: DAG) -> None:
    after_start = dag.task_dict["start_cluster"].get_flat_relative_ids(upstream=False)
    before_stop = dag.task_dict["stop_cluster"].get_flat_relative_ids(upstream=True)
    assert {"create_topics", "produce", "settle", "reconcile"} <= after_start & before_stop


def test_the_work_is_one_chain_of_direct_edges(dag: DAG) -> None:
    for step, following in pairwise(WORK):
        assert following in dag.task_dict[step].downstream_task_ids, f"{step} >> {following}"


def test_load_and_fault_run_side_by_side(dag: DAG) -> None:
    for branch in ("produce", "inject_fault"):
        task = dag.task_dict[branch]
        assert task.upstream_task_ids == {"create_topics"}
        assert task.downstream_task_ids == {"settle", "stop_cluster"}


def test_the_cluster_is_stopped_after_the_reading_whatever_happened(dag: DAG) -> None:
    stop = dag.task_dict["stop_cluster"]
    assert dag.task_dict["start_cluster"].is_setup
    assert stop.is_teardown
    assert not stop.on_failure_fail_dagrun, "no verdict rests on it"
    assert stop.upstream_task_ids == {"start_cluster", "produce", "inject_fault", "reconcile"}


def test_no_work_stands_behind_the_teardown(dag: DAG) -> None:
    assert dag.task_dict["stop_cluster"].downstream_task_ids == set()


def test_the_gate_is_the_only_leaf_and_a_teardown_that_can_fail_the_run(dag: DAG) -> None:
    """If a user marks a run as failed, Airflow skips plain tasks. If all leaves of a run were skipped, the run is
    green. So no leaf may be a plain task. A teardown that cannot fail the run does not count as a leaf."""
    publish = dag.task_dict[PUBLISH]
    assert publish.is_teardown and not publish.on_failure_fail_dagrun
    assert (publish.upstream_task_ids, publish.downstream_task_ids) == ({"conclude"}, set())
    counting = [task for task in dag.tasks if not task.is_teardown or task.on_failure_fail_dagrun]
    (leaf,) = (task for task in counting if not task.downstream_task_ids & {each.task_id for each in counting})
    assert leaf.task_id == "conclude" and leaf.is_teardown


def test_only_the_publisher_emits_events_and_only_of_the_verdict(dag: DAG) -> None:
    assert {task.task_id: task.outlets for task in dag.tasks if task.outlets} == {PUBLISH: [verdict_event.ASSET]}


def test_the_gate_waits_for_everything_before_it_and_hangs_on_no_setup(dag: DAG) -> None:
    gate = dag.task_dict["conclude"]
    assert gate.get_flat_relative_ids(upstream=True) == set(BEFORE_GATE)
    assert gate.upstream_task_ids == {"validate"}, "a setup just before it that was skipped would have it skipped, too"


def test_only_teardowns_have_another_trigger_rule(dag: DAG) -> None:
    assert {task.task_id for task in dag.tasks if task.trigger_rule != "all_success"} == {
        "conclude",
        "stop_cluster",
        PUBLISH,
    }


def test_nothing_is_retried(dag: DAG) -> None:
    assert {task.task_id: task.retries for task in dag.tasks} == dict.fromkeys((*STEPS, PUBLISH), 0)


def test_every_task_has_a_timeout_but_the_run_has_none(dag: DAG) -> None:
    assert all(task.execution_timeout for task in dag.tasks)
    # A dagrun_timeout would skip the teardown.
    assert dag.dagrun_timeout is None


def test_the_timeout_of_the_load_is_longer_than_the_longest_deadline_a_scenario_may_have() -> None:
    fields = msgspec.inspect.type_info(Load).fields  # type: ignore[attr-defined]
    longest_s = next(field.type.le for field in fields if field.name == "deadline_s")
    assert min(TIMEOUTS["produce"], TIMEOUTS["inject_fault"]).total_seconds() > longest_s


def test_only_the_dag_has_the_form_and_no_task_a_copy_of_it(dag: DAG) -> None:
    assert len(dag.params) > 20 and [task.task_id for task in dag.tasks if task.params] == []
    own = copy.deepcopy(dag)  # asking for the values changes them
    values = process_params(own, own.get_task("plan"), {"records": 1234}, suppress_exception=False)
    assert (values["records"], values["profile"]) == (1234, form.DEFAULTS["profile"]), "the run's, and the form's"


def test_one_run_at_a_time_and_none_by_itself(dag: DAG) -> None:
    assert dag.max_active_runs == 1
    assert dag.schedule is None
    assert dag.catchup is False


def test_a_user_finds_out_what_it_is(dag: DAG) -> None:
    assert dag.tags == {"kafka", "delivery"}
    assert all(word in (dag.doc_md or "") for word in ("HELD", "VIOLATED", "INCONCLUSIVE", "Trigger"))
    assert all(f"`{step}`" in (dag.doc_md or "") for step in STEPS)
