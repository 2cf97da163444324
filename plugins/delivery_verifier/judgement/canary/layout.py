"""The canary's layout: which records are written in which order, and which outcomes its ledger claims for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from delivery_verifier.model import record
from delivery_verifier.model.anomalies import Outcome, TransactionOutcome
from delivery_verifier.model.scenario import Scenario

PER_KIND = 3
HEALTHY = 20
COMBINED = 9
"""How many sequences the combined kinds take."""
NOWHERE = 1_000_000_000
"""Offsets from here on hold nothing."""


@dataclass(frozen=True, slots=True)
class CanaryAttempt:
    """A row of the canary's ledger.

    `acked_at` is the index in `CanaryLayout.values` of the record that was acknowledged; from NOWHERE on, an offset
    that holds nothing; None if no offset was acknowledged.
    """

    sequence: int
    attempt: int
    outcome: Outcome
    acked_at: int | None
    partition: int
    transaction: str | None
    transaction_outcome: TransactionOutcome | None


@dataclass
class CanaryLayout:
    """What to write.

    `values`: (partition, value) in log order. `rows`: the ledger. `transactions`: the last values are written in
    transactions; of each transaction the number of its values, and whether it is committed.
    """

    values: list[tuple[int, bytes]] = field(default_factory=list)
    rows: list[CanaryAttempt] = field(default_factory=list)
    transactions: list[tuple[int, bool]] = field(default_factory=list)


class _Planter:
    """Writes values and claims outcomes for them, sequence by sequence, in one partition at a time."""

    def __init__(self, scenario: Scenario) -> None:
        self.layout, self.sequence, self.partition = CanaryLayout(), 0, 0
        self.transaction: tuple[str, TransactionOutcome] | None = None
        self._scenario = scenario

    def write(self, sequence: int, attempt: int = 0) -> int:
        """Adds a sound record; returns its index in `values`."""
        return self.write_bytes(self.value(sequence, attempt))

    def write_bytes(self, value: bytes) -> int:
        """Adds any value; returns its index in `values`."""
        self.layout.values.append((self.partition, value))
        return len(self.layout.values) - 1

    def value(self, sequence: int, attempt: int = 0) -> bytes:
        """The record of an attempt of the canary's one producer."""
        scenario = self._scenario
        return record.encode(
            scenario.run_token,
            scenario.canary.ordinal,
            0,
            0,
            sequence,
            attempt,
            sequence,
            scenario.load.payload_bytes,
        )

    def claim(self, sequence: int, outcome: Outcome, acked_at: int | None = None, attempt: int = 0) -> None:
        """Adds a ledger row. `acked_at`: see CanaryAttempt."""
        name, transaction_outcome = self.transaction or (None, None)
        self.layout.rows.append(
            CanaryAttempt(sequence, attempt, outcome, acked_at, self.partition, name, transaction_outcome)
        )

    def acked(self, sequence: int) -> None:
        """Adds a healthy record: written, and acknowledged where it stands."""
        self.claim(sequence, Outcome.ACKED, self.write(sequence))


_Plant = Callable[[_Planter, int], None]
"""Plants one case, for the given sequence."""


def lay_out(scenario: Scenario) -> CanaryLayout:
    """The canary's records and ledger rows.

    Single kinds stand in partition 0, combined kinds in partition 1, if the topics have more than one.
    """
    planter = _Planter(scenario)
    kinds = (_lost, _duplicated, _phantom, _corrupted, _misplaced, _resent, _absent)
    for plant in (*[_Planter.acked] * HEALTHY, *(kind for kind in kinds for _ in range(PER_KIND))):
        plant(planter, planter.sequence)
        planter.sequence += 1
    for _ in range(PER_KIND):  # reordered: the lower sequence is written after the higher one
        planter.acked(planter.sequence + 1)
        planter.acked(planter.sequence)
        planter.sequence += 2
    planter.partition = 1 % scenario.load.partitions
    _combined(planter, planter.sequence)
    if scenario.transactional:
        planter.sequence += COMBINED
        _in_transactions(planter)
    return planter.layout


def _lost(planter: _Planter, sequence: int) -> None:
    planter.claim(sequence, Outcome.ACKED, NOWHERE + sequence)


def _duplicated(planter: _Planter, sequence: int) -> None:
    planter.acked(sequence)
    planter.write(sequence)


def _phantom(planter: _Planter, sequence: int) -> None:
    planter.write(500_000 + sequence)  # never attempted
    planter.claim(sequence, Outcome.FAILED)
    planter.write(sequence)


def _corrupted(planter: _Planter, sequence: int) -> None:
    _damaged(planter, sequence)
    planter.write_bytes(b"?" * len(planter.value(sequence)))  # unattributed


def _misplaced(planter: _Planter, sequence: int) -> None:
    planter.write(sequence)
    planter.claim(sequence, Outcome.ACKED, NOWHERE + sequence)


def _resent(planter: _Planter, sequence: int) -> None:
    planter.claim(sequence, Outcome.INDETERMINATE)
    planter.write(sequence)
    planter.claim(sequence, Outcome.ACKED, planter.write(sequence, attempt=1), attempt=1)


def _absent(planter: _Planter, sequence: int) -> None:
    planter.claim(sequence, Outcome.INDETERMINATE)


def _damaged(planter: _Planter, sequence: int) -> None:
    """An acknowledged record whose last byte was changed."""
    value = planter.value(sequence)
    last_byte = b"1" if value.endswith(b"0") else b"0"
    planter.claim(sequence, Outcome.ACKED, planter.write_bytes(value[:-1] + last_byte))


def _combined(planter: _Planter, first: int) -> None:
    """What a careless detector overlooks. Takes COMBINED sequences from `first` on."""
    for sequence in (first + 2, first, first + 1):  # first + 1 follows a lower sequence, and is still late
        planter.acked(sequence)
    planter.acked(first + 4)
    _duplicated(planter, first + 3)  # late and duplicated: neither must hide the other
    planter.claim(first + 5, Outcome.INDETERMINATE)
    planter.write(first + 5)
    planter.write(first + 5, attempt=1)  # resent, and not at the acknowledged offset
    planter.claim(first + 5, Outcome.ACKED, NOWHERE + first, attempt=1)
    planter.acked(first + 7)
    planter.claim(first + 6, Outcome.INDETERMINATE)
    planter.write(first + 6)  # late, but the client got no acknowledgement
    planter.claim(first + 8, Outcome.SENT)


def _in_transactions(planter: _Planter) -> None:
    """Two real transactions, one committed and one aborted, and a ledger that tells of eight others.

    So the log holds visible records of which the ledger says that they were aborted, and lacks records of which the
    ledger says that they were committed.
    """
    committed, aborted, unknown = TransactionOutcome
    values, before = planter.layout.values, len(planter.layout.values)
    _in_transaction(planter, "visible", aborted, *[_Planter.acked] * PER_KIND)
    _in_transaction(planter, "healthy", committed, *[_Planter.acked] * PER_KIND, _damaged)
    _in_transaction(planter, "split", unknown, _Planter.acked)
    _in_transaction(planter, "twice", aborted, _duplicated)
    written = len(values)
    _in_transaction(planter, "torn", committed, *[_Planter.acked] * PER_KIND)
    _in_transaction(planter, "given up", aborted, *[_Planter.acked] * PER_KIND)
    _in_transaction(planter, "split", unknown, _Planter.acked)
    _in_transaction(planter, "nobody knows", unknown, _Planter.acked, _Planter.acked)
    planter.layout.transactions = [(written - before, True), (len(values) - written, False)]
    _in_transaction(planter, "split", unknown, _absent)
    _in_transaction(planter, "lost", committed, _lost)


def _in_transaction(planter: _Planter, name: str, outcome: TransactionOutcome, *plants: _Plant) -> None:
    """Plants cases of which the ledger says that they belong to the transaction `name`, which ended with `outcome`."""
    planter.transaction = name, outcome
    for plant in plants:
        plant(planter, planter.sequence)
        planter.sequence += 1
