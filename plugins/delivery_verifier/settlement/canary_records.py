"""The canary's records: writes the planned records to the canary's topic, and the rows about them to the ledger."""

from __future__ import annotations

from collections import defaultdict

import pyarrow.parquet as pq

from delivery_verifier import canary
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.settlement.acked_writer import AckedWriter
from delivery_verifier.settlement.snapshot import DEADLINE_S
from delivery_verifier.store import ledger
from delivery_verifier.store.run_directory import StepOutput


def plant_canary(scenario: Scenario, writer: AckedWriter, output: StepOutput) -> tuple[canary.CanaryLayout, list[int]]:
    """Writes the records of the canary, a topic with known anomalies. Adds the canary's ledger to the output.

    Returns the layout (the plan) of the canary, and the offsets of the records.

    Raises StepFailed if the records are not in the log in the planned order.
    """
    arm, plan = scenario.canary, canary.lay_out(scenario)
    values = [(arm.topic_name, partition, value) for partition, value in plan.values]
    plain = len(values) - sum(count for count, _ in plan.transactions)
    offsets = writer.write(values[:plain])
    if plan.transactions:
        name = f"kdv-{scenario.run_token}-canary"
        offsets += _write_in_transactions(writer.connection, name, values[plain:], plan.transactions)
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
    connection: Connection,
    transactional_id: str,
    values: list[tuple[str, int, bytes]],
    transactions: list[tuple[int, bool]],
) -> list[int]:
    """Writes `values` in transactions, and returns the offsets of the values.

    A value is (topic, partition, bytes). `transactions` describes each transaction: how many values it has, and whether
    to commit it.

    Raises KafkaException if a transaction cannot be begun or ended, and StepFailed if a value is not acknowledged.
    """
    writer, offsets = AckedWriter(connection, {"transactional.id": transactional_id}), list[int]()
    writer.client.init_transactions(DEADLINE_S)
    for count, committed in transactions:
        writer.client.begin_transaction()
        offsets += writer.write(values[len(offsets) : len(offsets) + count])
        if committed:
            writer.client.commit_transaction(DEADLINE_S)
        else:
            writer.client.abort_transaction(DEADLINE_S)
    return offsets
