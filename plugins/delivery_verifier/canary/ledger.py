"""The canary's ledger: the rows about the attempts of producer 0, with the outcomes that the canary claims for them.

No process runs as producer 0. The step `settle` writes its records.
"""

from __future__ import annotations

import pyarrow as pa

from delivery_verifier.canary.layout import NOWHERE, CanaryLayout
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory import ledger


def ledger_table(scenario: Scenario, layout: CanaryLayout, offsets: list[int]) -> pa.Table:
    """Returns the canary's ledger as a table with the schema of every ledger (`ledger.SCHEMA`).

    `layout` has the attempts that the ledger must list. `offsets[i]` is the offset of `layout.values[i]` in the log.
    """
    now = now_us()
    rows = [
        {
            "arm": scenario.canary.name,
            "producer": 0,
            "session": 0,
            "sequence": row.sequence,
            "attempt": row.attempt,
            "partition": row.partition,
            "partition_sequence": row.sequence,
            "outcome": str(row.outcome),
            "offset": _offset(row.acked_at, offsets),
            "sent_at": now,
            "settled_at": now,
            "error": None,
            "transaction": row.transaction,
            "transaction_outcome": row.transaction_outcome,
            "made_by": "client",
        }
        for row in layout.rows
    ]
    return pa.Table.from_pylist(rows, schema=ledger.SCHEMA)


def _offset(acked_at: int | None, offsets: list[int]) -> int | None:
    """Returns the acknowledged offset of an attempt, or None if `acked_at` is None.

    If `acked_at` is NOWHERE or greater, it is itself the offset. Otherwise it is an index, and `offsets[acked_at]` is
    the offset.
    """
    if acked_at is None or acked_at >= NOWHERE:
        return acked_at
    return offsets[acked_at]
