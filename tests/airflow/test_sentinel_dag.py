"""Tests of the DAG of a sentinel: it has the graph of a run, gives way to other runs, adds each result to the history,
and tells people of turns alone.

`tests/e2e/test_sentinel_in_airflow.py` has a real sentinel on a real cluster through a real scheduler.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from msgspec.structs import replace
from support import prometheus_text
from support.mail import Sink, sink
from support.patience import PATIENCE_S
from support.played_dags import Played
from support.run_builder import RunBuilder, begun, judged
from support.sentinels import CLUSTER, result
from support.stored_data import HELD, stored_run

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.external.runs import ClusterTaken
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.sentinel import NOTE, State
from delivery_verifier.model.steps import BEFORE_GATE, GATE, STEPS
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID, SENTINEL_DAG_ID
from delivery_verifier.orchestration.tasks import gate, give_way, notify, sentinel_form, verify_sentinel
from delivery_verifier.orchestration.tasks import verify_delivery as steps
from delivery_verifier.orchestration.tasks.sentinel_message import of_sentinel
from delivery_verifier.pipeline.steps import conclude as conclude_step
from delivery_verifier.pipeline.steps.plan import plan_from_params
from delivery_verifier.planning import preflight, sentinel
from delivery_verifier.planning.request import FIELDS
from delivery_verifier.reporting.sentinel.result import arms_of
from delivery_verifier.run_directory import sentinel_history
from delivery_verifier.run_directory.run_directory import RunDirectory

DAGS = Path(__file__).resolve().parents[2] / "dags"
RUN = "scheduled__2026-11-29T09-00-00"


@pytest.fixture(scope="module")
def bag() -> DagBag:
    bag = DagBag(dag_folder=str(DAGS))
    assert bag.import_errors == {}
    return bag


@pytest.fixture(scope="module")
def dag(bag: DagBag) -> DAG:
    return bag.dags[SENTINEL_DAG_ID]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(give_way, "busy_with", lambda context: "")
    return tmp_path / "runs"


# ---- The DAG.


def test_its_graph_is_that_of_a_run(bag: DagBag, dag: DAG) -> None:
    run = bag.dags[DAG_ID]
    for made in (dag, run):
        assert {*made.task_ids} == {*STEPS, "publish_verdict"}
    for task in dag.tasks:
        other = run.get_task(task.task_id)
        for name in ("downstream_task_ids", "trigger_rule", "execution_timeout", "retries", "is_setup", "is_teardown"):
            assert getattr(task, name) == getattr(other, name), (task.task_id, name)
    assert all(f"`{task}`" in (dag.doc_md or "") for task in dag.task_ids)
    assert [task.task_id for task in dag.tasks if task.params] == []


def test_without_the_variable_it_never_starts_by_itself_and_tells_nobody(dag: DAG) -> None:
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (None, False, 1)
    assert not dag.on_success_callback and dag.on_failure_callback == [verify_sentinel.remember_missing]


def test_the_file_of_the_variable_schedules_it_and_sets_its_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"schedule": "*/5 * * * *", "cluster": CLUSTER, "records": 5000}))
    monkeypatch.setenv(sentinel.VARIABLE, str(tmp_path / "s.json"))
    scheduled = DagBag(dag_folder=str(DAGS)).dags[SENTINEL_DAG_ID]
    assert scheduled.schedule == "*/5 * * * *"
    assert (scheduled.params["cluster"], scheduled.params["records"]) == (CLUSTER, 5000)


def test_the_form_has_the_fields_of_a_run_with_their_words() -> None:
    form = sentinel_form.params()
    assert [*form] == [*sentinel.NAMES] and "fault" not in form
    for name, param in form.items():
        assert param.schema["title"] == FIELDS[name].title
        if name != "cluster":
            param.resolve()
    assert "until the fault is over" not in str(form["records"].description)
    for wrong in ("", "a b", "../x"):
        with pytest.raises(Exception, match="does not match"):
            form["cluster"].resolve(value=wrong)
    assert form["cluster"].resolve(value="airflow:kafka_of_prod") == "airflow:kafka_of_prod"


# ---- A skipped run, by Airflow's own functions.


@pytest.fixture
def played(written_dag: DAG, dag: DAG) -> Iterator[Played]:
    with create_session() as session:
        yield Played(DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)), session, cluster=CLUSTER)
        session.rollback()


@pytest.mark.parametrize("skips", ["plan", "start_cluster"])
def test_if_a_run_is_skipped_all_tasks_behind_it_are_and_none_is_green_or_red(played: Played, skips: str) -> None:
    played.ends |= dict.fromkeys((skips, GATE, "publish_verdict"), TaskInstanceState.SKIPPED)
    assert played.play(lambda step: False) == "success", "Airflow knows no skipped run"
    done = {"plan"} - {skips}
    assert played.states == {task: "success" if task in done else "skipped" for task in (*STEPS, "publish_verdict")}
    assert {*played.begun} == {"plan", skips, GATE, "publish_verdict"}, "the gate runs, and says so"


def test_a_run_that_a_task_skipped_without_a_word_is_red(played: Played) -> None:
    played.ends["plan"] = TaskInstanceState.SKIPPED
    assert played.play(lambda step: False) == "failed"


# ---- The tasks.


class Instance:
    """A stand-in for Airflow's task instance. `stored`: the XCom values, by task and key."""

    dag_id, try_number = SENTINEL_DAG_ID, 1

    def __init__(self, task_id: str = "plan", **states: str | None) -> None:
        self.task_id, self.stored = task_id, dict[tuple[str, str], Any]()
        self.states = {**dict.fromkeys(BEFORE_GATE, "success"), GATE: None, **states}

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str | None]]:
        assert dag_id == SENTINEL_DAG_ID
        return {run_id: {task: self.states[task] for task in task_ids} for run_id in run_ids}

    def xcom_push(self, key: str, value: Any) -> None:
        self.stored[self.task_id, key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self.stored.get((task_ids, key))

    def get_dr_count(self, dag_id: str, states: list[str]) -> int:
        assert states == ["running", "queued"]
        return int(self.stored.get(("airflow", dag_id), 0))


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the tasks of a run work. Returns the context."""

    def entered(instance: Instance, run_id: str = RUN, **params: Any) -> dict[str, Any]:
        values = sentinel.settings().fields | {"cluster": CLUSTER} | params
        context = {"run_id": run_id, "ti": instance, "params": values, "dag_run": SimpleNamespace(clear_number=0)}
        for module in (verify_sentinel, steps):
            monkeypatch.setattr(module, "get_current_context", lambda: context)
        return context

    return entered


def raising(error: Exception) -> Any:
    def refuse(*_: object) -> None:
        raise error

    return refuse


TAKEN = "the cluster is in use: run nightly of root-at-another"


@pytest.mark.parametrize("error", [ClusterTaken(TAKEN), lease.HostBusy(TAKEN)])
@pytest.mark.parametrize("task", ["plan", "start_cluster"])
def test_a_run_that_finds_a_lock_taken_is_skipped_and_says_by_whom(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch, task: str, error: Exception
) -> None:
    monkeypatch.setattr(steps, {"plan": "plan_run"}.get(task, task), raising(error))
    context = enter(instance := Instance(task))
    with pytest.raises(AirflowSkipException, match=TAKEN):
        getattr(verify_sentinel, task)()
    instance.states |= dict.fromkeys(BEFORE_GATE[BEFORE_GATE.index(task) :], "skipped")
    assert verify_sentinel.why_skipped(context) == TAKEN  # type: ignore[arg-type]
    with pytest.raises(AirflowSkipException, match=TAKEN):
        verify_sentinel.conclude()
    (found,) = sentinel_history.newest_of(CLUSTER).results
    assert (found.run, found.run_id, found.state, found.why, found.arms) == (RUN, RUN, "SKIPPED", TAKEN, [])


@pytest.mark.parametrize(("dag_id", "count"), [(CATALOGUE_DAG_ID, 1), (DAG_ID, 2)])
def test_it_gives_way_to_runs_that_work_or_wait_in_this_airflow(
    tmp_path: Path, enter: Any, monkeypatch: pytest.MonkeyPatch, dag_id: str, count: int
) -> None:
    monkeypatch.setattr(steps, "plan_run", raising(AssertionError("nothing is planned")))
    instance = Instance()
    instance.stored["airflow", dag_id] = count
    enter(instance)
    with pytest.raises(AirflowSkipException, match=rf"^{count} runs? of {dag_id} under way"):
        verify_sentinel.plan()


def test_a_plan_without_a_cluster_fails_and_the_history_says_why(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance()
    enter(instance, cluster="")
    with pytest.raises(BadInput):
        verify_sentinel.plan()
    monkeypatch.setattr(steps, "plan_run", raising(StepFailed("no server of the cluster answers")))
    enter(instance)
    with pytest.raises(StepFailed):
        verify_sentinel.plan()
    instance.states |= {"plan": "failed", **dict.fromkeys(BEFORE_GATE[1:], "upstream_failed")}
    with pytest.raises(gate.GateClosed):
        verify_sentinel.conclude()
    (found,) = sentinel_history.newest_of(CLUSTER).results
    assert (found.state, found.why) == ("NO VERDICT", "no server of the cluster answers")


def test_a_run_that_a_user_ended_is_red_and_not_skipped(runs: Path, enter: Any) -> None:
    enter(Instance(**dict.fromkeys(BEFORE_GATE, "skipped")))
    with pytest.raises(gate.GateClosed):
        verify_sentinel.conclude()
    assert [each.state for each in sentinel_history.newest_of(CLUSTER).results] == ["NO VERDICT"]


def test_the_plan_is_that_of_a_run_without_a_fault_and_its_directory_says_whose_it_is(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []
    monkeypatch.setattr(steps, "plan_run", lambda context, fields, notes: planned.append((fields, notes)) or "path")
    enter(Instance())
    assert verify_sentinel.plan() == "path"
    ((fields, notes),) = planned
    assert fields["fault"] == "none" and fields["cluster"] == CLUSTER
    assert notes == {NOTE: CLUSTER}


def test_a_run_of_a_sentinel_is_not_the_latest_run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "require", lambda _: None)
    plan_from_params({"fault": "none"}, "of-a-user")
    path = plan_from_params({"fault": "none"}, "of-a-sentinel", notes={NOTE: CLUSTER})
    assert (runs / "latest").resolve().name == "of-a-user"
    assert RunDirectory(path).manifest("plan").notes[NOTE] == CLUSTER


def concluded(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch, verdict: Any = "HELD", run_id: str = RUN, **file: Any
) -> None:
    """Lets `conclude` give a verdict for a run with stored latencies."""
    settings = {"cluster": CLUSTER, **file}
    (runs.parent / "sentinel.json").write_text(json.dumps(settings))
    monkeypatch.setenv(sentinel.VARIABLE, str(runs.parent / "sentinel.json"))
    stored = stored_run(HELD, runs.parent / "stored" / run_id)
    run = begun(run_id).write(runs)
    (run.path / "timeline").symlink_to(stored.path / "timeline")
    monkeypatch.setattr(conclude_step, "judge_and_report", lambda path: _of(stored, verdict))
    monkeypatch.setattr(gate, "require_success", lambda *_: None)
    instance = Instance(GATE)
    instance.stored["plan", "return_value"] = str(run.path)
    enter(instance, run_id)
    verify_sentinel.conclude()


def _of(stored: RunDirectory, verdict: str) -> Any:
    found = stored.verdict()
    is_held = verdict == "HELD"
    arms = [replace(arm, verdict=verdict, as_expected=is_held) for arm in found.arms if arm.role == "subject"]
    return replace(found, verdict=verdict, green=is_held, arms=arms)


def test_a_verdict_is_added_to_the_history_and_the_gauges_are_written(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "textfile").mkdir()
    concluded(runs, enter, monkeypatch, metrics=str(tmp_path / "textfile"))
    (found,) = sentinel_history.newest_of(CLUSTER).results
    stored = stored_run(HELD, tmp_path / "again")
    (arm,) = arms_of(stored.path, stored.verdict())
    assert (found.state, found.arms[0].attempted, found.arms[0].in_time) == ("HELD", 1000, arm.in_time)
    assert 0 < arm.in_time < 1000, "the leader was away for longer than a second"
    (file,) = (tmp_path / "textfile").iterdir()
    gauges = prometheus_text.read(file.read_text())
    assert gauges.value("kdv_sentinel_last_run_verdict", cluster=CLUSTER, verdict="HELD") == 1


@pytest.mark.parametrize("verdict", ["VIOLATED", "INCONCLUSIVE"])
def test_a_red_verdict_ends_the_run_red_and_stands_in_the_history(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, verdict: str
) -> None:
    with pytest.raises(SystemExit):
        concluded(runs, enter, monkeypatch, verdict)
    assert [each.state for each in sentinel_history.newest_of(CLUSTER).results] == [verdict]
    assert f"/dags/{SENTINEL_DAG_ID}/runs/{RUN}" in caplog.text


@pytest.mark.parametrize("broken", ["gauges", "history"])
def test_if_history_or_gauges_cannot_be_written_the_verdict_stands_and_a_warning_says_so(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, broken: str
) -> None:
    if broken == "history":
        runs.mkdir()
        (runs / "sentinels").write_text("no folder")
    concluded(runs, enter, monkeypatch, metrics="/proc/no-such-folder")
    assert f"warning: the {broken} of the sentinel failed" in caplog.text
    states = [each.state for each in sentinel_history.newest_of(CLUSTER).results] if broken == "gauges" else ["HELD"]
    assert states == ["HELD"]


def test_of_held_runs_the_newest_are_kept_and_of_all_others_every_one(
    runs: Path, enter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, state in enumerate(["HELD", "VIOLATED", "HELD", "HELD"]):
        sentinel_history.add(result(state, number))  # type: ignore[arg-type]
        whose = {NOTE: CLUSTER if number != 2 else "another"}
        RunBuilder(begun(f"scheduled__{number:05}").plan, **whose).write(runs)
    docs = runs / "data_docs" / "validations" / "evidence" / "scheduled__00000"
    docs.mkdir(parents=True)
    concluded(runs, enter, monkeypatch, keep=2)
    kept = sorted(path.name for path in runs.iterdir() if path.name.startswith("scheduled"))
    assert kept == ["scheduled__00001", "scheduled__00002", "scheduled__00003", RUN]
    assert not docs.exists() and len(sentinel_history.newest_of(CLUSTER).results) == 5


# ---- Who waits for a sentinel.


LOCK = """
import sys
from pathlib import Path
from delivery_verifier.cluster import lease
held = lease.acquire_host("a", Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_sentinel", [True, False])
def test_another_run_waits_for_a_sentinel_and_for_nobody_else(
    runs: Path, monkeypatch: pytest.MonkeyPatch, is_sentinel: bool
) -> None:
    run = RunBuilder(begun("a").plan, **({NOTE: CLUSTER} if is_sentinel else {})).write(runs)
    looks: list[bool] = []

    def looked(condition: Any, *_: object, **__: object) -> None:
        looks.append(condition())
        holder.communicate("")
        looks.append(condition())

    monkeypatch.setattr(give_way, "wait_until", looked)
    command = [sys.executable, "-c", LOCK, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        give_way.wait_for_sentinel()
        assert looks == ([False, True] if is_sentinel else [])
        holder.communicate("", timeout=PATIENCE_S)
    give_way.wait_for_sentinel()


# ---- What people are told.


@pytest.fixture
def mailed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    with sink() as server:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", server.connection)
        monkeypatch.setenv(notify.VARIABLE, "one@example.org")
        yield server


def test_people_are_told_once_per_turn_and_not_of_every_run(mailed: Sink) -> None:
    states: list[State] = ["HELD", "HELD", "VIOLATED", "VIOLATED", "SKIPPED", "NO VERDICT", "NO VERDICT"]
    states += ["HELD", "HELD"]
    for minute, state in enumerate(states):
        run = sentinel_history.add(result(state, minute)).run
        (tell,) = notify.on_red(of_sentinel)  # Airflow reads the DAG's file anew for each callback
        tell({"run_id": run})
    assert [mail["Subject"] for mail in mailed.mails] == [
        "Sentinel of staging: VIOLATED, was HELD (scheduled__00002)",
        "Sentinel of staging: NO VERDICT, was VIOLATED (scheduled__00005)",
        "Sentinel of staging: HELD, was NO VERDICT (scheduled__00007)",
    ]


def test_the_message_has_what_is_known_of_the_run(runs: Path) -> None:
    judged(runs, "scheduled__00001", "VIOLATED", lost=3)
    sentinel_history.add(result("HELD"))
    sentinel_history.add(result("VIOLATED", 1))
    content: Any = of_sentinel({"run_id": "scheduled__00001"})  # type: ignore[typeddict-item]
    assert (content.dag_id, content.verdict) == (SENTINEL_DAG_ID, "VIOLATED")
    assert "The result before was HELD, at 2026-11-18 11:06:40 UTC." in content.lines
    assert "What became of the records:" in content.lines and len(content.lines) > 6
    assert of_sentinel({"run_id": "never"}) is None  # type: ignore[typeddict-item]


def test_the_callback_of_a_red_run_adds_what_its_last_task_could_not(runs: Path, dag: DAG) -> None:
    minimal: Any = {"run_id": RUN, "dag": SimpleNamespace(params={"cluster": CLUSTER})}
    verify_sentinel.remember_missing(minimal)
    verify_sentinel.remember_missing({**minimal, "params": {"cluster": CLUSTER}})
    (found,) = sentinel_history.newest_of(CLUSTER).results
    assert (found.state, found.run) == ("NO VERDICT", RUN) and found.totals == {"NO VERDICT": 1}
