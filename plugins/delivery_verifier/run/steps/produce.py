"""produce: sends the load of all arms at once, until the floor is sent, the fault has healed and recovery has
passed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import pause, wait_until
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.publish_ledger import publish_ledger
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run.signals import Signals
from delivery_verifier.store.ledger import LOAD_BEGAN
from delivery_verifier.store.run_directory import RunDirectory, StepOutput

INJECTOR_DEADLINE_S = 90.0


def produce(run_dir: Path) -> None:
    """Runs all producers and seals their ledgers. Raises ProducerDied, DeadlinePassed, ClusterGone."""
    run = RunDirectory(run_dir)
    scenario = run.scenario
    cluster = Cluster.of(run)
    signals = Signals(cluster.workspace)
    with signals.failing("load"), run.writing("produce") as output, lease.renewed(cluster.socket) as gone:
        scenario.fail_if_asked("produce")
        crew = ProducerPool(scenario, cluster.load_connection.client_properties(), cluster.workspace)
        try:
            for member in crew.members:
                cluster.adopt(member.process.pid)
            output.counts[LOAD_BEGAN] = _drive(scenario, cluster, crew, signals, gone)
            _seal(scenario, crew, output)
        finally:
            crew.kill()


def _drive(scenario: Scenario, cluster: Cluster, crew: ProducerPool, signals: Signals, gone: threading.Event) -> int:
    """From the warm-up until all producers are done. Returns when the load proper began (wall time, µs)."""

    def alive() -> bool:
        if gone.is_set():
            raise lease.ClusterGone("the cluster ended while the load was flowing")
        crew.apply_commands(cluster.adopt)
        return crew.check()

    crew.wait_for(State.READY)
    crew.open(Gate.WARM_UP)
    crew.wait_for(State.WARM)
    _await_replicated(scenario, cluster, crew)
    wait_until(
        lambda: alive() and signals.is_set("fault"),
        "inject_fault to be ready: it runs beside produce and needs a task slot of its own (core.parallelism)",
        INJECTOR_DEADLINE_S,
    )
    began_us = now_us()
    crew.open(Gate.GO)
    signals.set("load")
    wait_until(lambda: alive() and signals.is_done("fault"), "the fault plan to end", scenario.load.deadline_s)
    pause(scenario.load.recovery_s)
    crew.open(Gate.RELEASE)
    wait_until(
        lambda: alive() and all(member.control[Word.STATE] == State.DONE for member in crew.members),
        "all producers to finish",
        scenario.load.deadline_s,
    )
    return began_us


def _await_replicated(scenario: Scenario, cluster: Cluster, crew: ProducerPool) -> None:
    """Warm-up is over when its records are in the logs of all replicas, whatever the client was told."""
    client = topics.admin(cluster.connection)
    names = [arm.topic_name for arm in scenario.loaded]
    partitions = [(name, partition) for name in names for partition in range(scenario.load.partitions)]
    sent: Counter[str] = Counter()
    for member in crew.members:
        sent[member.arm.topic_name] += member.control[Word.REPORTED]
    marks: dict[tuple[str, int], int] = {}

    def replicated() -> bool:
        marks.update(topics.high_watermarks(client, partitions))
        return cluster.isr_full(names) and not missing(sent, marks)

    wait_until(
        replicated,
        "the warm-up records to be in the logs of all replicas",
        60,
        every_s=0.1,
        detail=lambda: f"missing: {missing(sent, marks)} {cluster.out_of_sync(names)}",
    )


def missing(sent: Mapping[str, int], marks: Mapping[tuple[str, int], int]) -> dict[str, int]:
    """Records per topic that were reported and are not below the high watermarks yet; topics of which none is missing
    are left out. A partition that nothing has reached counts as at least one: every partition is warmed up."""
    found = dict.fromkeys(sent, 0)
    for topic, count in sent.items():
        ends = [end for (name, _), end in marks.items() if name == topic]
        found[topic] = max(count - sum(ends), ends.count(0), int(not ends))
    return {topic: count for topic, count in found.items() if count}


def _seal(scenario: Scenario, crew: ProducerPool, output: StepOutput) -> None:
    (output.staging / "ledger").mkdir()
    for member in crew.members:
        member.process.wait(timeout=30)
        file = output.staging / "ledger" / f"{member.name.replace('/', '-')}.parquet"
        announced = publish_ledger(
            member.folder,
            file,
            member.arm.name,
            member.spec.producer,
            member.spec.session,
            member.layout,
            member.spec.transaction_records,
        )
        output.counts[f"announced/{member.name}"] = announced
        output.counts[f"attempted/{member.name}"] = member.control[Word.ATTEMPTED]
        if member.arm.transactional_id:
            for word in (Word.BEGUN, Word.COMMITTED, Word.ABORTED):
                output.counts[f"transactions_{word.name.lower()}/{member.name}"] = member.control[word]
        output.counts[f"restarts/{member.name}"] = member.spec.life
        stderr = (member.folder / "stderr").read_text(errors="replace").strip()
        if member.process.returncode == 3:
            output.notes[f"ended_early/{member.name}"] = stderr[-500:]
    output.counts["attempted"] = sum(member.control[Word.ATTEMPTED] for member in crew.members)
