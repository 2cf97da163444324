"""Why a user application applied what is not in the log (GHOST), or applied records out of order (OVERTAKEN)."""

from __future__ import annotations

from delivery_verifier.verdict.causes.group import Group
from delivery_verifier.verdict.causes.pattern import Applied, Pattern


def ghost(case: Applied, *, of_transactions: bool) -> Pattern | None:
    """Returns the pattern of a record that was applied, and that consumers do not see in the log. `of_transactions`:
    whether the arm writes transactions, and has lost no record.

    Returns None for a record that was sent without a transaction: the log may have lost it after it was applied.
    """
    if case.sent_us is None:
        return NEVER_SENT
    return UNCOMMITTED if of_transactions else None


def _applied(group: Group, case: Applied) -> list[str]:
    return [f"{case.in_words}: {case.applied}."]


NEVER_SENT = Pattern(
    "The program wrote effects of records that were never sent.",
    _applied,
    lambda group: [
        "a program that changes the record before it writes it, e.g. its numbers",
        "effects that the program makes up or copies, e.g. test data",
    ],
)
UNCOMMITTED = Pattern(
    "The program applied records of transactions that were not committed. Consumers that read committed records never "
    "get them.",
    _applied,
    lambda group: [
        "isolation.level=read_uncommitted, which is the default of the Java client: set read_committed",
    ],
)
OVERTAKEN = Pattern(
    "The program applied records after later ones of the same partition.",
    _applied,
    lambda group: [
        "threads or asynchronous writes that work on records of one partition side by side",
        "a retry that is put behind later records",
    ],
)
