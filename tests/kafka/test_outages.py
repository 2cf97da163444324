"""Tests of outages on real brokers: a broker loses its network or its power. Each outage is proven and healed. An
outage that was bypassed does not count."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.fault_stage import FaultStage
from support.kept_clusters import Kept
from support.patience import PATIENCE_S
from support.plays import MomentMissed, played

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import lease, topics, workspaces
from delivery_verifier.cluster.embedded import disks, packet_filter
from delivery_verifier.cluster.embedded.capabilities import tried
from delivery_verifier.cluster.embedded.cluster import EmbeddedCluster
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import ActionContext, Done
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.open_injection import OpenInjection
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.act import Capability
from delivery_verifier.model.fault_plan import FaultStep, Trigger
from delivery_verifier.model.scenario import ClusterSpec, Load, Scenario

AT_ONCE = Trigger(kind="at_once")
NEEDED: tuple[Capability, ...] = ("network", "power")
SPEC = ClusterSpec(brokers=3, session_timeout_ms=1500, heartbeat_interval_ms=250, capabilities=NEEDED, elr=False)

UNAVAILABLE_HERE = [each.why for name in NEEDED if (each := tried(name)) and not each.failed]
"""Why this host has not what the tests need. A trial that failed is no such reason: then the tests run, and are red."""

pytestmark = pytest.mark.skipif(bool(UNAVAILABLE_HERE), reason="; ".join(UNAVAILABLE_HERE))


@pytest.fixture(scope="module")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """Three brokers that a test can cut off from each other, and whose power a test can switch off."""
    kept = Kept(_own_host / "ws" / uuid.uuid4().hex[:8], SPEC, None)
    try:
        with kept.cluster() as cluster:
            yield cluster
        assert not kept.workspace.exists() and not disks.mounts(kept.workspace)
    finally:
        disks.release(kept.workspace)


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Scenario:
    made = scenario("outages", profile=PROFILES["safe"], fault=FAULTS["none"], load=Load(partitions=1), records=0)
    topics.create(made, cluster.connection)
    wait_until(lambda: cluster.isr_full(names(made)), "all replicas to be in sync", PATIENCE_S)
    FaultStage(cluster, made).watch()
    return made


@pytest.fixture(autouse=True)
def _whole(cluster: Cluster, made: Scenario) -> Iterator[None]:
    yield
    heal(cluster)
    wait_until(lambda: cluster.isr_full(names(made)), "the cluster to be whole", PATIENCE_S)


def names(made: Scenario) -> list[str]:
    return [arm.topic_name for arm in made.arms]


def topic(made: Scenario) -> str:
    return made.subjects[0].topic_name


def leader(cluster: Cluster, made: Scenario) -> int:
    return cluster.partitions([topic(made)])[topic(made), 0].leader


def runner(cluster: Cluster, made: Scenario) -> FaultRunner:
    class Quiet(RunningLoad):
        def __init__(self) -> None:
            pass

    return FaultRunner(cluster, made, Quiet())


def before_heal(injection: OpenInjection) -> dict[str, Any]:
    """Returns the effects of the action that were proven just before the healing."""
    return dict(injection.proofs.process_before_heal or {})


def write(cluster: Cluster, made: Scenario, count: int, acks: str, **more: str | int) -> int:
    """Sends `count` records to partition 0. Returns how many of them were acknowledged."""
    acked: list[int | None] = []
    settings = {"bootstrap.servers": cluster.connection.bootstrap_servers, "acks": acks, "linger.ms": 5, "log_level": 0}
    producer = Producer({**settings, "message.timeout.ms": 20_000, **more})
    for number in range(count):
        producer.produce(
            topic(made),
            str(number).encode(),
            partition=0,
            on_delivery=lambda error, message: acked.append(message.offset()) if error is None else None,
        )
    producer.flush(25)
    return len(acked)


def end(cluster: Cluster, made: Scenario) -> int:
    """Returns the end offset of partition 0, as its leader reports it."""
    consumer = Consumer({"bootstrap.servers": cluster.connection.bootstrap_servers, "group.id": "g", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic(made), 0), timeout=PATIENCE_S)[1])
    finally:
        consumer.close()


def test_an_isolated_leader_goes_on_acknowledging_for_itself_and_loses_all_of_it(
    cluster: Cluster, made: Scenario
) -> None:
    victim, before, run = leader(cluster, made), end(cluster, made), runner(cluster, made)
    run._perform(FaultStep(trigger=AT_ONCE, action="isolate", target="leader"), [victim], 0)
    assert write(cluster, made, 20, "1", **{"bootstrap.servers": str(cluster.connection.address(victim))}) == 20
    wait_until(lambda: leader(cluster, made) != victim, "another broker to lead", PATIENCE_S)
    stale = cluster.partitions([topic(made)], via=victim)[topic(made), 0]
    assert stale.leader == victim and len(stale.isr) == 3
    run._perform(FaultStep(trigger=AT_ONCE, action="rejoin"), [victim], 0)
    (injection,) = run.injections.all
    assert injection.took_effect and injection.proofs.effects["leader_moved"]
    assert set(before_heal(injection)[f"broker {victim}"]) == {"controller", "replication"}
    assert cluster.agent.is_in_force("network", cluster.brokers) == {}
    wait_until(lambda: cluster.isr_full(names(made)), "the cluster to be whole", PATIENCE_S)
    assert end(cluster, made) == before


def test_an_isolation_whose_rule_was_removed_behind_our_back_took_no_effect(cluster: Cluster, made: Scenario) -> None:
    victim, run = leader(cluster, made), runner(cluster, made)
    run._perform(FaultStep(trigger=AT_ONCE, action="isolate", target="leader"), [victim], 0)
    wait_until(lambda: leader(cluster, made) != victim, "another broker to lead", PATIENCE_S)
    chain = packet_filter.Chain(chains(cluster.workspace)[0])
    chain.remove([packet_filter.FilterRule(f"{victim}.controller", controller_rule(cluster, victim))])
    run._perform(FaultStep(trigger=AT_ONCE, action="rejoin"), [victim], 0)
    (injection,) = run.injections.all
    assert injection.proofs.process and injection.proofs.effects["leader_moved"]
    assert before_heal(injection) == {} and not injection.took_effect


def controller_rule(cluster: Cluster, broker: int) -> str:
    group = packet_filter.GROUPS + broker
    return f"-m owner --gid-owner {group} -m tcp --dport {cluster.backend.layout.controller_port}"


def chains(workspace: Path) -> list[str]:
    """Returns the names of the packet filter's chains of one cluster agent, newest chain first."""
    listed = subprocess.run(["iptables", "-w", "-S"], capture_output=True, text=True, check=True).stdout
    begin = f"-N {packet_filter.PREFIX}-{workspace.name}-"
    return [line.split()[1] for line in reversed(listed.splitlines()) if line.startswith(begin)]


def test_a_broker_that_is_cut_off_from_its_clients_only_leads_on_and_took_no_effect(
    cluster: Cluster, made: Scenario
) -> None:
    played(lambda: cut_off_from_clients(cluster, made))


def cut_off_from_clients(cluster: Cluster, made: Scenario) -> None:
    """Raises MomentMissed if another broker led meanwhile, which a stall of the host can cause."""
    heal(cluster)
    wait_until(lambda: cluster.isr_full(names(made)), "the cluster to be whole", PATIENCE_S)
    before, run = cluster.partitions([topic(made)])[topic(made), 0], runner(cluster, made)
    step = FaultStep(trigger=AT_ONCE, action="isolate", target="leader", options={"links": "client"})
    run._perform(step, [before.leader], 0)
    answered, cut = (
        cluster.partitions([topic(made)], via=before.leader),
        cluster.agent.is_in_force("network", cluster.brokers),
    )
    run._perform(FaultStep(trigger=AT_ONCE, action="rejoin"), [before.leader], 0)
    now = cluster.partitions([topic(made)])[topic(made), 0]
    if now.leader_epoch != before.leader_epoch:
        raise MomentMissed(f"broker {now.leader} leads, before it was broker {before.leader}")
    assert now.leader == before.leader and answered == {} and set(cut[before.leader]) == {"client"}
    assert cluster.partitions([topic(made)], via=before.leader) and not run.injections.all[0].took_effect


def test_heal_lets_isolated_brokers_join_again(cluster: Cluster) -> None:
    ACTIONS["isolate"].do(ActionContext(cluster, [1]))
    ACTIONS["isolate"].do(ActionContext(cluster, [2], {"links": "replication"}))
    assert set(cluster.agent.is_in_force("network", cluster.brokers)) == {1, 2}
    heal(cluster)
    assert cluster.agent.is_in_force("network", cluster.brokers) == {}


def test_all_brokers_without_power_lose_what_even_acks_all_acknowledged_but_nothing_that_was_flushed(
    cluster: Cluster, made: Scenario
) -> None:
    run, brokers = runner(cluster, made), cluster.brokers
    assert write(cluster, made, 10, "all") == 10
    wait_until(lambda: cluster.isr_full(names(made)), "all replicas to be in sync", PATIENCE_S)
    before = end(cluster, made)
    run._perform(FaultStep(trigger=AT_ONCE, action="sync"), brokers, 0)
    assert write(cluster, made, 20, "all") == 20
    run._perform(FaultStep(trigger=AT_ONCE, action="power_off", proofs=()), brokers, 0)
    run._perform(FaultStep(trigger=AT_ONCE, action="start"), brokers, 0)
    (injection,) = run.injections.all
    assert injection.took_effect and before_heal(injection)["broker 1"] == "exited, its disk is off"
    assert cluster.agent.is_in_force("power", brokers) == {}
    wait_until(lambda: cluster.isr_full(names(made)), "the cluster to be whole", PATIENCE_S)
    assert end(cluster, made) == before


def test_a_killed_broker_whose_disk_has_power_is_no_loss_of_power(cluster: Cluster) -> None:
    cluster.agent.apply("process", [1], {"signal": "SIGKILL"})
    wait_until(lambda: cluster.states()[1] == "exited", "broker 1 to end", PATIENCE_S)
    assert ACTIONS["power_off"].proof(ActionContext(cluster, [1]), Done(0)) == {}


@pytest.fixture
def alone(_own_host: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Kept]]:
    """A function that starts a cluster agent of one broker, beside the cluster of this module. The broker is cut off
    from the controller and has no power. The cluster agent uses another lock than that cluster."""
    monkeypatch.setenv("KDV_LOCK", str(_own_host / "other lock"))
    made: list[Kept] = []

    def start() -> Kept:
        spec = ClusterSpec(brokers=1, capabilities=NEEDED)
        kept = Kept(_own_host / "ws" / uuid.uuid4().hex[:8], spec, None)
        made.append(kept)
        kept.answers()
        cluster = Cluster(EmbeddedCluster(kept.workspace))
        cluster.wait_up()
        ACTIONS["isolate"].do(ActionContext(cluster, [1], {"links": "controller"}))
        cluster.agent.apply("power", [1])
        assert disks.mounts(kept.workspace) and chains(kept.workspace)
        return kept

    yield start
    for kept in made:
        kept.process.kill()
        kept.process.wait()
        disks.release(kept.workspace)


def loops(kept: Kept) -> str:
    found = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in found.splitlines() if kept.workspace.name in line)


def assert_nothing_is_left(kept: Kept) -> None:
    assert not chains(kept.workspace) and not disks.mounts(kept.workspace)
    assert not loops(kept) and not kept.workspace.exists()


def test_an_agent_leaves_no_rule_no_mount_and_no_loop_device_behind(alone: Callable[[], Kept]) -> None:
    kept = alone()
    lease.call(kept.socket, "finish")
    kept.is_gone()
    assert_nothing_is_left(kept)


def test_what_a_killed_agent_left_on_the_host_goes_with_the_next_sweep(
    alone: Callable[[], Kept], cluster: Cluster
) -> None:
    ACTIONS["isolate"].do(ActionContext(cluster, [1], {"links": "replication"}))
    kept = alone()
    kept.process.kill()
    kept.process.wait()
    assert chains(kept.workspace) and disks.mounts(kept.workspace) and loops(kept)
    assert kept.workspace in workspaces.sweep()
    assert_nothing_is_left(kept)
    assert cluster.agent.is_in_force("network", [1])[1]["replication"] and disks.mounts(cluster.workspace)
