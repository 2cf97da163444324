"""Tests of the catalogue's DAG. It runs one scenario at a time, and no scenario stops the others. It always writes the
matrix (the page of all results), and it fails if a scenario does not end as expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.api.datamodels._generated import DagRunState
from airflow.sdk.exceptions import AirflowFailException
from support.catalogue_runs import catalogue, item
from support.run_builder import judged

from delivery_verifier.local_airflow.run_catalogue import item_of
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID, MARK, NIGHTLY, nightly
from delivery_verifier.orchestration.tasks import message, notify, verify_catalogue
from delivery_verifier.orchestration.tasks.gate import GateClosed
from delivery_verifier.orchestration.tasks.verify_catalogue import (
    CatalogueNotGreen,
    RunScenario,
    attempt_of,
    with_attempts,
)
from delivery_verifier.run_directory import catalogue_runs

DAGS = Path(__file__).resolve().parents[2] / "dags"


@pytest.fixture(scope="module")
def dag() -> DAG:
    bag = DagBag(dag_folder=str(DAGS))
    assert bag.import_errors == {}
    return bag.dags[CATALOGUE_DAG_ID]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    return tmp_path


def test_the_gate_is_the_only_leaf_and_needs_the_matrix(dag: DAG) -> None:
    assert [task.task_id for task in dag.tasks if not task.downstream_task_ids] == ["gate"]
    assert dag.task_dict["gate"].upstream_task_ids == {"matrix"}
    assert dag.task_dict["gate"].is_teardown and dag.task_dict["gate"].on_failure_fail_dagrun


def test_a_red_scenario_stops_neither_the_rest_nor_the_page(dag: DAG) -> None:
    assert {task.task_id for task in dag.tasks if task.trigger_rule == "all_done"} == {"repeat", "matrix"}
    assert dag.task_dict["matrix"].upstream_task_ids == {"run_scenario", "run_again"}


def test_scenarios_are_mapped_and_run_one_at_a_time(dag: DAG) -> None:
    for name, origin in (("run_scenario", "plan"), ("run_again", "repeat")):
        task = dag.task_dict[name]
        assert task.is_mapped and task.upstream_task_ids == {origin}
        assert task.max_active_tis_per_dag == 1
    assert dag.max_active_runs == 1


def test_nothing_is_retried_and_every_task_has_a_timeout(dag: DAG) -> None:
    assert {task.retries for task in dag.tasks} == {0}
    assert all(task.execution_timeout for task in dag.tasks)


def test_a_user_finds_out_what_it_is(dag: DAG) -> None:
    assert dag.tags == {"kafka", "delivery"} and dag.default_args["owner"] == "delivery-verifier"
    assert all(f"`{task}`" in (dag.doc_md or "") for task in dag.task_ids)
    assert all(param.value is not None for param in dag.params.values() if hasattr(param, "value"))


@pytest.mark.parametrize(
    ("chosen", "local", "schedule"),
    [
        (None, False, NIGHTLY),
        (None, True, None),
        ("1", True, NIGHTLY),
        ("0", False, None),
        ("30 1 * * 1-5", True, "30 1 * * 1-5"),
    ],
)
def test_it_runs_nightly_but_on_a_laptop_only_if_it_is_told_to(
    chosen: str | None, local: bool, schedule: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KDV_NIGHTLY", raising=False)
    monkeypatch.delenv(MARK, raising=False)
    if chosen is not None:
        monkeypatch.setenv("KDV_NIGHTLY", chosen)
    if local:
        monkeypatch.setenv(MARK, "/somewhere")
    assert nightly() == schedule


def test_a_schedule_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_NIGHTLY", "at night")
    with pytest.raises(BadInput, match="cron"):
        nightly()


def test_it_never_catches_up(dag: DAG) -> None:
    assert dag.catchup is False and dag.is_paused_upon_creation is False


class Instance:
    """A stand-in for Airflow's task instance. It holds XComs, the states of other DAG runs (`states`) and the states of
    the other tasks of its own run (`tasks`)."""

    dag_id = CATALOGUE_DAG_ID

    def __init__(
        self, try_number: int = 1, states: dict[str, str] | None = None, tasks: dict[str, str | None] | None = None
    ) -> None:
        self.try_number, self.states, self.xcoms = try_number, states or {}, {}
        self.tasks = {**dict.fromkeys(("plan", "repeat", "matrix"), "success"), "gate": None, **(tasks or {})}

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str | None]]:
        assert dag_id == self.dag_id
        return {run_id: {task_id: self.tasks[task_id] for task_id in task_ids} for run_id in run_ids}

    def xcom_pull(self, task_ids: str, key: str = "return_value", map_indexes: int | None = None) -> Any:
        return self.xcoms.get((task_ids, key, map_indexes))

    def get_dagrun_state(self, dag_id: str, run_id: str) -> DagRunState:
        """Returns an enumeration member, as Airflow's task SDK does, and not the member's string."""
        assert dag_id == DAG_ID
        return DagRunState(self.states[run_id])


PARAMS: dict[str, Any] = {
    **dict.fromkeys(("tag", "expect_unavailable", "cluster", "beside"), ""),
    "names": ["acks_1.frozen_followers"],
}


class Conf:
    def __init__(self, **conf: str) -> None:
        self.conf = conf


def _triggers(monkeypatch: pytest.MonkeyPatch, try_number: int, **conf: str) -> RunScenario:
    monkeypatch.setattr(RunScenario.__bases__[0], "execute", lambda self, context: None)
    operator = RunScenario(task_id="run_scenario", cell={"scenario": "acks_1.frozen_followers", "run": "c-a"})
    operator.execute({"run_id": "c", "ti": Instance(try_number), "dag_run": Conf(**conf), "params": PARAMS})  # type: ignore[arg-type,typeddict-item]
    return operator


def test_a_cell_triggers_its_scenario_and_one_that_was_cleared_a_run_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = _triggers(monkeypatch, 1)
    assert (operator.trigger_dag_id, operator.trigger_run_id) == ("verify_delivery", "c-a")
    assert operator.conf == {"scenario": "acks_1.frozen_followers"}
    assert operator.wait_for_completion and not operator.deferrable
    assert _triggers(monkeypatch, 2).trigger_run_id == "c-a-try2"


def test_a_cell_names_the_cluster_that_the_catalogue_run_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARAMS, "cluster", "airflow:staging")
    monkeypatch.setitem(PARAMS, "beside", "r-1")
    conf = _triggers(monkeypatch, 1).conf
    assert conf == {"scenario": "acks_1.frozen_followers", "cluster": "airflow:staging", "beside": "r-1"}


def test_no_cell_is_run_for_a_command_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="has ended"):
        _triggers(monkeypatch, 1, owner="1:1")


def test_a_verdict_counts_only_if_the_run_has_its_colour(runs: Path) -> None:
    judged(runs, "held")
    assert attempt_of("held", "success").state == "as expected"
    found = attempt_of("held", "failed")
    assert found.state == "failed" and "a step failed" in found.error
    assert attempt_of("never", "failed").error.startswith("the run is failed and has no verdict")


def test_what_the_cells_ended_with_is_with_attempts_anew_each_time(runs: Path) -> None:
    judged(runs, "c-a", "INCONCLUSIVE")
    judged(runs, "c-a-2")
    started = catalogue(item("a"), item("b"), item("p", unavailable="needs root", expected_unavailable=True))
    once = with_attempts(started, {"a": [("c-a", "failed")]})
    assert [one.state for one in once.items] == ["inconclusive", "pending", "unavailable"]
    both = {"a": [("c-a", "failed"), ("c-a-2", "success")], "b": [("c-b", "failed")]}
    for again in (with_attempts(once, both), with_attempts(with_attempts(once, both), both)):
        assert [one.state for one in again.items] == ["as expected", "failed", "unavailable"]
        assert len(again.items[0].attempts) == 2 and not again.green


@pytest.mark.parametrize(
    ("matrix", "told"), [("failed", "matrix failed"), ("skipped", "was ended before"), (None, "matrix: not run")]
)
def test_the_gate_stays_shut_where_the_page_was_not_written(
    runs: Path, monkeypatch: pytest.MonkeyPatch, matrix: str | None, told: str
) -> None:
    catalogue_runs.write(catalogue(item("acks_1.frozen_followers")))
    instance = Instance(tasks={"matrix": matrix})
    _in_task(monkeypatch, instance)
    with pytest.raises(GateClosed, match=told):
        verify_catalogue.require_green()
    assert catalogue_runs.read("c").ended_at, "nothing will say any more that it is under way"


def _in_task(monkeypatch: pytest.MonkeyPatch, instance: Instance) -> None:
    context = {
        "run_id": "c",
        "ti": instance,
        "params": PARAMS,
    }
    monkeypatch.setattr(verify_catalogue, "get_current_context", lambda: context)


def test_the_tasks_in_their_order_make_the_matrix_and_the_gate_is_red_until_all_is_green(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance(states={"c-acks_1.frozen_followers": "failed", "c-acks_1.frozen_followers-2": "success"})
    _in_task(monkeypatch, instance)
    instance.xcoms["plan", "return_value", None] = planned = verify_catalogue.begin_catalogue()
    assert planned == [{"scenario": "acks_1.frozen_followers", "run": "c-acks_1.frozen_followers"}]
    with pytest.raises(CatalogueNotGreen, match="pending"):
        verify_catalogue.require_green()
    judged(runs, planned[0]["run"], "INCONCLUSIVE")
    instance.xcoms["run_scenario", "trigger_run_id", 0] = planned[0]["run"]
    instance.xcoms["repeat", "return_value", None] = again = verify_catalogue.collect_first()
    assert [cell["run"] for cell in again] == ["c-acks_1.frozen_followers-2"]
    with pytest.raises(CatalogueNotGreen, match="inconclusive"):
        verify_catalogue.require_green()
    judged(runs, again[0]["run"])
    instance.xcoms["run_again", "trigger_run_id", 0] = again[0]["run"]
    with pytest.raises(CatalogueNotGreen):
        verify_catalogue.require_green()  # not before the page is written
    verify_catalogue.write_matrix()
    verify_catalogue.require_green()
    instance.tasks["matrix"] = "failed"
    with pytest.raises(GateClosed):
        verify_catalogue.require_green()  # whatever lies there
    assert len(catalogue_runs.read("c").items[0].attempts) == 2
    assert "c-acks_1.frozen_followers-2/report.html" in (runs / "catalogues" / "c" / "matrix.html").read_text()


def test_the_mail_names_what_is_red(runs: Path) -> None:
    catalogue_runs.write(catalogue(item("a", "as expected"), item("b", "failed"), item("d", "not as expected")))
    content = message.of_catalogue({"run_id": "c"})
    subject, text = content.subject, notify.html_text(content)
    assert subject.startswith("Catalogue run is red: 2 of 3 scenarios")
    assert "b: failed" in text and "d: not as expected" in text and f"/dags/{CATALOGUE_DAG_ID}/runs/c" in text
    assert "never began" in message.of_catalogue({"run_id": "other"}).subject


def test_a_run_is_of_the_longest_name_that_fits() -> None:
    found = catalogue(item("a"), item("a.b"))
    assert [one and one.name for one in (item_of(found, "c-a.b-2"), item_of(found, "c-a-2"), item_of(found, "x"))] == [
        "a.b",
        "a",
        None,
    ]
