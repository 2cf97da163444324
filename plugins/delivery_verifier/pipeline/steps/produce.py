"""The step produce: sends the load of all arms at the same time.

Before the load, every producer sends a warm-up, which is a few records to every partition. Load and faults begin only
when all replicas have the warm-up. The load ends when three conditions hold: the planned number of records is sent, the
fault is healed, and the time for recovery is over. Until then, the producers go on beyond the planned number.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.applications.pool import MemberPool, clients_of
from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import pause, wait_until
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.model.history import now_us
from delivery_verifier.model.partition_growth import first_partitions
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.pipeline.signals import Signals
from delivery_verifier.run_directory.ledger import LOAD_BEGAN
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.settlement.sealing import seal_ledgers

INJECTOR_DEADLINE_S = 90.0
"""Seconds that the step produce waits, after the warm-up, for the parallel step inject_fault to begin."""


def produce(run_dir: Path) -> None:
    """Runs all producers to their end. Writes the producers' ledgers, and the counts that the producers made
    themselves, to the run directory.

    Also runs the members of all applications, and stops the members in an orderly way at the end. The step settle
    starts the members once more.

    Raises MemberDied if a member ends by itself, ProducerDied if a producer ends before it has sent its load,
    DeadlinePassed if the load takes too long, ClusterGone if the cluster ends, and ParallelStepFailed if inject_fault
    fails.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    cluster = Cluster.of_run(run)
    signals = Signals(cluster.workspace)
    with signals.ending("produce"), run.writing("produce") as output, lease.renewed(cluster.socket) as gone:
        scenario.fail_if_asked("produce")
        clients = {arm.client for arm in scenario.loaded} | clients_of(scenario)
        connections = {client: cluster.load_connection.properties_of(client) for client in clients}
        members = MemberPool(scenario, connections, cluster.workspace, cluster.agent.adopt)
        pool = ProducerPool(scenario, connections, cluster.workspace)
        try:
            for producer in pool.producers:
                cluster.agent.adopt(producer.process.pid)
            output.counts[LOAD_BEGAN] = _send_load(scenario, cluster, pool, members, signals, gone)
            seal_ledgers(pool.producers, output)
            output.counts["attempted"] = sum(producer.control[Word.ATTEMPTED] for producer in pool.producers)
        finally:
            members.close()
            pool.kill()


def _send_load(
    scenario: Scenario,
    cluster: Cluster,
    pool: ProducerPool,
    members: MemberPool,
    signals: Signals,
    gone: threading.Event,
) -> int:
    """Lets the producers send the warm-up (a few records per partition) and then the whole load.

    Returns the time at which the load began, in µs since the epoch. `gone` is set when the cluster has ended. Raises
    the errors that `produce` names.
    """

    def alive() -> bool:
        if gone.is_set():
            raise lease.cluster_gone("the cluster ended while the load was flowing", cluster.socket)
        pool.apply_commands(cluster.agent.adopt)
        members.apply_commands()
        return members.check() and pool.check()

    pool.wait_for(State.READY)
    members.start()
    pool.open(Gate.WARM_UP)
    pool.wait_for(State.WARM)
    _wait_until_replicated(scenario, cluster, pool)
    members.wait_applying()
    wait_until(
        lambda: alive() and signals.has_begun("inject_fault"),
        "inject_fault to be ready: it runs beside produce and needs a task slot of its own (core.parallelism)",
        INJECTOR_DEADLINE_S,
    )
    began_us = now_us()
    pool.open(Gate.GO)
    signals.begin("produce")
    wait_until(lambda: alive() and signals.has_ended("inject_fault"), "the fault plan to end", scenario.load.deadline_s)
    pause(scenario.load.recovery_s)
    pool.open(Gate.RELEASE)
    wait_until(
        lambda: alive() and all(producer.control[Word.STATE] == State.DONE for producer in pool.producers),
        "all producers to finish",
        scenario.load.deadline_s,
    )
    members.stop()
    return began_us


def _wait_until_replicated(scenario: Scenario, cluster: Cluster, pool: ProducerPool) -> None:
    """Waits until the records of the warm-up are in the logs of all replicas.

    The client's delivery reports do not prove this. For example, with acks=1 they say nothing about followers.
    """
    client = topics.admin(cluster.connection)
    names = [arm.topic_name for arm in scenario.loaded]
    partitions = [(name, partition) for name in names for partition in range(first_partitions(scenario))]
    reported: Counter[str] = Counter()
    for producer in pool.producers:
        reported[producer.arm.topic_name] += producer.control[Word.REPORTED]
    high_watermarks: dict[tuple[str, int], int] = {}

    def replicated() -> bool:
        pool.check()
        high_watermarks.update(topics.high_watermarks(client, partitions))
        return cluster.isr_full(names) and not missing(reported, high_watermarks)

    wait_until(
        replicated,
        "the warm-up records to be in the logs of all replicas",
        60,
        every_s=0.1,
        detail=lambda: f"missing: {missing(reported, high_watermarks)} {cluster.out_of_sync(names)} {pool.errors()}",
    )


def missing(reported: Mapping[str, int], high_watermarks: Mapping[tuple[str, int], int]) -> dict[str, int]:
    """Returns, for each topic, how many records of the warm-up are not below the high watermarks yet. Leaves out topics
    without missing records.

    `reported`: the number of records that the client has reported, by topic. `high_watermarks`: the high watermark of
    each (topic, partition). The warm-up sends to every partition, so an empty partition misses at least one record.
    """
    counts = {}
    for topic, count in reported.items():
        ends = [end for (name, _), end in high_watermarks.items() if name == topic]
        absent = max(count - sum(ends), ends.count(0)) if ends else max(count, 1)
        if absent:
            counts[topic] = absent
    return counts
