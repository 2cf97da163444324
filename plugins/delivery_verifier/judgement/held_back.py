"""Doubts about transactions that stay open in a partition: the last stable offset stands still, and behind it a
read_committed consumer gets nothing.

This is a finding about the cluster, or about a stranger's producer. It is a coverage doubt, which forbids HELD, but not
VIOLATED: the raw view is judged as ever, and the committed view up to the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from delivery_verifier.judgement.evidence import ArmEvidence
from delivery_verifier.model.held_back import HeldBack, OpenTransaction
from delivery_verifier.model.snapshot import PartitionSnapshot


def open_transaction_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of a doubt for each partition of the arm that an open transaction holds back."""
    for part in arm.run.offsets.partitions:
        if part.arm == arm.name and part.held_back is not None:
            yield "open_transaction", f"{arm.name}/{part.partition}: {_detail(part, part.held_back)}"


def _detail(part: PartitionSnapshot, held: HeldBack) -> str:
    who = " and ".join(map(_in_words, held.transactions)) or f"it is not known whose ({held.unknown})"
    behind = part.end - part.visible_end
    return (
        f"a transaction stays open: {who}. The last stable offset stands at {held.last_stable_offset}. A consumer with "
        f"read_committed gets none of the {behind:,} offsets from there to the end of the snapshot. What it would see "
        "of them was not judged"
    )


def _in_words(transaction: OpenTransaction) -> str:
    """Returns in words whose transaction it is, where and since when it is open, and what its coordinator says."""
    who = f"producer id {transaction.producer_id}, epoch {transaction.producer_epoch}"
    if transaction.transactional_id:
        who = f"transactional.id {transaction.transactional_id!r} ({who})"
    since = f"open from offset {transaction.first_offset} on"
    if transaction.is_ongoing:
        limit = f"transaction.timeout.ms={transaction.timeout_ms}"
        return (
            f"{who}, {since}, since {_time(transaction.began_at_ms)}; its coordinator says {transaction.state}, {limit}"
        )
    said = f"its coordinator says {transaction.state}" if transaction.state else "no coordinator knows it"
    last = f"last record at {_time(transaction.last_at_ms)}"
    return f"{who}, {since}, {last}; {said}, so that nobody will end it (a hanging transaction, KIP-664)"


def _time(at_ms: int) -> str:
    """Returns a time in UTC. `at_ms` is in ms since the epoch."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
