"""The counts that the canary's books must show."""

from __future__ import annotations

from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.scenario import Scenario

EXPECTED: dict[str, int] = {
    "attempted": 60,
    "acked": 48,
    "sent": 1,
    "failed": 3,
    "indeterminate": 8,
    "reported": 49,
    "found": 45,
    "lost": 4,
    "resolved_present": 5,
    "resolved_absent": 3,
    "resolved_late": 1,
    "log_records": 63,
    "first_copies": 50,
    "extra_copies": 4,
    "phantoms": 6,
    "unattributed": 3,
    "corrupted": 6,
    "phantom": 6,
    "duplicated": 4,
    "resent": 8,
    "misplaced": 3,
    "reordered": 5,
    "also_resent": 0,
    "also_misplaced": 1,
    "also_reordered": 1,
    "aborted_visible": 0,
    "torn": 0,
    "also_aborted_visible": 0,
    "also_torn": 0,
}
"""The totals that the canary's books must have, column by column. A change of a total changes what the canary proves.

Six phantoms: three never attempted, three FAILED. Six corrupted: three at an acknowledged offset, three
unattributed. Eight resent: two attempts each of four sequences. Of five reordered, one is seen only by a detector that
remembers more than the record before. One more reordered record is hidden by a duplicate, and one misplaced record
by a resend."""

IN_TRANSACTIONS: dict[str, int] = subset(
    "a kind that is not named is planted outside of transactions only",
    {
        "attempted": 20,
        "acked": 19,
        "indeterminate": 1,
        "reported": 19,
        "found": 18,
        "lost": 1,
        "resolved_absent": 1,
        "log_records": 19,
        "first_copies": 18,
        "extra_copies": 1,
        "corrupted": 1,
        "duplicated": 1,
        "aborted_visible": 3,
        "torn": 5,
        "also_aborted_visible": 1,
        "also_torn": 1,
    },
)
"""What the canary's transactions add to these totals. They are planted only if an arm writes transactions."""


def expected_counts(scenario: Scenario) -> dict[str, int]:
    """What the canary's books must say in a run of `scenario`: totals by column."""
    if not scenario.transactional:
        return dict(EXPECTED)
    return {name: count + IN_TRANSACTIONS.get(name, 0) for name, count in EXPECTED.items()}
