"""Whole runs on a cluster that somebody else runs, whose brokers are broken by commands of the operator. What the
commands say proves nothing: only what is seen from outside does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.operator_commands import Operator
from support.patience import PATIENCE_S
from support.secured_cluster import USERS, SecuredCluster, secured_cluster
from support.stored_runs import arm

from delivery_verifier.cluster.external import backend
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.suite import begin
from delivery_verifier.suite.directly import runner
from delivery_verifier.suite.loop import Loop

SETTINGS = {
    "broker.session.timeout.ms": 18_000,
    "leader.imbalance.check.interval.seconds": 3,
    "leader.imbalance.per.broker.percentage": 0,
}
"""A freeze has room to be brief, also on a slow host. The cluster soon moves leaders back: a run waits for that."""
PARAMS = {"profile": "safe", "fault": "kill_leader", "records": 4000, "duration_s": 8, "rate": 500}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator of a cluster that nothing of the verifier has started."""
    folder = tmp_path_factory.mktemp("commanded")
    with secured_cluster(folder / "cluster", settings=SETTINGS) as cluster:
        operator = Operator(cluster, folder / "operator")
        try:
            yield operator
        finally:
            operator.end()


@pytest.fixture
def strangers(operator: Operator) -> Iterator[SecuredCluster]:
    """The cluster, all of whose brokers run."""
    yield operator.cluster
    operator.behaves()
    operator.start_all()
    wait_until(operator.cluster.is_up, "all brokers to be back", PATIENCE_S, 0.5)


def run_with(
    operator: Operator, spark: SparkSession, folder: Path, commands: str, **more: object
) -> tuple[RunVerdict, RunDirectory, list[dict[str, Any]]]:
    """Runs with the commands of this name. Returns the verdict, the run, and its injections."""
    params = PARAMS | more
    operator.cluster.grant_exactly({**params, "fault": "none"})
    name = f"commanded-{uuid.uuid4().hex[:6]}"
    access = operator.cluster.access(folder, commands=commands)
    verdict = direct.run(params, name, lambda progress: None, spark, access)
    run = RunDirectory(folders.runs_dir() / name)
    return verdict, run, json.loads((run.path / "injections.json").read_text())


def doubts_of(verdict: RunVerdict, name: str = "safe") -> dict[str, str]:
    return {doubt.name: doubt.detail for doubt in arm(verdict, name).doubts}


def test_a_leader_that_a_command_kills_and_another_starts_is_held_and_what_was_seen_is_the_proof(
    operator: Operator, strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    before = len(operator.orders())
    verdict, run, (injection,) = run_with(operator, kafka_spark, host_folder, operator.commands())
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0), doubts_of(verdict)
    assert arm(verdict, "control-acks_0").verdict in ("HELD", "VIOLATED")
    (broker,) = injection["brokers"]
    assert injection["took_effect"] and "no answer from" in injection["proof"]["process"][f"broker {broker}"]
    kill, start = injection["proof"]["ordered"].values()
    assert (kill["action"], kill["broker"], kill["exit_code"]) == ("kill", broker, 0)
    assert (start["action"], start["broker"], start["exit_code"]) == ("start", broker, 0)
    assert injection["requested_at_us"] <= kill["at_us"] <= injection["effect_at_us"]
    ran = operator.orders()[before:]
    assert [each.split()[:2] for each in ran] == [["kill", str(broker)], ["start", str(broker)]]
    assert not {name for each in ran for name in each.split()[2:] if name.startswith(("KDV_", "AIRFLOW"))}
    external = run.read_scenario().cluster.external
    assert external is not None and external.commands is not None
    assert run.read_scenario().command.endswith(f"--commands standin@{external.commands.sha256[:12]}")
    assert any("the operator's commands standin" in limit for limit in verdict.limits)
    wait_until(lambda: not list(folders.state_dir().glob("clusters/*/*.jsonl")), "the register to end", PATIENCE_S)
    secret = USERS["verifier"].encode()
    assert not [file for file in run.path.rglob("*") if file.is_file() and secret in file.read_bytes()]


def test_a_scenario_of_the_catalogue_is_played_there_and_one_that_lacks_a_command_names_the_action(
    operator: Operator, strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    operator.cluster.grant_exactly({"fault": "none", "rate": 500}, wishes=True)
    name = operator.commands("stopper", actions=("kill", "start", "stop"))
    access = strangers.access(host_folder, commands=name)
    names = ["acks_1.below_min_isr", "acks_1.frozen_followers"]
    started = begin.begin(f"commands-{uuid.uuid4().hex[:6]}", names=names, direct=True, external=access)
    with runner(lambda progress: None, kafka_spark, access) as direct_runner:
        finished = Loop(started, direct_runner, lambda catalogue_run, item: None).run()
    played, lacking = (next(item for item in finished.items if item.name == each) for each in names)
    said = [attempt.sentence or attempt.error for attempt in played.attempts]
    proofs = [json.loads((folders.runs_dir() / each.run / "injections.json").read_text()) for each in played.attempts]
    why = [{**each["proof"], "before": {}, "ordered": {}} for of_run in proofs for each in of_run]
    assert played.state == "as expected", f"{said}\n{json.dumps(why, indent=1)}"
    assert (lacking.state, lacking.green) == ("unavailable", True)
    assert "the commands stopper have none for pause, resume" in lacking.unavailable


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"does_nothing": ["kill"]}, "to be seen from outside"),
        ({"fails": ["kill"]}, "it ended with exit code 3"),
        ({"hangs": ["kill"]}, "it had not ended after 4 s, and was ended"),
        ({"say": USERS["verifier"]}, "it printed a secret of the connection"),
    ],
    ids=["lies", "fails", "hangs", "prints_a_secret"],
)
def test_a_command_that_misbehaves_never_holds_and_never_convicts_and_leaks_nothing(
    operator: Operator,
    strangers: SecuredCluster,
    kafka_spark: SparkSession,
    host_folder: Path,
    how: dict[str, object],
    said: str,
) -> None:
    operator.behaves(**how)
    name = operator.commands(effect_s=8, deadline_s=4)
    verdict, run, (injection,) = run_with(operator, kafka_spark, host_folder, name)
    doubts = doubts_of(verdict)
    assert verdict.verdict == "INCONCLUSIVE" and not injection["took_effect"]
    assert said in doubts["fault_took_no_effect"] and said in doubts["command_unproven"], doubts
    assert injection["recovered_at_us"], "whatever it did, the cluster is whole"
    assert all(operator.runs(broker) for broker in strangers.brokers)
    secret = USERS["verifier"].encode()
    assert not [file for file in run.path.rglob("*") if file.is_file() and secret in file.read_bytes()]


@pytest.mark.parametrize("how", [{"hits_another": ["kill"]}, {"does_nothing": ["start"]}], ids=["hits", "heals_not"])
def test_a_broker_that_stays_down_is_named_to_the_operator_and_the_evidence_is_judged(
    operator: Operator, strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path, how: dict[str, object]
) -> None:
    operator.behaves(**how)
    name = operator.commands(effect_s=8, whole_s=20)
    verdict, run, (injection,) = run_with(operator, kafka_spark, host_folder, name)
    (asked,) = injection["brokers"]
    down = [broker for broker in strangers.brokers if not operator.runs(broker)]
    assert len(down) == 1 and (down == [asked]) == ("hits_another" not in how)
    assert verdict.verdict == "INCONCLUSIVE" and injection["recovered_at_us"] is None
    doubts = doubts_of(verdict)
    assert f"broker {down[0]}" in doubts["command_unproven"] and "fault_not_healed" in doubts, doubts
    token = run.read_scenario().run_token
    if down == [asked]:
        with pytest.raises(StepFailed, match=f"kill of broker {asked} .*start it by hand"):
            backend.BACKEND.remove(token)
        assert token in backend.BACKEND.dead_runs(), "so kdv doctor names it, too"
        operator.behaves()
        operator.start_all()
        is_whole = lambda: not any(map(backend.BACKEND.remove, backend.BACKEND.dead_runs()))  # noqa: E731
        wait_until(lambda: _is_quiet(is_whole), "the broker to be back", PATIENCE_S, 1)
    assert not list(folders.state_dir().glob("clusters/*/*.jsonl"))


def _is_quiet(remove: Callable[[], bool]) -> bool:
    with suppress(StepFailed):
        return remove()
    return False
