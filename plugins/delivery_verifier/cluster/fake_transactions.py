"""The answers of a cluster in memory to questions about transactions: none is open, because it has no clients."""

from __future__ import annotations

from collections.abc import Sequence

from delivery_verifier.cluster.protocol.transactions import ActiveProducer, TransactionState


class NoTransactions:
    """Implements the requests of `BrokerRequests` about transactions. A broker that does not run does not answer."""

    def _require_running(self, broker: int) -> None:
        raise NotImplementedError

    def open_transactions(self, broker: int, names: Sequence[str]) -> dict[str, int]:
        """Returns an empty dictionary. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {}

    def active_producers(self, broker: int, topic: str, partition: int) -> list[ActiveProducer]:
        """Returns an empty list. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return []

    def transactions_of(self, broker: int, producer_ids: Sequence[int]) -> dict[int, TransactionState]:
        """Returns an empty dictionary. Raises OSError if `broker` does not run."""
        self._require_running(broker)
        return {}
