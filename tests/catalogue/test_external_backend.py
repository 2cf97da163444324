"""Whole runs on a cluster that somebody else runs, over SASL_SSL with SCRAM or mutual TLS, with exactly the documented
rights: they come to HELD, Spark's reading and Great Expectations included, and leave nothing there. The scenarios of
the catalogue that fit such a cluster end there as they are expected to."""

from __future__ import annotations

import json
import threading
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

from delivery_verifier import catalogue
from delivery_verifier.catalogue.parts import after, step
from delivery_verifier.faults.triggers import Triggers
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.pipeline import direct
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.suite import begin
from delivery_verifier.suite.directly import runner
from delivery_verifier.suite.loop import Loop

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


@pytest.mark.parametrize(
    "asked",
    [{"profile": "safe"}, {"profile": "transactional"}, {"application": "commit_after"}],
    ids=["plain", "transactions", "application"],
)
def test_a_run_with_exactly_the_documented_rights_is_held_and_leaves_nothing(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path, asked: dict[str, object]
) -> None:
    params = {**asked, "fault": "none", "records": 2000, "duration_s": 4, "rate": 500}
    strangers.grant_exactly(params)
    name = f"external-{uuid.uuid4().hex[:6]}"
    verdict = direct.run(params, name, lambda progress: None, kafka_spark, strangers.access(host_folder))
    run = RunDirectory(folders.runs_dir() / name)
    doubts = [f"{doubt.name}: {doubt.detail}" for each in verdict.arms for doubt in each.doubts]
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0), doubts
    (subject,) = (each for each in verdict.arms if each.role == "subject")
    assert arm(verdict, subject.arm).tally["lost"] == 0
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
    """Nobody tells the run. From outside, it cannot be distinguished from a loss of power."""
    broker = strangers.brokers[1]

    def killed_and_started(progress: StepProgress) -> None:
        if (progress.step, progress.state) == ("inject_fault", "success"):
            strangers.processes[broker].kill()
            strangers.processes[broker].wait()
            strangers.launch(broker)

    params = {"profile": "safe", "fault": "none", "records": 2500, "duration_s": 5, "rate": 500}
    strangers.grant_exactly(params)
    name = f"disturbed-{uuid.uuid4().hex[:6]}"
    verdict = direct.run(params, name, killed_and_started, kafka_spark, strangers.access(host_folder))
    doubts = {doubt.name for doubt in arm(verdict, "safe").doubts}
    assert verdict.verdict == "INCONCLUSIVE" and doubts >= {"brokers_unwatched", "unplanned_disturbance"}
    wait_until(lambda: topics_of(strangers) == set(), "the topics to be gone", PATIENCE_S)


ALTERED = FaultPlan(
    name="altered",
    summary="An operator lowers min.insync.replicas of every topic of the run.",
    duration_s=5,
    steps=(
        step(Trigger(kind="reported", value=0.15), "alter_topic", "all", setting="min.insync.replicas", value=1),
        step(after(2), "wait"),
    ),
)
ASKED_FOR = FaultPlan(
    name="asked_for",
    summary="An operator asks for leaders from outside the ISR, and every partition has a leader.",
    duration_s=5,
    steps=(step(Trigger(kind="reported", value=0.15), "elect_unclean", "all"), step(after(2), "wait")),
)


@pytest.mark.parametrize(
    ("fault", "effect", "verdict"),
    [
        (catalogue.FAULTS["elect_preferred"], True, "HELD"),
        (ALTERED, True, "HELD"),
        (ASKED_FOR, False, "INCONCLUSIVE"),
    ],
    ids=lambda value: value.name if isinstance(value, FaultPlan) else None,
)
def test_an_operators_action_is_done_to_the_runs_own_topics_and_one_that_finds_nothing_to_do_says_so(
    strangers: SecuredCluster,
    kafka_spark: SparkSession,
    host_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: FaultPlan,
    effect: bool,
    verdict: str,
) -> None:
    """An election from outside the ISR happens only where partitions have no leader."""
    monkeypatch.setitem(catalogue.FAULTS, fault.name, fault)
    params = {"profile": "safe", "fault": fault.name, "records": 3000, "duration_s": 6, "rate": 500}
    strangers.grant_exactly(params)
    name = f"{fault.name}-{uuid.uuid4().hex[:6]}".replace("_", "-")
    given = direct.run(params, name, lambda progress: None, kafka_spark, strangers.access(host_folder))
    doubts = {doubt.name: doubt.detail for each in given.arms for doubt in each.doubts}
    run = RunDirectory(folders.runs_dir() / name)
    (injection,) = json.loads((run.path / "injections.json").read_text())
    assert (given.verdict, injection["took_effect"]) == (verdict, effect), doubts
    assert effect or "has no proof that it took effect" in doubts["fault_took_no_effect"]
    wait_until(lambda: topics_of(strangers) == set(), "the topics to be gone", PATIENCE_S)


class Operator(threading.Thread):
    """Takes from a partition first its follower and then its leader, and brings the follower back. From then on
    (`ready`), the partition has no leader, and only a replica outside the ISR could be one. Once it leads, the old
    leader is started, too."""

    def __init__(self, cluster: SecuredCluster) -> None:
        super().__init__(name="operator")
        self.cluster, self.ready, self.failure = cluster, threading.Event(), list[BaseException]()

    def run(self) -> None:
        try:
            self._operate()
        except BaseException as error:  # raised again by the test
            self.failure.append(error)

    def _operate(self) -> None:
        leader, replicas, _ = self._partition()
        (follower,) = {*replicas} - {leader}
        self._kill(follower)
        wait_until(lambda: self._partition()[2] == [leader], "the follower to leave the ISR", PATIENCE_S, 0.5)
        self._kill(leader)
        wait_until(lambda: self._partition()[0] < 0, "the partition to have no leader", PATIENCE_S, 0.5)
        self.cluster.launch(follower)
        wait_until(lambda: follower in brokers_of(self.cluster), "the follower to be back", PATIENCE_S, 0.5)
        self.ready.set()
        wait_until(lambda: self._partition()[0] == follower, "the follower to lead", PATIENCE_S, 0.5)
        self.cluster.launch(leader)

    def _partition(self) -> tuple[int, list[int], list[int]]:
        """Leader, replicas and ISR of the subject's only partition, as far as a broker tells them."""
        with suppress(KafkaException):
            topics = self.cluster.operator.list_topics(timeout=PATIENCE_S).topics
            (topic,) = (topic for name, topic in topics.items() if name.endswith("-acks_1"))
            return topic.partitions[0].leader, topic.partitions[0].replicas, topic.partitions[0].isrs
        return 0, [], []

    def _kill(self, broker: int) -> None:
        self.cluster.processes[broker].kill()
        self.cluster.processes[broker].wait()


def test_a_leader_from_outside_the_isr_is_elected_where_the_operator_took_the_brokers_away(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, wait = Operator(strangers), Triggers.wait

    def once_ready(self: Triggers, step: FaultStep) -> None:
        wait(self, step)
        if step.action == "elect_unclean":
            operator.start()
            wait_until(lambda: operator.ready.is_set() or operator.failure, "the operator's part", 4 * PATIENCE_S, 0.2)

    monkeypatch.setattr(Triggers, "wait", once_ready)
    monkeypatch.setitem(catalogue.FAULTS, ASKED_FOR.name, ASKED_FOR)
    params = {"profile": "acks_1", "fault": ASKED_FOR.name, "records": 3000, "duration_s": 6, "rate": 500}
    params |= {"replication_factor": 2, "partitions": 1}
    strangers.grant_exactly(params)
    name = f"unclean-{uuid.uuid4().hex[:6]}"
    verdict = direct.run(params, name, lambda progress: None, kafka_spark, strangers.access(host_folder))
    operator.join()
    assert operator.failure == []
    run = RunDirectory(folders.runs_dir() / name)
    (injection,) = json.loads((run.path / "injections.json").read_text())
    assert injection["took_effect"], injection
    doubts = {doubt.name for doubt in arm(verdict, "acks_1").doubts}
    assert verdict.verdict == "INCONCLUSIVE" and "brokers_unwatched" in doubts, "who took the brokers, nobody saw"
    wait_until(lambda: topics_of(strangers) == set(), "the topics to be gone", PATIENCE_S)


def test_a_cluster_of_release_3_9_and_mutual_tls_are_enough_and_what_was_assumed_is_printed(
    tmp_path: Path, kafka_spark: SparkSession, host_folder: Path
) -> None:
    params = {"profile": "transactional", "fault": "none", "records": 2000, "duration_s": 4, "rate": 500}
    with secured_cluster(tmp_path / "oldest", version="3.9.2") as oldest:
        oldest.grant_exactly(params)
        mutual = {
            "bootstrap.servers": oldest.servers("MTLS"),
            "security.protocol": "SSL",
            "ssl.ca.location": str(oldest.certificates / "ca.pem"),
            "ssl.certificate.location": str(oldest.certificates / "verifier.crt"),
            "ssl.key.location": str(oldest.certificates / "verifier.key"),
        }
        name = f"oldest-{uuid.uuid4().hex[:6]}"
        access = oldest.access(host_folder, mutual)
        verdict = direct.run(params, name, lambda progress: None, kafka_spark, access)
        wait_until(lambda: topics_of(oldest) == set(), "the topics to be gone", PATIENCE_S)
    run = RunDirectory(folders.runs_dir() / name)
    cluster = run.read_scenario().cluster
    doubts = [f"{doubt.name}: {doubt.detail}" for each in verdict.arms for doubt in each.doubts]
    assert verdict.verdict == "HELD", doubts
    assert (cluster.kafka_version, cluster.elr) == ("3.9", False)
    (assumed,) = [limit for limit in verdict.limits if limit.startswith("Assumed of the cluster:")]
    assert "eligible leader replicas: none" in assumed
    assert "transaction.version is 0: a late end of a transaction may end the next one" in assumed
    assert (oldest.certificates / "verifier.key").read_text().splitlines()[1].encode() not in b"".join(
        file.read_bytes() for file in run.path.rglob("*") if file.is_file()
    )


def test_of_the_catalogue_what_fits_is_run_there_and_the_rest_is_unavailable_with_its_reason(
    strangers: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    strangers.grant_exactly({"application": "commit_after", "fault": "none", "rate": 500})
    names = ["producer.terminated", "consumer.commit_after", "acks_1.frozen_followers", "everyday.preferred_election"]
    access = strangers.access(host_folder)
    name = f"catalogue-{uuid.uuid4().hex[:6]}"
    started = begin.begin(name, names=names, direct=True, external=access)
    with runner(lambda progress: None, kafka_spark, access) as direct_runner:
        finished = Loop(started, direct_runner, lambda catalogue_run, item: None).run()
    items = {item.name: item for item in finished.items}
    said = {name: [*(attempt.sentence or attempt.error for attempt in item.attempts)] for name, item in items.items()}
    assert {items[name].state for name in names[:2]} == {"as expected"}, said
    broken, lacking = items["acks_1.frozen_followers"], items["everyday.preferred_election"]
    assert (broken.state, broken.green) == ("unavailable", True)
    assert "only a cluster of the verifier's own can be broken so" in broken.unavailable
    assert (lacking.state, lacking.green) == ("unavailable", False), "a right that is missing is not expected"
    assert "missing: Alter on the cluster" in lacking.unavailable and "--operation Alter" in lacking.unavailable
    assert finished.exit_code == 1 and finished.wanted.endswith(str(access.command_config))
    ran = RunDirectory(folders.runs_dir() / items[names[0]].attempts[0].run).read_scenario().cluster.external
    assert ran is not None and ran.cluster_id == CLUSTER_ID
    wait_until(lambda: topics_of(strangers) == set() == groups_of(strangers), "the topics to be gone", PATIENCE_S)


def test_five_brokers_of_an_older_release_of_which_one_is_down_are_enough(
    tmp_path: Path, kafka_spark: SparkSession, host_folder: Path
) -> None:
    params = {"profile": "transactional", "fault": "none", "records": 2000, "duration_s": 4, "rate": 500}
    with secured_cluster(tmp_path / "older", (11, 12, 13, 14, 15), "4.0.2") as older:
        older.grant_exactly(params)
        older.processes[13].kill()
        wait_until(lambda: 13 not in brokers_of(older), "the others to know that it is down", 2 * PATIENCE_S, 0.5)
        name = f"older-{uuid.uuid4().hex[:6]}"
        verdict = direct.run(params, name, lambda progress: None, kafka_spark, older.access(host_folder))
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
