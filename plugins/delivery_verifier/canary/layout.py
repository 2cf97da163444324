"""The canary's layout: the records to write, the outcomes that the canary's ledger claims for these records, and the
counts that the canary's counts must then show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from delivery_verifier.model import record
from delivery_verifier.model.outcomes import REPORTED, Outcome, TransactionOutcome
from delivery_verifier.model.scenario import Arm, Scenario

NOWHERE = 1_000_000_000
"""An offset far beyond the end of the canary's log. There is no record at this offset or at any greater offset."""


@dataclass(frozen=True, slots=True)
class CanaryAttempt:
    """A row of the canary's ledger: what the ledger claims about one attempt.

    * `sequence`: the number of the record.
    * `attempt`: 0 for the first attempt, 1 if the application sends the record again, and so on.
    * `acked_at`: the offset that a broker acknowledged, according to the ledger. None: no offset. A number below
      NOWHERE is an index in `CanaryLayout.values`, and means the offset of the record with this index. Any other number
      is itself the offset, and no record stands there.
    """

    sequence: int
    attempt: int
    outcome: Outcome
    acked_at: int | None
    partition: int
    transaction: str | None
    transaction_outcome: TransactionOutcome | None


@dataclass(frozen=True, slots=True)
class CanaryEffect:
    """An effect of the canary: one application of the record `value`, which is in the partition `partition`.

    `position` says at which offset the record stands. A number below NOWHERE is an index in `CanaryLayout.values`, and
    means the offset of the record with this index. A number from NOWHERE on is itself the offset.
    """

    partition: int
    position: int
    value: bytes


@dataclass
class CanaryLayout:
    """What `settle` writes for the canary, and what the canary's counts must then show.

    * `values`: the records as (partition, value) pairs, in the order in which they are written. The records of
      transactions stand at the end.
    * `rows`: the ledger.
    * `transactions`: a pair for each transaction, in order: the number of its records, and whether it is committed.
    * `counts`: maps a column of the counts to the total that it must have over all partitions. The total of any other
      column must be 0.
    * `effects`: what an application did with the records, in order. They are used only if an arm of the run has an
      application.
    """

    values: list[tuple[int, bytes]] = field(default_factory=list)
    rows: list[CanaryAttempt] = field(default_factory=list)
    transactions: list[tuple[int, bool]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    effects: list[CanaryEffect] = field(default_factory=list)


class Planter:
    """Builds a layout: adds records, and claims outcomes for these records in the ledger.

    `has_partitions`: whether the canary has more than one partition. `other`: another arm of the run.
    `sequence` is the number of the next record. Every record and every row of the ledger that is added belongs to the
    current `partition`. If `transaction` (name and outcome) is set, the rows of the ledger also belong to it.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.layout, self.sequence, self.partition = CanaryLayout(), 0, 0
        self.transaction: tuple[str, TransactionOutcome] | None = None
        self._scenario = scenario
        self.has_partitions, self.other = scenario.load.partitions > 1, scenario.loaded[0]

    def write(self, sequence: int, attempt: int = 0) -> int:
        """Adds the undamaged record of an attempt to the log. Returns its index in `CanaryLayout.values`."""
        return self.write_bytes(self.value(sequence, attempt))

    def write_bytes(self, value: bytes) -> int:
        """Adds a value of any bytes, e.g. a damaged record, to the log. Returns its index in `CanaryLayout.values`."""
        self.layout.values.append((self.partition, value))
        self.expect(log_records=1)
        self.apply(len(self.layout.values) - 1, value)
        return len(self.layout.values) - 1

    def apply(self, position: int, value: bytes) -> None:
        """Adds one more effect of a record that was written before. (`write_bytes` has added the first effect.)
        CanaryEffect explains `position`."""
        self.layout.effects.append(CanaryEffect(self.partition, position, value))

    def elsewhere(self, value: bytes) -> int:
        """Adds `value` to the log of the next partition. Returns its index in `CanaryLayout.values`."""
        here, self.partition = self.partition, (self.partition + 1) % self._scenario.load.partitions
        index = self.write_bytes(value)
        self.partition = here
        return index

    def value(self, sequence: int, attempt: int = 0, arm: Arm | None = None) -> bytes:
        """Returns the encoded record of an attempt of the canary's producer 0. No process runs as this producer:
        `settle` writes its records. `arm`: the arm that the header names; the canary without it."""
        scenario = self._scenario
        return record.encode(
            scenario.run_token,
            (arm or scenario.canary).ordinal,
            0,
            0,
            sequence,
            attempt,
            sequence,
            scenario.load.payload_bytes,
        )

    def claim(self, sequence: int, outcome: Outcome, acked_at: int | None = None, attempt: int = 0) -> None:
        """Adds a CanaryAttempt to the ledger. The log need not hold a record of this attempt."""
        name, transaction_outcome = self.transaction or (None, None)
        self.layout.rows.append(
            CanaryAttempt(sequence, attempt, outcome, acked_at, self.partition, name, transaction_outcome)
        )

        self.expect(attempted=1, reported=int(outcome in REPORTED), **{outcome.value.lower(): 1})

    def acked(self, sequence: int) -> None:
        """Adds a healthy record. The record is in the log, and the ledger claims an acknowledgement with the record's
        true offset."""
        self.claim(sequence, Outcome.ACKED, self.write(sequence))
        self.expect(found=1, first_copies=1)

    def expect(self, **counts: int) -> None:
        """Adds `counts` to the totals that the canary's counts must show. A key is a column of the counts.

        `claim`, `write` and `write_bytes` already add the counts of their own row or record.
        """
        self.layout.counts.update(counts)
