"""Tests of a run through Airflow that a terminal starts. A result counts only if the state of the Airflow run and the
verdict agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.run_builder import begun

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import processes
from delivery_verifier.local_airflow import queue_watch as queue_watch_module
from delivery_verifier.local_airflow import run as run_module
from delivery_verifier.local_airflow import supervisor
from delivery_verifier.local_airflow.queue_watch import QueueWatch
from delivery_verifier.local_airflow.run import _require_verdict, naming_what_ended_airflow, patiently, trigger
from delivery_verifier.orchestration.client import AirflowError, AirflowSilent, Client, Task, ui_url
from delivery_verifier.orchestration.failures import RunFailed
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID

GREEN_TASKS = [Task("validate", "success"), Task("conclude", "success"), Task("stop_cluster", "success")]


class FakeClient(Client):
    """A client of Airflow's API that returns the given tasks, and one line of log for each task."""

    def __init__(self, tasks: list[Task]) -> None:
        self.given = tasks

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        return self.given

    def log_tail(self, dag_id: str, run_id: str, task: Task, lines: int = 12) -> list[str]:
        return [f"what {task.task_id} said last"]


def _verdict(run: Path, green: bool) -> Path:
    return begun("r").conclude("HELD" if green else "VIOLATED", green=green).at(run).path


def _tasks(**states: str) -> FakeClient:
    return FakeClient([Task(name, state) for name, state in states.items()])


def test_a_green_run_with_a_green_verdict_is_accepted(tmp_path: Path) -> None:
    _require_verdict(FakeClient(GREEN_TASKS), "r", "success", _verdict(tmp_path, green=True))


def test_a_run_that_the_gate_turned_red_has_a_verdict(tmp_path: Path) -> None:
    client = _tasks(validate="success", conclude="failed", stop_cluster="success")
    _require_verdict(client, "r", "failed", _verdict(tmp_path, green=False))


def test_a_red_run_with_a_green_verdict_is_none(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="validate: the task failed\nwhat validate said last"):
        client = _tasks(validate="failed", conclude="success", stop_cluster="failed")
        _require_verdict(client, "r", "failed", _verdict(tmp_path, green=True))


def test_a_green_run_with_a_red_verdict_is_none(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="no verdict that agrees"):
        _require_verdict(FakeClient(GREEN_TASKS), "r", "success", _verdict(tmp_path, green=False))


def test_a_green_run_whose_verdict_was_altered_after_it_was_sealed_has_none(tmp_path: Path) -> None:
    run = _verdict(tmp_path, green=False)
    (run / "verdict.json").write_text((run / "verdict.json").read_text().replace("false", "true"))
    with pytest.raises(RunFailed, match="no verdict that agrees"):
        _require_verdict(FakeClient(GREEN_TASKS), "r", "success", run)


def test_a_green_run_without_a_verdict_is_none(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="no verdict that agrees"):
        _require_verdict(FakeClient(GREEN_TASKS), "r", "success", tmp_path)


def test_the_task_that_failed_is_named_not_the_ones_behind_it(tmp_path: Path) -> None:
    with pytest.raises(RunFailed) as failure:
        client = _tasks(settle="failed", reconcile="upstream_failed", conclude="failed")
        _require_verdict(client, "r", "failed", tmp_path)
    assert failure.value.task_id == "settle"


def test_of_two_that_run_side_by_side_the_cause_is_named(tmp_path: Path) -> None:
    class Beside(FakeClient):
        def log_tail(self, dag_id: str, run_id: str, task: Task, lines: int = 12) -> list[str]:
            return (
                ["ParallelStepFailed: produce failed: no brokers"]
                if task.task_id == "inject_fault"
                else ["ProducerDied: no brokers"]
            )

    with pytest.raises(RunFailed, match="ProducerDied") as failure:
        client = Beside([Task("inject_fault", "failed", end_date="1"), Task("produce", "failed", end_date="2")])
        _require_verdict(client, "r", "failed", tmp_path)
    assert failure.value.task_id == "produce"


def test_a_failure_beside_the_gate_is_not_hidden_by_the_gate(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="settle"):
        client = _tasks(settle="failed", conclude="failed")
        _require_verdict(client, "r", "failed", _verdict(tmp_path, green=False))


@pytest.mark.parametrize("green", [True, False])
@pytest.mark.parametrize("failed", ["stop_cluster", "publish_verdict"])
def test_a_task_on_which_no_verdict_rests_takes_nothing_from_it_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failed: str, green: bool
) -> None:
    state = "success" if green else "failed"
    client = _tasks(**{"conclude": state, "stop_cluster": "success", "publish_verdict": "success", failed: "failed"})
    _require_verdict(client, "r", state, _verdict(tmp_path, green=green))
    assert f"warning: the task {failed} failed: its log in Airflow says why" in caplog.text
    with pytest.raises(RunFailed):
        _require_verdict(client, "r", "success" if state == "failed" else "failed", tmp_path)


def test_the_address_of_a_run_can_be_opened() -> None:
    url = ui_url("http://127.0.0.1:8080", "verify_delivery", "manual__2026-01-01T00:00:00+00:00")
    assert url == "http://127.0.0.1:8080/dags/verify_delivery/runs/manual__2026-01-01T00:00:00+00:00"


class BusyClient(Client):
    """A client of a busy Airflow. The first `silences` calls raise AirflowSilent. A trigger among these calls takes
    effect only if `hears` is true."""

    def __init__(self, silences: int, hears: bool = True) -> None:
        self.silences, self.hears, self.runs, self.ended = silences, hears, list[str](), list[str]()

    def _answer(self) -> None:
        self.silences -= 1
        if self.silences >= 0:
            raise AirflowSilent("Airflow does not answer: ReadTimeout")

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, object]) -> None:
        if self.hears or self.silences <= 0:
            self.runs.append(run_id)
        self._answer()

    def run_ids(self, dag_id: str) -> list[str]:
        self._answer()
        return self.runs

    def owners(self, dag_id: str) -> dict[str, str]:
        return {f"{dag_id} {one}": "1:1" for one in ("stuck", "at work")} | {f"{dag_id} alive": str(processes.myself())}

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        return [
            Task("conclude", "running" if run_id.endswith("at work") else "queued"),
            Task("cell", "queued", map_index=0),
        ]

    def fail_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        self.ended.append(task_id)

    def end_run(self, dag_id: str, run_id: str) -> None:
        self.ended.append(run_id)


@pytest.mark.parametrize("hears", [True, False])
def test_a_busy_airflow_that_did_not_answer_is_asked_whether_it_heard_and_a_run_is_started_once(
    hears: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "why_it_ended", lambda: None)
    client = BusyClient(silences=2, hears=hears)
    trigger(client, "d", "mine", {})
    assert client.runs == ["mine"] and client.ended == [
        "verify_catalogue stuck",
        "conclude",
        "verify_delivery stuck",
        "conclude",
    ]


def test_run_reports_why_airflow_died_and_removes_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path / "ws"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    left = tmp_path / "ws" / "left0000"
    left.mkdir(parents=True)
    (left / workspaces.AGENT_SPEC).touch()
    monkeypatch.setattr(supervisor, "why_it_ended", lambda: "its scheduler died")
    with (
        pytest.raises(AirflowError, match="the local Airflow ended during the run: its scheduler died"),
        naming_what_ended_airflow(),
    ):
        trigger(BusyClient(silences=99), "d", "mine", {})
    assert not left.exists()


def test_an_airflow_that_lives_and_stays_silent_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "why_it_ended", lambda: None)
    monkeypatch.setattr(run_module, "PATIENCE_S", 0.1)
    with pytest.raises(AirflowSilent):
        patiently(lambda: BusyClient(silences=1).run_ids("d"))


def test_a_task_that_its_dead_worker_will_never_begin_ends_the_run_and_one_that_begins_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(queue_watch_module.time, "monotonic", lambda: now_s)
    queue_watch, queued = QueueWatch(CATALOGUE_DAG_ID), Task("plan", "queued")
    second = Task("cell", "queued", map_index=1)
    for now_s, tasks in (
        (0.0, [queued]),
        (85.0, [queued]),
        (170.0, [queued]),
        (175.0, [Task("plan", "running"), second]),
    ):
        queue_watch.check(tasks)
    for now_s in (260.0, 345.0):
        queue_watch.check([queued, second])
    now_s = 356.0
    with pytest.raises(
        RunFailed, match="cell: Airflow queued the task 180 s ago and has not begun it: probably the worker"
    ):
        queue_watch.check([queued, second])
    now_s = 600.0  # nobody looked meanwhile
    queue_watch.check([queued, second])


def test_a_stuck_task_on_which_no_verdict_rests_is_to_be_ended_and_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, stuck = 0.0, Task("stop_cluster", "queued")
    monkeypatch.setattr(queue_watch_module.time, "monotonic", lambda: now_s)
    watches = QueueWatch(), QueueWatch(CATALOGUE_DAG_ID)
    for now_s in (0.0, 80.0, 160.0):
        assert [watch.check([stuck]) for watch in watches] == [[], []]
    now_s = 190.0
    assert watches[0].check([stuck]) == ["stop_cluster"]
    with pytest.raises(RunFailed, match="stop_cluster"):  # every task of a catalogue run counts
        watches[1].check([stuck])
