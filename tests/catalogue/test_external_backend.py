"""A whole run on a cluster that somebody else runs, over SASL_SSL with SCRAM, with exactly the documented rights: it
comes to HELD, Spark's reading and Great Expectations included, and leaves nothing there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession
from support.patience import PATIENCE_S
from support.secured_cluster import CLUSTER_ID, USERS, SecuredCluster, secured_cluster
from support.stored_runs import arm

from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.planning import cluster_needs
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.run import direct
from delivery_verifier.store.run_directory import RunDirectory

NO_TOPIC = {"__consumer_offsets", "__transaction_state"}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster that nothing of the verifier has started."""
    with secured_cluster(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


def topics_of(cluster: SecuredCluster) -> set[str]:
    return {*cluster.operator.list_topics(timeout=PATIENCE_S).topics} - NO_TOPIC


def groups_of(cluster: SecuredCluster) -> set[str]:
    return {group.group_id for group in cluster.operator.list_consumer_groups().result(PATIENCE_S).valid}


def granted_exactly(cluster: SecuredCluster, params: dict[str, object]) -> None:
    needed = cluster_needs.needs(scenario_from_params(params, "planned")).rights
    cluster.grant(
        [
            (right.kind, right.name or "kafka-cluster", "prefixed" if right.is_prefix else "literal", right.operation)
            for right in needed
        ]
    )


def access_to(cluster: SecuredCluster, folder: Path) -> ClusterAccess:
    config = folder / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties().items()))
    config.chmod(0o600)
    return ClusterAccess(command_config=str(config))


@pytest.mark.parametrize(
    "asked",
    [{"profile": "safe"}, {"profile": "transactional"}, {"application": "commit_after"}],
    ids=["plain", "transactions", "application"],
)
def test_a_run_with_exactly_the_documented_rights_is_held_and_leaves_nothing(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path, asked: dict[str, object]
) -> None:
    params = {**asked, "fault": "none", "records": 2000, "duration_s": 4, "rate": 500}
    granted_exactly(strangers, params)
    name = f"external-{uuid.uuid4().hex[:6]}"
    verdict = direct.run(params, name, lambda progress: None, kafka_spark, access_to(strangers, host_folder))
    run = RunDirectory(folders.runs_dir() / name)
    doubts = [f"{doubt.name}: {doubt.detail}" for each in verdict.arms for doubt in each.doubts]
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0), doubts
    (subject,) = (each for each in verdict.arms if each.role == "subject")
    assert arm(verdict, subject.arm).books["lost"] == 0
    assert any(CLUSTER_ID in limit for limit in verdict.limits)
    wait_until(lambda: topics_of(strangers) == set() == groups_of(strangers), "the topics to be gone", PATIENCE_S)
    scenario = json.loads((run.path / "scenario.json").read_text())
    assert scenario["cluster"]["external"]["cluster_id"] == CLUSTER_ID
    assert not list(folders.state_dir().glob("clusters/*/*.jsonl"))
    secret = USERS["verifier"].encode()
    assert not [file for file in run.path.rglob("*") if file.is_file() and secret in file.read_bytes()]


def test_a_broker_that_somebody_else_kills_and_starts_forbids_every_verdict_but_inconclusive(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    """Nobody tells the run. From outside, it cannot be told from a loss of power."""
    broker = strangers.brokers[1]

    def killed_and_started(progress: StepProgress) -> None:
        if (progress.step, progress.state) == ("inject_fault", "success"):
            strangers.processes[broker].kill()
            strangers.processes[broker].wait()
            strangers.launch(broker)

    params = {"profile": "safe", "fault": "none", "records": 2500, "duration_s": 5, "rate": 500}
    granted_exactly(strangers, params)
    name = f"disturbed-{uuid.uuid4().hex[:6]}"
    verdict = direct.run(params, name, killed_and_started, kafka_spark, access_to(strangers, host_folder))
    doubts = {doubt.name for doubt in arm(verdict, "safe").doubts}
    assert verdict.verdict == "INCONCLUSIVE" and doubts >= {"brokers_unwatched", "unplanned_disturbance"}
    wait_until(lambda: topics_of(strangers) == set(), "the topics to be gone", PATIENCE_S)


def test_five_brokers_of_an_older_release_of_which_one_is_down_are_enough(
    tmp_path: Path, kafka_spark: SparkSession, host_folder: Path
) -> None:
    params = {"profile": "transactional", "fault": "none", "records": 2000, "duration_s": 4, "rate": 500}
    with secured_cluster(tmp_path / "older", (11, 12, 13, 14, 15), "4.0.2") as older:
        granted_exactly(older, params)
        older.processes[13].kill()
        wait_until(lambda: 13 not in brokers_of(older), "the others to know that it is down", 2 * PATIENCE_S, 0.5)
        name = f"older-{uuid.uuid4().hex[:6]}"
        verdict = direct.run(params, name, lambda progress: None, kafka_spark, access_to(older, host_folder))
        wait_until(lambda: topics_of(older) == set(), "the topics to be gone", PATIENCE_S)
    cluster = RunDirectory(folders.runs_dir() / name).read_scenario().cluster
    assert verdict.verdict == "HELD"
    assert (cluster.kafka_version, cluster.elr) == ("4.0", False)
    assert cluster.external is not None and sorted(cluster.external.brokers) == [11, 12, 14, 15]
    assert any("eligible leader replicas: none" in limit for limit in verdict.limits)


def brokers_of(cluster: SecuredCluster) -> set[int]:
    """The brokers that one of them names; all of them as long as none answers."""
    with suppress(KafkaException):
        return {*cluster.operator.list_topics(timeout=PATIENCE_S).brokers}
    return {*cluster.brokers}
