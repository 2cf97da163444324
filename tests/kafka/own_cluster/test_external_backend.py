"""The backend `external` on a real cluster that it has not started: it keeps the contract of what is observed, removes
exactly what is registered, whenever a run is killed, and is refused beside a run of another home."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from support import backend_contract
from support.own_host import GONE_WITHIN_S
from support.patience import PATIENCE_S
from support.secured_cluster import CLUSTER_ID, SecuredCluster

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.check import rights
from delivery_verifier.cluster.external import register, removal
from delivery_verifier.cluster.external.backend import BACKEND
from delivery_verifier.cluster.external.runs import ClusterTaken
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.maintenance import doctor
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.pipeline.steps.create_topics import create_topics
from delivery_verifier.pipeline.steps.plan import plan_from_params
from delivery_verifier.pipeline.steps.start_cluster import start_cluster
from delivery_verifier.pipeline.steps.stop_cluster import stop_cluster
from delivery_verifier.planning.external_runs import ClusterUnfit
from delivery_verifier.run_directory.run_directory import RunDirectory

PARAMS = {"profile": "safe", "fault": "none", "records": 1000, "duration_s": 4, "rate": 500}
NEEDED = (rights.CREATE, rights.WRITE, rights.READ, rights.DESCRIBE_CONFIGS, rights.DELETE)


@pytest.fixture
def access(secured: SecuredCluster, config: Callable[..., str]) -> Iterator[ClusterAccess]:
    """The way to the cluster of a client with exactly the documented rights. At the end, the operator removes all
    topics of runs, and this home knows of none."""
    secured.grant([("topic", right.name, "prefixed", right.operation) for right in NEEDED])
    yield ClusterAccess(command_config=config(secured.properties()))
    names = sorted(of_runs(secured))
    for future in (secured.operator.delete_topics(names) if names else {}).values():
        with suppress(KafkaException):  # a broker may show for a moment what is gone
            future.result(PATIENCE_S)
    wait_until(lambda: of_runs(secured) == set(), "every broker to know that they are gone", PATIENCE_S)
    for each in register.all_registers():
        each.end()


def of_runs(secured: SecuredCluster) -> set[str]:
    return {name for name in secured.operator.list_topics(timeout=PATIENCE_S).topics if name.startswith("kdv-")}


def registered() -> set[str]:
    return {entry.name for each in register.all_registers() for entry in each.standing()}


def planned(access: ClusterAccess) -> Path:
    return plan_from_params(PARAMS, f"r-{uuid.uuid4().hex[:6]}", access)


@pytest.fixture
def begun(access: ClusterAccess) -> Iterator[Path]:
    """The directory of a run whose topics exist. The run is stopped at the end."""
    run_dir = planned(access)
    start_cluster(run_dir)
    try:
        create_topics(run_dir)
        yield run_dir
    finally:
        stop_cluster(run_dir, keep=False)


def test_the_backend_keeps_the_contract_of_what_is_observed_and_removes_its_topics(
    secured: SecuredCluster, begun: Path
) -> None:
    run = RunDirectory(begun)
    cluster, scenario = Cluster.of_run(run), run.read_scenario()
    for check in backend_contract.OBSERVED:
        check(cluster, scenario.arms[0].topic_name)
    names = {arm.topic_name for arm in scenario.arms}
    announced = of_runs(secured) - names
    assert of_runs(secured) > names and len(announced) == 1 and scenario.run_id in min(announced)
    assert registered() == of_runs(secured)
    for file in (*register.folder().rglob("*.jsonl"), cluster.workspace / "external.json"):
        assert file.stat().st_mode & 0o777 == 0o600 and b"verifier-secret" not in file.read_bytes()
    stop_cluster(begun, keep=True)
    assert registered() == set() and not cluster.workspace.exists()
    wait_until(lambda: of_runs(secured) == set(), "every broker to know that they are gone", PATIENCE_S)


def test_a_second_home_is_refused_with_the_name_of_the_first_run_and_goes_on_beside_it(
    secured: SecuredCluster, access: ClusterAccess, begun: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = of_runs(secured)
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "second"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "second lock"))
    with pytest.raises(ClusterTaken, match=rf"run {begun.name} of .*, since .* s ago"):
        planned(access)
    beside = ClusterAccess(command_config=access.command_config, beside=(begun.name,))
    run_dir = planned(beside)
    start_cluster(run_dir)
    create_topics(run_dir)
    assert of_runs(secured) > first
    stop_cluster(run_dir, keep=False)
    assert registered() == set()
    wait_until(lambda: of_runs(secured) == first, "every broker to know that the others are gone", PATIENCE_S)
    monkeypatch.undo()


def test_a_run_that_comes_in_the_same_moment_ends_and_leaves_nothing(
    secured: SecuredCluster, access: ClusterAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = planned(access)
    start_cluster(run_dir)
    secured.operator.create_topics([NewTopic("kdv-unknown0-a", 1, 1)])["kdv-unknown0-a"].result(PATIENCE_S)
    with pytest.raises(ClusterTaken, match="token unknown0, whose name and age are not known"):
        create_topics(run_dir)
    stop_cluster(run_dir, keep=False)
    assert registered() == set()
    wait_until(lambda: of_runs(secured) == {"kdv-unknown0-a"}, "only the foreign writer's to be left", PATIENCE_S)


def test_a_missing_right_and_a_fault_of_brokers_are_refused_before_anything_is_created(
    secured: SecuredCluster, access: ClusterAccess
) -> None:
    with pytest.raises(ClusterUnfit, match="kill, start: only a cluster of the verifier's own can be broken so"):
        plan_from_params({**PARAMS, "fault": "kill_leader"}, "broken", access)
    secured.grant([("topic", right.name, "prefixed", right.operation) for right in NEEDED[1:]])

    def is_named() -> bool:
        try:
            planned(access)
        except ClusterUnfit as unfit:
            return "missing: Create on topics kdv-*; remedy: kafka-acls" in str(unfit)
        return False

    wait_until(is_named, "the right to be missing", PATIENCE_S, 0.3)
    assert of_runs(secured) == set() == registered()


def alter(secured: SecuredCluster, topic: str) -> None:
    entry = ConfigEntry("min.insync.replicas", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    secured.operator.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def make_anew(secured: SecuredCluster, topic: str) -> None:
    secured.operator.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until(lambda: topic not in of_runs(secured), "the topic to be gone", PATIENCE_S)
    secured.operator.create_topics([NewTopic(topic, 3, 3)])[topic].result(PATIENCE_S)
    wait_until(lambda: topic in of_runs(secured), "the new topic to be there", PATIENCE_S)


@pytest.mark.parametrize(
    ("change", "said"),
    [(alter, "min.insync.replicas is 1, and the run gave it 2"), (make_anew, "removed or made anew during the run")],
)
def test_what_somebody_else_changes_at_a_topic_of_the_run_ends_it_and_is_named(
    secured: SecuredCluster, begun: Path, change: Callable[[SecuredCluster, str], None], said: str
) -> None:
    run = RunDirectory(begun)
    scenario, workspace = run.read_scenario(), Cluster.of_run(run).workspace
    BACKEND.require_unchanged(scenario, workspace)
    topic = scenario.subjects[0].topic_name
    change(secured, topic)

    def is_seen() -> bool:
        try:
            BACKEND.require_unchanged(scenario, workspace)
        except StepFailed as failure:
            return said in str(failure)
        return False

    wait_until(is_seen, "the change to be seen", PATIENCE_S, 0.3)
    if change is make_anew:
        stop_cluster(begun, keep=False)
        wait_until(
            lambda: of_runs(secured) == {topic}, "only the foreign writer's to be left, with its name", PATIENCE_S
        )


def test_what_cannot_be_removed_stays_registered_and_is_named_until_the_right_is_back(
    secured: SecuredCluster, access: ClusterAccess
) -> None:
    run_dir = planned(access)
    start_cluster(run_dir)
    create_topics(run_dir)
    run = RunDirectory(run_dir)
    topics, cluster = of_runs(secured), Cluster.of_run(run)
    secured.grant([])

    def is_refused() -> bool:
        try:
            BACKEND.require_unchanged(run.read_scenario(), cluster.workspace)
        except KafkaException as error:
            return "uthorization" in str(error)
        return False

    wait_until(is_refused, "the rights to be gone", PATIENCE_S, 0.3)
    with pytest.raises(StepFailed, match=r"not removed from the cluster: .*uthorization.*kdv doctor --heal"):
        stop_cluster(run_dir, keep=False)
    assert of_runs(secured) == topics == registered() and not cluster.workspace.exists()
    assert any(line.startswith(f"not healed: run {run.read_scenario().run_token}: ") for line in doctor.heal())
    secured.grant([("topic", right.name, "prefixed", right.operation) for right in NEEDED])
    wait_until(lambda: list(doctor.heal()) and registered() == set(), "the rights to be back", PATIENCE_S, 0.5)
    wait_until(lambda: of_runs(secured) == set(), "every broker to know that they are gone", PATIENCE_S)


KILLED_AT = """
import os, signal, sys
from delivery_verifier.cluster.external import creation, register
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.processes import myself
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.pipeline.steps.create_topics import create_topics
from delivery_verifier.pipeline.steps.plan import plan_from_params
from delivery_verifier.pipeline.steps.start_cluster import start_cluster
from delivery_verifier.run_directory.run_directory import RunDirectory

point, config, name = sys.argv[1:]
params = {"profile": "safe", "fault": "none", "records": 1000, "rate": 500, "owner": str(myself())}
run_dir = plan_from_params(params, name, ClusterAccess(command_config=config))
start_cluster(run_dir)

def die(*_, **__):
    if point != "the run alone":
        os.kill(Cluster.of_run(RunDirectory(run_dir)).agent.status().pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def then_die(done):
    def do(*given, **named):
        done(*given, **named)
        die()
    return do

if point == "intended": creation._announce = die
if point == "announced": creation.runs.require_alone = die
if point == "created": creation.topics.create = then_die(creation.topics.create)
if point == "one id": register.Register.created = then_die(register.Register.created)
create_topics(run_dir)
die()
"""


@pytest.mark.parametrize("point", ["intended", "announced", "created", "one id", "all ids"])
def test_a_killed_run_leaves_only_what_is_registered_and_the_doctor_removes_exactly_that(
    secured: SecuredCluster, access: ClusterAccess, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kill(point, access)
    left = of_runs(secured)
    assert left <= registered() and bool(left) == (point != "intended")
    monkeypatch.setattr(removal, "SETTLED_S", 0.0)
    foreign_writers = set[str]()
    if point == "all ids":
        foreign_writers = {max(left)}
        make_anew(secured, max(left))
    said = list(doctor.heal())
    assert registered() == set(), said
    wait_until(
        lambda: of_runs(secured) == foreign_writers, "every broker to know it", PATIENCE_S, detail=lambda: str(said)
    )
    assert any(name in line for line in said for name in left - foreign_writers) == bool(left)


def test_the_next_run_removes_exactly_what_a_killed_run_left(secured: SecuredCluster, access: ClusterAccess) -> None:
    _kill("all ids", access)
    left, run_dir = of_runs(secured), planned(access)
    assert left and left <= registered()
    start_cluster(run_dir)
    wait_until(lambda: of_runs(secured) == set(), "every broker to know that they are gone", PATIENCE_S)
    stop_cluster(run_dir, keep=False)
    assert registered() == set()


def test_the_agent_removes_the_topics_if_the_run_alone_is_killed(
    secured: SecuredCluster, access: ClusterAccess
) -> None:
    _kill("the run alone", access)
    wait_until(lambda: not of_runs(secured) and not registered(), "the agent to remove the topics", GONE_WITHIN_S)


def _kill(point: str, access: ClusterAccess) -> None:
    """Begins a run in another process, which kills its agent and itself at `point`."""
    words = [sys.executable, "-c", KILLED_AT, point, str(access.command_config), f"r-{uuid.uuid4().hex[:6]}"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    if point != "the run alone":  # on a busy host, the kernel needs a moment to end a killed process and free its lock
        wait_until(lambda: lease.lock_owner() is None, "the killed agent's lock to be free", GONE_WITHIN_S)
    assert folders.state_dir().joinpath("clusters", f"id-{CLUSTER_ID}").is_dir()
