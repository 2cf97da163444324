"""Runs on clusters that somebody else runs, and that are not as usual: one of five brokers is dead, a broker comes back
at other ports, or every byte travels for a tenth of a second."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from pyspark.sql import SparkSession
from support.far_network import far_network
from support.patience import PATIENCE_S
from support.secured_cluster import BROKERS, SecuredCluster, secured_cluster
from support.stored_runs import arm

from delivery_verifier.faults.observing import WAITS
from delivery_verifier.host import folders
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import read_injections, read_observations
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.progress.marks import Marks
from delivery_verifier.run_directory.run_directory import RunDirectory

FIVE = (21, 22, 23, 24, 25)
ONE_WAY_S = 0.1
RESTARTED_SOON = {"leader.imbalance.check.interval.seconds": 3, "leader.imbalance.per.broker.percentage": 0}


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster(tmp_path_factory.mktemp("five"), FIVE, settings=RESTARTED_SOON) as cluster:
        yield cluster


@pytest.fixture
def far(tmp_path: Path) -> Iterator[SecuredCluster]:
    """Clients reach its brokers through a network of 200 ms, and the brokers reach each other at once."""
    cluster = SecuredCluster(tmp_path)
    cluster.doors = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
    with far_network({cluster.doors[each]: cluster.ports[each]["SASL"] for each in BROKERS}, ONE_WAY_S):
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def judged(
    cluster: SecuredCluster,
    spark: SparkSession,
    folder: Path,
    meanwhile: Callable[[RunDirectory, StepProgress], None] = lambda run, progress: None,
    **asked: object,
) -> tuple[RunVerdict, RunDirectory]:
    params = {"profile": "safe", "fault": "none", "records": 2500, "duration_s": 5, "rate": 500, **asked}
    cluster.grant_exactly(params)
    run = RunDirectory(folders.runs_dir() / f"unusual-{uuid.uuid4().hex[:6]}")
    properties = cluster.properties(
        bootstrap_servers=",".join(
            f"127.0.0.1:{cluster.doors.get(each, cluster.ports[each]['SASL'])}" for each in cluster.brokers
        )
    )
    progressed = lambda progress: meanwhile(run, progress)  # noqa: E731
    return direct.run(params, run.path.name, progressed, spark, cluster.access(folder, properties)), run


def why(verdict: RunVerdict) -> list[str]:
    return [f"{each.arm}: {doubt.name}: {doubt.detail}" for each in verdict.arms for doubt in each.doubts]


def test_a_broker_that_comes_back_at_other_ports_is_followed(
    five: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    """Otherwise the observer would ask the old port for ever, and never see that the broker is back."""
    moved, ports, movers = list[int](), dict[str, int](), list[Thread]()

    def waits(run: RunDirectory) -> bool:
        workspace = Path(run.manifest("start_cluster").notes["workspace"])
        return any(mark.text == WAITS for mark in Marks(workspace).read())

    def move(run: RunDirectory) -> None:
        wait_until(lambda: waits(run), "the run to wait for somebody", 4 * PATIENCE_S, 0.1)
        (subject,) = run.read_scenario().subjects
        topics = five.operator.list_topics(subject.topic_name, timeout=PATIENCE_S).topics
        broker = topics[subject.topic_name].partitions[0].leader
        ports.update(five.ports[broker])
        five.processes[broker].terminate()
        five.processes[broker].wait()
        five.move(broker)
        five.launch(broker)
        moved.append(broker)

    def move_the_leader(run: RunDirectory, progress: StepProgress) -> None:
        if (progress.step, progress.state) == ("inject_fault", "running"):
            movers.append(Thread(target=move, args=(run,), name="mover"))
            movers[0].start()

    verdict, run = judged(five, kafka_spark, host_folder, move_the_leader, fault="observe", duration_s=12, records=6000)
    movers[0].join()
    injections = read_injections((run.path / "injections.json").read_bytes())
    assert [each.brokers for each in injections] == [moved], why(verdict)
    assert set(ports.values()).isdisjoint(five.ports[moved[0]].values())
    seen = read_observations((run.path / "observations.json").read_bytes())
    states = [each.state for each in seen if each.kind == "answers" and each.broker == moved[0]]
    assert (states[0], states[-1]) == ("answers", "answers") and "refuses" in states, states
    assert injections[0].healed_at_us is not None
    assert (verdict.verdict, verdict.green) == ("HELD", True), why(verdict)


def test_with_one_of_five_brokers_dead_before_the_run_the_others_carry_it(
    five: SecuredCluster, kafka_spark: SparkSession, host_folder: Path
) -> None:
    five.processes[FIVE[1]].kill()
    five.processes[FIVE[1]].wait()
    is_out = lambda: FIVE[1] not in five.operator.list_topics(timeout=PATIENCE_S).brokers  # noqa: E731
    wait_until(is_out, "the others to miss the dead broker", 2 * PATIENCE_S, 0.2)
    verdict, run = judged(five, kafka_spark, host_folder)
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0), why(verdict)
    external = run.read_scenario().cluster.external
    assert external is not None and FIVE[1] not in external.brokers
    names = {*five.operator.list_topics(timeout=PATIENCE_S).topics}
    assert not [name for name in names if name.startswith("kdv-")]


@pytest.mark.parametrize("profile", ["safe", "transactional"])
def test_a_run_on_a_far_cluster_is_held(
    far: SecuredCluster, kafka_spark: SparkSession, host_folder: Path, profile: str
) -> None:
    verdict, _ = judged(far, kafka_spark, host_folder, profile=profile)
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0), why(verdict)
    assert arm(verdict, profile).tally["reported"] >= 2500
