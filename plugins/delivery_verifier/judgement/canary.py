"""The canary: known anomalies of every kind, really written by `settle`, which the reconciliation must report exactly.

If it does not, the checker is broken and no verdict may be given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from delivery_verifier.model import record
from delivery_verifier.model.anomalies import Outcome, TransactionOutcome, subset
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.store import ledger

PER_KIND = 3
HEALTHY = 20

EXPECTED: dict[str, int] = {
    "attempted": 60,
    "acked": 48,
    "sent": 1,
    "failed": 3,
    "indeterminate": 8,
    "reported": 49,
    "found": 45,
    "lost": 4,
    "resolved_present": 5,
    "resolved_absent": 3,
    "resolved_late": 1,
    "log_records": 63,
    "first_copies": 50,
    "extra_copies": 4,
    "phantoms": 6,
    "unattributed": 3,
    "corrupted": 6,
    "phantom": 6,
    "duplicated": 4,
    "resent": 8,
    "misplaced": 3,
    "reordered": 5,
    "also_resent": 0,
    "also_misplaced": 1,
    "also_reordered": 1,
    "aborted_visible": 0,
    "torn": 0,
    "also_aborted_visible": 0,
    "also_torn": 0,
}
"""What the canary's books must say, column by column, over all partitions. A change here is a change of meaning.

Six phantoms: three never attempted, three FAILED. Six corrupted: three at an acknowledged offset, three
unattributed. Eight resent: two attempts each of four sequences. Of five reordered, one is only seen by who remembers
more than the record before it; one more is hidden by a duplicate, as one misplaced is by a resend."""

IN_TRANSACTIONS: dict[str, int] = subset(
    "a kind that is not named is planted outside of transactions only",
    {
        "attempted": 20,
        "acked": 19,
        "indeterminate": 1,
        "reported": 19,
        "found": 18,
        "lost": 1,
        "resolved_absent": 1,
        "log_records": 19,
        "first_copies": 18,
        "extra_copies": 1,
        "corrupted": 1,
        "duplicated": 1,
        "aborted_visible": 3,
        "torn": 5,
        "also_aborted_visible": 1,
        "also_torn": 1,
    },
)
"""What comes on top where an arm of the run writes transactions (`_in_transactions`)."""


def expected(scenario: Scenario) -> dict[str, int]:
    """What the canary's books must say in a run of `scenario`."""
    return {
        name: count + IN_TRANSACTIONS.get(name, 0) * bool(scenario.transactional) for name, count in EXPECTED.items()
    }


@dataclass
class CanaryLayout:
    """What to write, (partition, value) in log order, and ledger rows that name a value by its place.

    The last values are written in transactions: of each the number of its values, and whether it is committed.
    """

    values: list[tuple[int, bytes]] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)
    transactions: list[tuple[int, bool]] = field(default_factory=list)


class _Planter:
    """Writes values and claims outcomes for them, sequence by sequence, in one partition at a time."""

    def __init__(self, scenario: Scenario) -> None:
        self.plan, self.sequence, self.partition = CanaryLayout(), 0, 0
        self.transaction: tuple[str, TransactionOutcome] | None = None
        self._scenario = scenario

    def write(self, sequence: int, attempt: int = 0) -> int:
        """Plans a sound record; returns its place."""
        return self.write_bytes(self.value(sequence, attempt))

    def write_bytes(self, value: bytes) -> int:
        """Plans any value; returns its place."""
        self.plan.values.append((self.partition, value))
        return len(self.plan.values) - 1

    def value(self, sequence: int, attempt: int = 0) -> bytes:
        """The record of an attempt of the canary's one producer."""
        made = self._scenario
        return record.encode(
            made.run_token, made.canary.ordinal, 0, 0, sequence, attempt, sequence, made.load.payload_bytes
        )

    def claim(self, sequence: int, outcome: Outcome, at: int | None = None, attempt: int = 0) -> None:
        """Plans a ledger row; `at` is the place of the value that was acknowledged."""
        name, ended = self.transaction or (None, None)
        self.plan.rows.append(
            {
                "sequence": sequence,
                "attempt": attempt,
                "outcome": outcome,
                "at": at,
                "partition": self.partition,
                "transaction": name,
                "transaction_outcome": ended,
            }
        )

    def acked(self, sequence: int) -> None:
        """A healthy record: written, and acknowledged where it stands."""
        self.claim(sequence, Outcome.ACKED, self.write(sequence))


def lay_out(scenario: Scenario) -> CanaryLayout:
    """The canary's records and ledger rows.

    Single kinds stand in partition 0, combined ones in the next, where there is one.
    """
    planter = _Planter(scenario)
    kinds = (_lost, _duplicated, _phantom, _corrupted, _misplaced, _resent, _absent)
    for plant in (*[_Planter.acked] * HEALTHY, *(kind for kind in kinds for _ in range(PER_KIND))):
        plant(planter, planter.sequence)
        planter.sequence += 1
    for _ in range(PER_KIND):  # the earlier one is written after the later one
        planter.acked(planter.sequence + 1)
        planter.acked(planter.sequence)
        planter.sequence += 2
    planter.partition = 1 % scenario.load.partitions
    _combined(planter, planter.sequence)
    if scenario.transactional:
        planter.sequence += 9
        _in_transactions(planter)
    return planter.plan


def _lost(to: _Planter, n: int) -> None:
    to.claim(n, Outcome.ACKED, NOWHERE + n)


def _duplicated(to: _Planter, n: int) -> None:
    to.acked(n)
    to.write(n)


def _phantom(to: _Planter, n: int) -> None:
    to.write(500_000 + n)
    to.claim(n, Outcome.FAILED)
    to.write(n)


def _corrupted(to: _Planter, n: int) -> None:
    _damaged(to, n)
    to.write_bytes(b"?" * len(to.value(n)))


def _misplaced(to: _Planter, n: int) -> None:
    to.write(n)
    to.claim(n, Outcome.ACKED, NOWHERE + n)


def _resent(to: _Planter, n: int) -> None:
    to.claim(n, Outcome.INDETERMINATE)
    to.write(n)
    to.claim(n, Outcome.ACKED, to.write(n, attempt=1), attempt=1)


def _absent(to: _Planter, n: int) -> None:
    to.claim(n, Outcome.INDETERMINATE)


def _combined(to: _Planter, n: int) -> None:
    """What a careless detector overlooks."""
    for late in (n + 2, n, n + 1):  # n + 1 follows a lower one, and is late all the same
        to.acked(late)
    to.acked(n + 4)
    _duplicated(to, n + 3)  # late, and duplicated: the one must not hide the other
    to.claim(n + 5, Outcome.INDETERMINATE)
    to.write(n + 5)
    to.write(n + 5, attempt=1)  # resent, and not where it was acknowledged
    to.claim(n + 5, Outcome.ACKED, NOWHERE + n, attempt=1)
    to.acked(n + 7)
    to.claim(n + 6, Outcome.INDETERMINATE)
    to.write(n + 6)  # late, but nobody was told that it is there
    to.claim(n + 8, Outcome.SENT)


def _in_transactions(to: _Planter) -> None:
    """Two real transactions, one committed and one aborted, and a ledger that tells of eight others.

    So the log really holds what was said to be aborted and is visible, and what was said to be committed and is not.
    """
    committed, aborted, unknown = TransactionOutcome
    before = len(to.plan.values)
    for name, ended, plant in (
        *[("visible", aborted, _Planter.acked)] * PER_KIND,
        *[("healthy", committed, _Planter.acked)] * PER_KIND,
        ("healthy", committed, _damaged),
        ("split", unknown, _Planter.acked),
        ("twice", aborted, _duplicated),
    ):
        _plant_in(to, name, ended, plant)
    written = len(to.plan.values)
    for name, ended, plant in (
        *[("torn", committed, _Planter.acked)] * PER_KIND,
        *[("given up", aborted, _Planter.acked)] * PER_KIND,
        ("split", unknown, _Planter.acked),
        *[("nobody knows", unknown, _Planter.acked)] * 2,
    ):
        _plant_in(to, name, ended, plant)
    to.plan.transactions = [(written - before, True), (len(to.plan.values) - written, False)]
    _plant_in(to, "split", unknown, _absent)
    _plant_in(to, "lost", committed, _lost)


def _plant_in(to: _Planter, name: str, ended: TransactionOutcome, plant: Callable[[_Planter, int], None]) -> None:
    to.transaction = name, ended
    plant(to, to.sequence)
    to.sequence += 1


def _damaged(to: _Planter, n: int) -> None:
    broken = to.value(n)
    to.claim(n, Outcome.ACKED, to.write_bytes(broken[:-1] + (b"0" if broken[-1:] != b"0" else b"1")))


NOWHERE = 1_000_000_000
"""Offsets from here on hold nothing."""


def ledger_table(scenario: Scenario, made: CanaryLayout, offsets: list[int]) -> pa.Table:
    """The canary's ledger. `offsets[i]` is where `made.values[i]` really stands. Schema: `ledger.SCHEMA`."""
    now = now_us()
    rows = [
        {
            "arm": scenario.canary.name,
            "producer": 0,
            "session": 0,
            "sequence": row["sequence"],
            "attempt": row["attempt"],
            "partition": row["partition"],
            "partition_sequence": row["sequence"],
            "outcome": str(row["outcome"]),
            "offset": _offset(row["at"], offsets),
            "sent_at": now,
            "settled_at": now,
            "error": None,
            "transaction": row["transaction"],
            "transaction_outcome": row["transaction_outcome"],
            "made_by": "client",
        }
        for row in made.rows
    ]
    return pa.Table.from_pylist(rows, schema=ledger.SCHEMA)


def _offset(at: object, offsets: list[int]) -> int | None:
    if not isinstance(at, int):
        return None
    return at if at >= NOWHERE else offsets[at]
