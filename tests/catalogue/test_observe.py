"""Runs with the fault `observe` on a cluster that somebody else runs: this test breaks its brokers, and the run derives
from outside who was broken."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.patience import PATIENCE_S
from support.secured_cluster import SecuredCluster, secured_cluster
from support.stored_runs import arm

from delivery_verifier.faults.observing import WAITS
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.history import Injection, now_us, read_injections
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.progress.marks import Marks
from delivery_verifier.run_directory.run_directory import RunDirectory

SETTINGS = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "leader.imbalance.check.interval.seconds": 3,
    "leader.imbalance.per.broker.percentage": 0,
}
"""The cluster notices soon that a broker is gone, and soon moves leaders back."""


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster that nothing of the verifier has started."""
    with secured_cluster(tmp_path_factory.mktemp("observed"), settings=SETTINGS) as cluster:
        yield cluster


class Breaker(threading.Thread):
    """Breaks brokers once a run waits for it. `deed` gets the cluster and the leader of the subject's partition 0, and
    returns when it sent its first signal (µs since the epoch)."""

    def __init__(self, cluster: SecuredCluster, run: RunDirectory, deed: Callable[[SecuredCluster, int], int]) -> None:
        super().__init__(name="breaker")
        self.cluster, self.run_directory, self.deed = cluster, run, deed
        self.failure, self.at_us, self.leader = list[BaseException](), 0, -1

    def run(self) -> None:
        try:
            workspace = Path(self.run_directory.manifest("start_cluster").notes["workspace"])
            waits = lambda: any(mark.text == WAITS for mark in Marks(workspace).read())  # noqa: E731
            wait_until(waits, "the run to wait for somebody", 4 * PATIENCE_S, 0.1)
            self.leader = self.leader_of_first()
            self.at_us = self.deed(self.cluster, self.leader)
        except BaseException as error:  # raised again by the test
            self.failure.append(error)

    def leader_of_first(self) -> int:
        (arm,) = self.run_directory.read_scenario().subjects
        topics = self.cluster.operator.list_topics(arm.topic_name, timeout=PATIENCE_S).topics
        return topics[arm.topic_name].partitions[0].leader


def observed(
    cluster: SecuredCluster,
    spark: SparkSession,
    folder: Path,
    deed: Callable[[SecuredCluster, int], int],
    **asked: object,
) -> tuple[RunVerdict, list[Injection], Breaker]:
    """Runs with the fault `observe`, and lets `deed` break brokers meanwhile."""
    params = {"profile": "safe", "fault": "observe", "records": 6000, "duration_s": 12, "rate": 500, **asked}
    cluster.grant_exactly(params)
    config = folder / "observe.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in cluster.properties().items()))
    config.chmod(0o600)
    run = RunDirectory(folders.runs_dir() / f"observe-{uuid.uuid4().hex[:6]}")
    breaker = Breaker(cluster, run, deed)

    def begin(progress: StepProgress) -> None:
        if (progress.step, progress.state) == ("inject_fault", "running"):
            breaker.start()

    access = ClusterAccess(command_config=str(config))
    verdict = direct.run(params, run.path.name, begin, spark, access)
    breaker.join()
    assert breaker.failure == []
    return verdict, read_injections((run.path / "injections.json").read_bytes()), breaker


def others_lead(cluster: SecuredCluster, broker: int) -> bool:
    """Whether another broker says that `broker` leads nothing and is in no ISR."""
    topics = cluster.operator.list_topics(timeout=PATIENCE_S).topics.values()
    partitions = [partition for topic in topics for partition in topic.partitions.values()]
    return not any(broker in (partition.leader, *partition.isrs) for partition in partitions)


def killed(cluster: SecuredCluster, broker: int) -> int:
    at_us = now_us()
    cluster.processes[broker].kill()
    cluster.processes[broker].wait()
    wait_until(lambda: others_lead(cluster, broker), "others to lead", 2 * PATIENCE_S, 0.2)
    cluster.launch(broker)
    return at_us


def test_a_broker_that_somebody_else_kills_is_found_and_the_strong_arm_is_held(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    verdict, injections, breaker = observed(strangers, kafka_spark, host_folder, killed)
    doubts = [f"{each.arm}: {doubt.name}: {doubt.detail}" for each in verdict.arms for doubt in each.doubts]
    assert [injection.brokers for injection in injections] == [[breaker.leader]], doubts
    assert injections[0].effect_at_us <= breaker.at_us + 1_000_000
    assert (arm(verdict, "safe").verdict, verdict.green) == ("HELD", True), doubts
