"""The anomalies: what can be wrong with a record, one definition each, in order of precedence.

Terms: an *attempt* is one application-level send (arm, producer, session, sequence, attempt number). Its
*outcome* is what the client was told. *Reported* means ACKED or SENT. A *copy* is one offset of the log that
holds the attempt; the *first copy* is the one at the lowest offset.
"""

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


class Anomaly(StrEnum):
    """Kinds in order of precedence: a record is a case of the first that applies.

    A later kind that applies as well is kept beside it (`also`), and is judged too: a permitted duplicate must
    not hide a forbidden reordering (docs/adr/0002).
    """

    CORRUPTED = "CORRUPTED"
    PHANTOM = "PHANTOM"
    LOST = "LOST"
    DUPLICATED = "DUPLICATED"
    RESENT = "RESENT"
    MISPLACED = "MISPLACED"
    REORDERED = "REORDERED"
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    TORN = "TORN"


DEFINITIONS: dict[Anomaly, str] = {
    Anomaly.CORRUPTED: "The checksum differs. If its (partition, offset) matches an acknowledgement it belongs to "
    "that attempt, which is then found; otherwise it is unattributed.",
    Anomaly.PHANTOM: "In the log, but never attempted, or attempted and FAILED.",
    Anomaly.LOST: "Reported, and at no offset of the log.",
    Anomaly.DUPLICATED: "One attempt at more than one offset, whatever its outcome.",
    Anomaly.RESENT: "One of several attempts of the same sequence that are all in the log.",
    Anomaly.MISPLACED: "Acknowledged with an offset and present, but no copy stands at that offset.",
    Anomaly.REORDERED: "A reported record whose first copy stands after the first copy of a reported record with a "
    "higher partition sequence (same arm, producer, session and partition). The late one is flagged.",
    Anomaly.ABORTED_VISIBLE: "In the committed view (read_committed), though its transaction was ABORTED.",
    Anomaly.TORN: "Of a transaction that was COMMITTED, or of which other records are in the committed view though "
    "nobody knows how it ended, and not in the committed view itself.",
}

TRANSACTIONAL = (Anomaly.ABORTED_VISIBLE, Anomaly.TORN)
"""Kinds of which only records of transactions can be cases."""

SECONDARY = (Anomaly.RESENT, Anomaly.MISPLACED, Anomaly.REORDERED, *TRANSACTIONAL)
"""Kinds that a kind of higher precedence can hide on the same attempt; counted in `also_<kind>` columns."""


def column(anomaly: Anomaly) -> str:
    """Name of the anomaly's column in the books, e.g. `lost`."""
    return anomaly.value.lower()


def also_column(anomaly: Anomaly) -> str:
    """Column that counts cases of `anomaly` which appear under a kind of higher precedence."""
    return f"also_{column(anomaly)}"
