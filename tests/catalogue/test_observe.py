"""Runs with the fault `observe` on a cluster that somebody else runs: this test breaks its brokers, and the run derives
from outside who was broken."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, PartitionMetadata, ResourceType
from pyspark.sql import SparkSession
from support.patience import PATIENCE_S
from support.secured_cluster import SecuredCluster, secured_cluster
from support.stored_runs import arm

from delivery_verifier.faults.observing import WAITS
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import pause, wait_until
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


SECOND_US = 1_000_000
Deed = Callable[[SecuredCluster, int], int]
"""Breaks something. It gets the cluster, and the leader of the subject's partition 0. Returns when it began (µs since
the epoch)."""


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A cluster that nothing of the verifier has started."""
    with secured_cluster(tmp_path_factory.mktemp("observed"), settings=SETTINGS) as cluster:
        yield cluster


class Breaker(threading.Thread):
    """Breaks brokers once a run waits for it; at once if `waits` is false, because the run has gone on. `deed` gets the
    cluster, and the leader of the subject's partition 0, and returns when it sent its first signal (µs since the
    epoch)."""

    def __init__(self, cluster: SecuredCluster, run: RunDirectory, deed: Deed, *, waits: bool = True) -> None:
        super().__init__(name="breaker")
        self.cluster, self.run_directory, self.deed, self.waits = cluster, run, deed, waits
        self.failure, self.at_us, self.took_us, self.leader = list[BaseException](), 0, 0, -1

    def run(self) -> None:
        try:
            workspace = Path(self.run_directory.manifest("start_cluster").notes["workspace"])
            waits = lambda: any(mark.text == WAITS for mark in Marks(workspace).read())  # noqa: E731
            if self.waits:
                wait_until(waits, "the run to wait for somebody", 4 * PATIENCE_S, 0.1)
            self.leader = self.leader_of_first()
            self.at_us = self.deed(self.cluster, self.leader)
            self.took_us = now_us() - self.at_us
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
    deed: Deed,
    at: tuple[str, str] = ("inject_fault", "running"),
    **asked: object,
) -> tuple[RunVerdict, list[Injection], Breaker]:
    """Runs with the fault `observe`, and lets `deed` break brokers: when the step `at[0]` has come to the state `at[1]`
    and, if that is the watch, once the run waits for it."""
    params = {"profile": "safe", "fault": "observe", "records": 6000, "duration_s": 12, "rate": 500, **asked}
    cluster.grant_exactly(params)
    run = RunDirectory(folders.runs_dir() / f"observe-{uuid.uuid4().hex[:6]}")
    breaker = Breaker(cluster, run, deed, waits=at == ("inject_fault", "running"))

    def begin(progress: StepProgress) -> None:
        if (progress.step, progress.state) == at:
            breaker.start()

    verdict = direct.run(params, run.path.name, begin, spark, cluster.access(folder))
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


def stopped(cluster: SecuredCluster, broker: int) -> int:
    at_us = now_us()
    cluster.processes[broker].terminate()
    cluster.processes[broker].wait()
    cluster.launch(broker)
    return at_us


def frozen(cluster: SecuredCluster, broker: int) -> int:
    at_us = now_us()
    cluster.processes[broker].send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: others_lead(cluster, broker), "others to lead", 2 * PATIENCE_S, 0.2)
    finally:
        cluster.processes[broker].send_signal(signal.SIGCONT)
    return at_us


def restarted_at_once(cluster: SecuredCluster, broker: int) -> int:
    at_us = now_us()
    cluster.processes[broker].kill()
    cluster.processes[broker].wait()
    cluster.launch(broker)
    return at_us


def is_whole(cluster: SecuredCluster) -> bool:
    topics = cluster.operator.list_topics(timeout=PATIENCE_S).topics.values()
    partitions = [partition for topic in topics for partition in topic.partitions.values()]
    return all(partition.leader >= 0 and {*partition.isrs} == {*partition.replicas} for partition in partitions)


def one_after_the_other(cluster: SecuredCluster, broker: int) -> int:
    at_us = now_us()
    for each in cluster.brokers:
        stopped(cluster, each)
        wait_until(lambda: is_whole(cluster), "all replicas to be in sync", 3 * PATIENCE_S, 0.2)
    return at_us


def nothing(cluster: SecuredCluster, broker: int) -> int:
    return now_us()


def why(verdict: RunVerdict) -> list[str]:
    return [f"{each.arm}: {doubt.name}: {doubt.detail}" for each in verdict.arms for doubt in each.doubts]


def test_a_broker_that_somebody_else_kills_is_found_and_the_strong_arm_is_held(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    verdict, injections, breaker = observed(strangers, kafka_spark, host_folder, killed)
    assert [injection.brokers for injection in injections] == [[breaker.leader]], why(verdict)
    assert injections[0].effect_at_us <= breaker.at_us + SECOND_US
    assert {"refused connections", "answered again"} <= injections[0].proof["observed"].keys(), injections  # type: ignore[union-attr]
    assert (arm(verdict, "safe").verdict, verdict.green) == ("HELD", True), why(verdict)
    assert f"broker {breaker.leader} was taken out by somebody else once" in verdict.sentence


@pytest.mark.parametrize("deed", [stopped, frozen, restarted_at_once], ids=lambda deed: deed.__name__)
def test_what_was_done_to_one_broker_is_one_injection_of_this_broker_that_begins_in_time(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path, deed: Deed
) -> None:
    verdict, injections, breaker = observed(strangers, kafka_spark, host_folder, deed, profile="acks_1")
    assert [injection.brokers for injection in injections] == [[breaker.leader]], why(verdict)
    (injection,) = injections
    earlier_us = 5 * SECOND_US
    if (
        deed is stopped and breaker.took_us > SECOND_US
    ):  # it answers for long after it was deposed, as if it were cut off
        earlier_us += injection.proof["assumed"]["session_ms"] * 1000  # type: ignore[index, call-overload, operator]
    assert breaker.at_us - earlier_us <= injection.effect_at_us <= breaker.at_us + SECOND_US
    assert verdict.verdict in ("HELD", "INCONCLUSIVE"), "acks=1 may lose records, and is never convicted of that"
    names = {doubt.name for doubt in arm(verdict, "acks_1").doubts}
    assert "unplanned_disturbance" not in names and "brokers_unwatched" not in names, why(verdict)


def test_a_rolling_restart_is_one_injection_for_each_broker(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    verdict, injections, _ = observed(strangers, kafka_spark, host_folder, one_after_the_other)
    assert sorted(each.brokers[0] for each in injections) == [*strangers.brokers], why(verdict)
    assert all(len(each.brokers) == 1 for each in injections)
    assert "unplanned_disturbance" not in {doubt.name for doubt in arm(verdict, "safe").doubts}, why(verdict)


def test_if_nobody_breaks_anything_nothing_is_held(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    verdict, injections, _ = observed(strangers, kafka_spark, host_folder, nothing)
    assert (verdict.verdict, injections) == ("INCONCLUSIVE", [])
    assert {doubt.name for doubt in arm(verdict, "safe").doubts} == {"nothing_broken"}, why(verdict)


@pytest.mark.parametrize("at", [("create_topics", "success"), ("inject_fault", "success")], ids=["before", "after"])
def test_what_was_broken_before_the_load_or_after_it_is_no_fault_that_was_watched(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path, at: tuple[str, str]
) -> None:
    verdict, injections, _ = observed(strangers, kafka_spark, host_folder, restarted_at_once, at=at)
    assert (verdict.verdict, injections) == ("INCONCLUSIVE", []), why(verdict)
    assert "nothing_broken" in {doubt.name for doubt in arm(verdict, "safe").doubts}


def test_a_broker_without_a_replica_of_the_run_is_nobody(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    def other_than_replicas(cluster: SecuredCluster, leader: int) -> int:
        topics = cluster.operator.list_topics(timeout=PATIENCE_S).topics
        held = {
            replica
            for name, topic in topics.items()
            if not name.startswith("__")
            for partition in topic.partitions.values()
            for replica in partition.replicas
        }
        (other,) = {*cluster.brokers} - held
        return stopped(cluster, other)

    asked = {"partitions": 1, "replication_factor": 2, "min_insync_replicas": 1}
    verdict, injections, _ = observed(strangers, kafka_spark, host_folder, other_than_replicas, **asked)
    assert (verdict.verdict, injections) == ("INCONCLUSIVE", [])


def test_a_topic_that_an_operator_alters_and_sets_back_is_seen(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    def altered(cluster: SecuredCluster, leader: int) -> int:
        at_us, name = now_us(), next(name for name in cluster.operator.list_topics().topics if name.endswith("-safe"))
        for value in ("1", "2"):
            entry = ConfigEntry("min.insync.replicas", value, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
            cluster.operator.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
            pause(3)  # the settings are looked at each second
        return at_us

    verdict, injections, _ = observed(strangers, kafka_spark, host_folder, altered)
    assert (verdict.verdict, injections) == ("INCONCLUSIVE", [])
    assert any("somebody else set min.insync.replicas" in text for text in why(verdict)), why(verdict)


def test_if_all_brokers_lose_their_power_acks_all_loses_and_is_not_convicted(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    """The power is played: the ends of the partitions' logs are cut off while all brokers are down."""

    def cut(cluster: SecuredCluster, leader: int) -> int:
        at_us = now_us()
        for each in cluster.brokers:
            cluster.processes[each].kill()
        for each in cluster.brokers:
            cluster.processes[each].wait()
        for segment in cluster.folder.glob("data-*/kdv-*-safe-*/*.log"):
            size = segment.stat().st_size
            with segment.open("r+b") as log:
                log.truncate(size * 3 // 4)
        pause(2)  # each broker was silent, seen by a question each 0.1 s
        for each in cluster.brokers:
            cluster.launch(each)
        return at_us

    verdict, _, _ = observed(strangers, kafka_spark, host_folder, cut, duration_s=20)
    safe = arm(verdict, "safe")
    assert safe.tally["lost"] > 0, "the power cut took records"
    assert safe.verdict == "INCONCLUSIVE" and "brokers_unwatched" in {doubt.name for doubt in safe.doubts}, why(verdict)


def given_to_a_replica_outside_the_isr(cluster: SecuredCluster, leader: int) -> int:
    """The follower dies, then the leader. The follower comes back, and the operator has it elected."""
    at_us, name = now_us(), next(name for name in cluster.operator.list_topics().topics if name.endswith("-safe"))

    def partition() -> PartitionMetadata:
        return cluster.operator.list_topics(name, timeout=PATIENCE_S).topics[name].partitions[0]

    def kill(broker: int) -> None:
        cluster.processes[broker].kill()
        cluster.processes[broker].wait()

    (follower,) = {*partition().replicas} - {leader}
    kill(follower)
    wait_until(lambda: partition().isrs == [leader], "the follower to leave the ISR", 2 * PATIENCE_S, 0.2)
    pause(2)  # what is acknowledged now, the leader alone has
    kill(leader)
    wait_until(lambda: partition().leader < 0, "the partition to have no leader", 2 * PATIENCE_S, 0.2)
    cluster.launch(follower)
    is_back = lambda: follower in cluster.operator.list_topics(timeout=PATIENCE_S).brokers  # noqa: E731
    wait_until(is_back, "the follower to be back", 3 * PATIENCE_S, 0.2)
    cluster.operator.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(name, 0)]).result(PATIENCE_S)
    wait_until(lambda: partition().leader == follower, "the follower to lead", 2 * PATIENCE_S, 0.2)
    cluster.launch(leader)
    return at_us


def test_an_unclean_election_that_somebody_asked_for_convicts_nobody(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    asked = {"partitions": 1, "replication_factor": 2, "min_insync_replicas": 1, "duration_s": 20}
    deed = given_to_a_replica_outside_the_isr
    verdict, _, breaker = observed(strangers, kafka_spark, host_folder, deed, **asked)
    safe = arm(verdict, "safe")
    assert safe.tally["lost"] > 0, "the election took what the leader alone had"
    assert safe.verdict == "INCONCLUSIVE", why(verdict)
    assert "brokers_unwatched" in {doubt.name for doubt in safe.doubts}, why(verdict)
    assert breaker.leader in strangers.brokers
