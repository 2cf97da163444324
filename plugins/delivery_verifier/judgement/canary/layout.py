"""The canary's layout: which records are written in which order, which outcomes its ledger claims for them, and which
counts its books must then show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from delivery_verifier.model import record
from delivery_verifier.model.outcomes import REPORTED, Outcome, TransactionOutcome
from delivery_verifier.model.scenario import Scenario

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
    transactions; of each transaction the number of its values, and whether it is committed. `counts`: what the books
    must show, column by column, over all partitions; a column that is not named must show 0.
    """

    values: list[tuple[int, bytes]] = field(default_factory=list)
    rows: list[CanaryAttempt] = field(default_factory=list)
    transactions: list[tuple[int, bool]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Planter:
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
        self.expect(log_records=1)
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

        self.expect(attempted=1, reported=int(outcome in REPORTED), **{outcome.value.lower(): 1})

    def acked(self, sequence: int) -> None:
        """Adds a healthy record: written, and acknowledged where it stands."""
        self.claim(sequence, Outcome.ACKED, self.write(sequence))
        self.expect(found=1, first_copies=1)

    def expect(self, **counts: int) -> None:
        """Adds to what the books must show, beside what `claim` and `write` add of themselves."""
        self.layout.counts.update(counts)
