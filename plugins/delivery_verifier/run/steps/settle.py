"""The step settle: waits until all replicas are in sync, writes the canary, takes the snapshot (`run.snapshot`), and
reads every replica up to the snapshot's end (`run.replicas`).

The canary is a topic with known anomalies of every kind. A run is INCONCLUSIVE if it does not report exactly these
anomalies. The snapshot says where each partition ends.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.observer import OBSERVATIONS
from delivery_verifier.faults.actions import heal
from delivery_verifier.host.optional import optional
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.judgement import canary
from delivery_verifier.load.forgetful import send_and_forget
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.history import Observation
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run.acked_writer import AckedWriter
from delivery_verifier.run.applications import drain_applications
from delivery_verifier.run.canary_effects import apply_canary
from delivery_verifier.run.early_reading import EarlyReading
from delivery_verifier.run.outputs import VisibleRecords
from delivery_verifier.run.sealing import seal_ledgers
from delivery_verifier.run.snapshot import DEADLINE_S, take_snapshot
from delivery_verifier.run.unreadable import with_unreadable
from delivery_verifier.run.witness import write_witness
from delivery_verifier.store import ledger
from delivery_verifier.store.run_directory import RunDirectory, StepOutput

UNWATCHED_S = 30.0
"""How long the keeper may take to answer that its observer watches no topic any more, in seconds."""


def settle(run_dir: Path) -> None:
    """Ends all faults, waits until all replicas are in sync, writes the canary's records, takes the snapshot, lets the
    applications (if any) finish, and compares the replicas.

    The step writes these files:

    * the canary's ledgers
    * offsets.json: the snapshot. It also names the offsets that cannot be read, because bytes on the leader's disk have
      changed. If a partition was not searched completely for such offsets, a note in the step's manifest names it.
    * witness/: what the brokers keep of the groups of the applications, and of their output topics.
    * replicas.parquet. If a replica differs from its leader, or cannot be read, the verdict cannot be HELD.
    * observations.json: all that the cluster's observer saw (changes of leaders, of in-sync replicas and of brokers'
      processes), and the observer's own heartbeats.

    Raises TimeoutError if replicas stay out of sync or records still arrive, and StepFailed if the verifier's own
    records are not written as planned. Raises ProducerDied if the canary's producer process fails, MemberDied if a
    member of an application does, and ValueError if a topic's settings let brokers remove records.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("settle")
    run.require("produce", "inject_fault")
    cluster = Cluster.of_run(run)
    names = [*(arm.topic_name for arm in scenario.arms), *topics.output_topics(scenario)]
    with (
        run.writing("settle") as output,
        lease.renewed(cluster.socket),
        ThreadPoolExecutor(1, "forgetful") as pool,
    ):
        # This load has a broker of its own, so it runs beside what waits for the cluster.
        forgetful = pool.submit(send_and_forget, scenario, cluster.workspace / "canary", canary.FORGOTTEN)
        _end_faults(cluster, names)
        writer = AckedWriter(cluster.connection)
        layout, offsets = _plant_canary(scenario, writer, output)
        early = EarlyReading(cluster)
        # What applications do takes minutes. An early reading would know nothing of the replicas after that.
        snapshot = take_snapshot(scenario, cluster, writer, None if scenario.applied else early.begin)
        seal_ledgers([forgetful.result()], output)
        connection, folder = cluster.load_connection.client_properties(), cluster.workspace / "canary-effects"
        apply_canary(scenario, layout, offsets, snapshot, folder, connection, output, VisibleRecords(cluster))
        drain_applications(scenario, cluster, snapshot, output)
        write_witness(scenario, cluster, output, run.manifest("produce").started_at_us)
        _compare_replicas(cluster, snapshot, early, output)
        output.write_json("observations.json", list(_observations(cluster)))
    # Nothing reads what would be observed from now on, and the reconciliation needs the processor.
    optional("the end of the observer's work", lambda: cluster.agent.watch([]), UNWATCHED_S)


def _compare_replicas(cluster: Cluster, snapshot: Offsets, early: EarlyReading, output: StepOutput) -> None:
    """Writes replicas.parquet, and offsets.json, which also names the offsets that cannot be read."""
    reading = early.result(snapshot.partitions)
    partitions, unseen = with_unreadable(cluster, snapshot.partitions, reading.table, reading.end_s)
    output.notes |= unseen
    output.counts |= {"replicas_ms": reading.took_ms, "replicas_early": int(reading.early)}
    output.write_table("replicas", reading.table)
    output.write_json("offsets.json", msgspec.structs.replace(snapshot, partitions=partitions))


def _end_faults(cluster: Cluster, names: list[str]) -> None:
    """Ends all faults, and waits until all replicas of the topics `names` are in sync. Raises TimeoutError if they stay
    out of sync, and ValueError if a topic's settings let brokers remove records."""
    heal(cluster)
    wait_until(
        lambda: cluster.isr_full(names),
        "all replicas to be in sync before the snapshot",
        DEADLINE_S,
        detail=lambda: cluster.out_of_sync(names),
    )
    topics.check_whole_log(cluster.connection, names)


def _plant_canary(scenario: Scenario, writer: AckedWriter, output: StepOutput) -> tuple[canary.CanaryLayout, list[int]]:
    """Writes the records of the canary, a topic with known anomalies. Adds the canary's ledger to the output.

    Returns the layout (the plan) of the canary, and the offsets of the records.

    Raises StepFailed if the records are not in the log in the planned order.
    """
    arm, plan = scenario.canary, canary.lay_out(scenario)
    values = [(arm.topic_name, partition, value) for partition, value in plan.values]
    plain = len(values) - sum(count for count, _ in plan.transactions)
    offsets = writer.write(values[:plain])
    if plan.transactions:
        offsets += _write_in_transactions(writer.connection, values[plain:], plan.transactions)
    offsets_by_partition = defaultdict[int, list[int]](list)
    for (partition, _), offset in zip(plan.values, offsets, strict=True):
        offsets_by_partition[partition].append(offset)
    if any(written != sorted(written) for written in offsets_by_partition.values()):
        raise StepFailed("the canary's records were not written in the order in which they were planned")
    (output.staging / "ledger").mkdir()
    table = canary.ledger_table(scenario, plan, offsets)
    pq.write_table(table, output.staging / "ledger" / "canary.parquet")
    output.counts[f"announced/{arm.name}/0/0"] = output.counts[f"attempted/{arm.name}/0/0"] = table.num_rows
    for outcome in Outcome:
        output.counts[ledger.outcomes_key(outcome, f"{arm.name}/0/0")] = plan.counts[outcome.value.lower()]
    return plan, offsets


def _write_in_transactions(
    connection: Connection, values: list[tuple[str, int, bytes]], transactions: list[tuple[int, bool]]
) -> list[int]:
    """Writes `values` in transactions, and returns the offsets of the values.

    A value is (topic, partition, bytes). `transactions` describes each transaction: how many values it has, and whether
    to commit it.

    Raises KafkaException if a transaction cannot be begun or ended, and StepFailed if a value is not acknowledged.
    """
    writer, offsets = AckedWriter(connection, {"transactional.id": "kdv-canary"}), list[int]()
    writer.client.init_transactions(DEADLINE_S)
    for count, committed in transactions:
        writer.client.begin_transaction()
        offsets += writer.write(values[len(offsets) : len(offsets) + count])
        if committed:
            writer.client.commit_transaction(DEADLINE_S)
        else:
            writer.client.abort_transaction(DEADLINE_S)
    return offsets


def _observations(cluster: Cluster) -> list[Observation]:
    """Returns everything that the cluster's observer has recorded so far, in the order in which the observer saw it."""
    lines = (cluster.workspace / OBSERVATIONS).read_bytes()
    written = lines[: lines.rfind(b"\n") + 1]  # the observer may be writing the next line
    return msgspec.json.Decoder(Observation).decode_lines(written)
