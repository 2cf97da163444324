"""settle: waits until the cluster is whole, plants the canary, and takes the snapshot between two markers.

The snapshot of a partition ends at the first of two adjacent acks=all markers that were written at least a second
apart: the marker's acknowledgement proves that the high watermark passed everything before it, and adjacency that
nothing came in between.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.actions import heal
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.judgement import canary
from delivery_verifier.model.history import Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run.snapshot import DEADLINE_S, _snapshot, _Writer
from delivery_verifier.store.run_directory import RunDirectory, StepOutput


def settle(run_dir: Path) -> None:
    """Heals what is broken, writes the canary, and publishes offsets.json and observations.json."""
    run = RunDirectory(run_dir)
    scenario = run.scenario
    scenario.fail_if_asked("settle")
    run.require("produce", "inject_fault")
    cluster = Cluster.of(run)
    names = [arm.topic_name for arm in scenario.arms]
    with run.writing("settle") as output, lease.renewed(cluster.socket):
        heal(cluster)
        wait_until(
            lambda: cluster.isr_full(names),
            "all replicas to be in sync before the snapshot",
            DEADLINE_S,
            detail=lambda: cluster.out_of_sync(names),
        )
        topics.check_whole_log(cluster.connection, names)
        writer = _Writer(cluster.connection)
        _plant_canary(scenario, writer, output)
        output.write_json("offsets.json", _snapshot(scenario, cluster, writer))
        output.write_json("observations.json", list(_observations(cluster)))


def _plant_canary(scenario: Scenario, writer: _Writer, output: StepOutput) -> None:
    arm, made = scenario.canary, canary.lay_out(scenario)
    values = [(arm.topic_name, partition, value) for partition, value in made.values]
    plain = len(values) - sum(count for count, _ in made.transactions)
    offsets = writer.write(values[:plain])
    if made.transactions:
        offsets += _in_transactions(writer.connection, values[plain:], made.transactions)
    places = [(partition, offset) for (partition, _), offset in zip(made.values, offsets, strict=True)]
    if any(places_of != sorted(places_of) for places_of in _by_partition(places)):
        raise RuntimeError("the canary's records were not written in the order in which they were planned")
    (output.staging / "ledger").mkdir()
    table = canary.ledger_table(scenario, made, offsets)
    pq.write_table(table, output.staging / "ledger" / "canary.parquet")
    output.counts[f"announced/{arm.name}/0/0"] = output.counts[f"attempted/{arm.name}/0/0"] = table.num_rows


def _in_transactions(
    connection: Connection, values: list[tuple[str, int, bytes]], transactions: list[tuple[int, bool]]
) -> list[int]:
    """Writes `values` in transactions of so many each, committed or aborted; returns their offsets. Raises
    KafkaException."""
    writer, offsets = _Writer(connection, {"transactional.id": "kdv-canary"}), list[int]()
    writer.client.init_transactions(DEADLINE_S)
    for count, committed in transactions:
        writer.client.begin_transaction()
        offsets += writer.write(values[len(offsets) : len(offsets) + count])
        end = writer.client.commit_transaction if committed else writer.client.abort_transaction
        end(DEADLINE_S)
    return offsets


def _by_partition(places: list[tuple[int, int]]) -> list[list[int]]:
    """Offsets in the order of writing, per partition."""
    return [[offset for at, offset in places if at == partition] for partition in {at for at, _ in places}]


def _observations(cluster: Cluster) -> list[Observation]:
    import msgspec

    file = cluster.workspace / "observations.jsonl"
    return msgspec.json.Decoder(Observation).decode_lines(file.read_bytes())
