"""The outcomes of attempts and of transactions. An outcome is what the client was told."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of an attempt: what the client was told about the attempt."""

    ACKED = "ACKED"
    """A broker acknowledged the record."""
    SENT = "SENT"
    """With acks=0, the client handed the record to the socket, and asked for no acknowledgement."""
    FAILED = "FAILED"
    """The record was certainly not written. The only proof of this is that the client refused the record and never
    queued it (docs/adr/0004)."""
    INDETERMINATE = "INDETERMINATE"
    """Nobody can know whether the record was written, e.g. after a timeout, a lost connection or a killed producer."""


class TransactionOutcome(StrEnum):
    """The outcome of a transaction: what the client was told about the transaction.

    Beside this outcome, each attempt in the transaction has an outcome of its own.
    """

    COMMITTED = "COMMITTED"
    """The call commit_transaction succeeded."""
    ABORTED = "ABORTED"
    """The call abort_transaction succeeded."""
    INDETERMINATE = "INDETERMINATE"
    """Neither commit_transaction nor abort_transaction is known to have succeeded. So nobody can know how the
    transaction ended."""


REPORTED = (Outcome.ACKED, Outcome.SENT)
"""The outcomes with which an attempt counts as reported: the client said that the record was delivered or sent."""
