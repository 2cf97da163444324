"""Outcomes: what the client was told about an attempt, and about a transaction."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """What the client was told about one attempt."""

    ACKED = "ACKED"
    """A broker acknowledged it."""
    SENT = "SENT"
    """acks=0: handed to the socket; nobody asked for an acknowledgement."""
    FAILED = "FAILED"
    """Certainly not written. Needs proof: the client refused it, and never queued it (docs/adr/0004)."""
    INDETERMINATE = "INDETERMINATE"
    """Nobody can know: timed out, connection lost, producer killed."""


class TransactionOutcome(StrEnum):
    """What the client was told about one transaction, beside the outcomes of its attempts."""

    COMMITTED = "COMMITTED"
    """commit_transaction succeeded."""
    ABORTED = "ABORTED"
    """abort_transaction succeeded."""
    INDETERMINATE = "INDETERMINATE"
    """Nobody can know: neither call succeeded."""


REPORTED = (Outcome.ACKED, Outcome.SENT)
