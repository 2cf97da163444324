"""The canary: known anomalies of every kind, really written by `settle`, which the reconciliation must report exactly.

If it does not, the checker is broken and no verdict may be given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from delivery_verifier import ledger, record
from delivery_verifier.anomalies import Anomaly, Outcome
from delivery_verifier.runs import now_us
from delivery_verifier.scenario import Scenario

PER_KIND = 3
HEALTHY = 20

EXPECTED: dict[str, int] = {
    "attempted": 50, "acked": 41, "sent": 0, "failed": 3, "indeterminate": 6, "reported": 41,
    "found": 38, "lost": 3, "resolved_present": 3, "resolved_absent": 3, "resolved_late": 0,
    "log_records": 53, "first_copies": 41, "extra_copies": 3, "phantoms": 6, "unattributed": 3,
    "corrupted": 6, "phantom": 6, "duplicated": 3, "resent": 6, "misplaced": 3, "reordered": 3,
    "also_resent": 0, "also_misplaced": 0, "also_reordered": 0,
}  # fmt: skip
"""What the canary's books must say, column by column, over all partitions. A change here is a change of meaning.

Six phantoms: three never attempted, three FAILED. Six corrupted: three at an acknowledged offset, three
unattributed. Six resent: two attempts each of three sequences."""


@dataclass
class Plan:
    """What to write and what to claim: `values` in log order, and ledger rows that name a value by its place."""

    values: list[bytes] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)


def plan(scenario: Scenario) -> Plan:
    """The canary's records (all in partition 0) and ledger rows; `at` in a row is the place of its acked value."""
    made, sequence = Plan(), 0

    def value(sequence: int, attempt: int = 0, pseq: int | None = None) -> bytes:
        where = sequence if pseq is None else pseq
        size = scenario.load.payload_bytes
        return record.encode(scenario.run_token, scenario.canary.ordinal, 0, 0, sequence, attempt, where, size)

    def write(value: bytes) -> int:
        made.values.append(value)
        return len(made.values) - 1

    def claim(sequence: int, outcome: Outcome, at: int | None = None, attempt: int = 0, pseq: int | None = None) -> None:
        made.rows.append({"sequence": sequence, "attempt": attempt, "outcome": outcome, "at": at,
                          "partition_sequence": sequence if pseq is None else pseq})  # fmt: skip

    def each(count: int, plant: Callable[[int], None]) -> None:
        nonlocal sequence
        for _ in range(count):
            plant(sequence)
            sequence += 1

    def healthy(n: int) -> None:
        claim(n, Outcome.ACKED, write(value(n)))

    def lost(n: int) -> None:
        claim(n, Outcome.ACKED, NOWHERE + n)

    def duplicated(n: int) -> None:
        claim(n, Outcome.ACKED, write(value(n)))
        write(value(n))

    def phantom(n: int) -> None:
        write(value(500_000 + n))
        claim(n, Outcome.FAILED)
        write(value(n))

    def corrupted(n: int) -> None:
        broken = value(n)
        claim(n, Outcome.ACKED, write(broken[:-1] + (b"0" if broken[-1:] != b"0" else b"1")))
        write(b"?" * len(broken))

    def misplaced(n: int) -> None:
        write(value(n))
        claim(n, Outcome.ACKED, NOWHERE + n)

    def resent(n: int) -> None:
        claim(n, Outcome.INDETERMINATE)
        write(value(n))
        claim(n, Outcome.ACKED, write(value(n, attempt=1)), attempt=1)

    def absent(n: int) -> None:
        claim(n, Outcome.INDETERMINATE)

    each(HEALTHY, healthy)
    for plant in (lost, duplicated, phantom, corrupted, misplaced, resent, absent):
        each(PER_KIND, plant)
    for _ in range(PER_KIND):  # the earlier one is written after the later one
        claim(sequence + 1, Outcome.ACKED, write(value(sequence + 1)))
        claim(sequence, Outcome.ACKED, write(value(sequence)))
        sequence += 2
    return made


NOWHERE = 1_000_000_000
"""Offsets from here on hold nothing."""


def ledger_table(scenario: Scenario, made: Plan, offsets: list[int]) -> pa.Table:
    """The canary's ledger. `offsets[i]` is where `made.values[i]` really stands. Schema: `ledger.SCHEMA`."""
    now = now_us()
    rows = [
        {
            "arm": scenario.canary.name, "producer": 0, "session": 0, "sequence": row["sequence"],
            "attempt": row["attempt"], "partition": 0, "partition_sequence": row["partition_sequence"],
            "outcome": str(row["outcome"]), "offset": _offset(row["at"], offsets), "sent_at": now,
            "settled_at": now, "error": None, "transaction": None, "transaction_outcome": None, "made_by": "client",
        }
        for row in made.rows
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ledger.SCHEMA)


def _offset(at: object, offsets: list[int]) -> int | None:
    if not isinstance(at, int):
        return None
    return at if at >= NOWHERE else offsets[at]


PLANTED = frozenset(Anomaly)
"""Kinds that the canary plants: all of them."""
