"""Open transactions that hold back the last stable offset of a partition. Behind this offset, a read_committed consumer
gets no record."""

from __future__ import annotations

from datetime import UTC, datetime

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

    @property
    def in_words(self) -> str:
        """Whose transaction it is, where and since when it is open, and what its coordinator says."""
        who = f"producer id {self.producer_id}, epoch {self.producer_epoch}"
        if self.transactional_id:
            who = f"transactional.id {self.transactional_id!r} ({who})"
        begin, said = f"open from offset {self.first_offset} on", f"its coordinator says {self.state}"
        if self.is_ongoing:
            since, limit = _time(self.began_at_ms), f"transaction.timeout.ms={self.timeout_ms}"
            return f"{who}, {begin}, since {since}; {said}, {limit}"
        said = said if self.state else "no coordinator knows it"
        last = f"last record at {_time(self.last_at_ms)}"
        return f"{who}, {begin}, {last}; {said}, so that nobody will end it (a hanging transaction, KIP-664)"


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

    @property
    def in_words(self) -> str:
        """Which transactions stay open, and where the last stable offset stands."""
        who = " and ".join(each.in_words for each in self.transactions) or f"it is not known whose ({self.unknown})"
        return f"a transaction stays open: {who}. The last stable offset stands at {self.last_stable_offset}"


def _time(at_ms: int) -> str:
    """Returns a time in UTC. `at_ms` is in ms since the epoch."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
