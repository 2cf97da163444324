"""Open transactions that hold back the last stable offset of a partition. Behind this offset, a read_committed consumer
gets no record."""

from __future__ import annotations

from msgspec import Struct


class OpenTransaction(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A transaction that is open in one partition, as the leader of the partition describes it (KIP-664).

    * `first_offset`: the offset of the transaction's first record in the partition.
    * `last_at_ms`: when the producer wrote its last record to the partition, in ms since the epoch.
    * `transactional_id`, `state`: what the transaction coordinators say of the producer. Both are empty if no
      coordinator knows the producer.
    * `began_at_ms`, `timeout_ms`: when the transaction began, in ms since the epoch, and its transaction.timeout.ms.
      -1: not known.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_at_ms: int
    transactional_id: str = ""
    state: str = ""
    began_at_ms: int = -1
    timeout_ms: int = -1

    @property
    def is_ongoing(self) -> bool:
        """Whether its coordinator knows the transaction as open. If not, nobody will end the transaction by himself: it
        is a hanging transaction."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort")


class HeldBack(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What held back the last stable offset of a partition when the snapshot was taken.

    * `last_stable_offset`: this offset. It is not behind the last marker, as it would be without an open transaction.
    * `control_records`: how many control records are between this offset and the end of the snapshot.
    * `transactions`: the transactions that are open in the partition. `unknown` says why none is known.
    """

    last_stable_offset: int
    control_records: int = 0
    transactions: tuple[OpenTransaction, ...] = ()
    unknown: str = ""
