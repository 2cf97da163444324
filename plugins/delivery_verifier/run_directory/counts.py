"""The counts: how many attempts, records and cases each producer has in each partition.

The counts are the small tables by which a run is judged. A case is one attempt or record that shows an anomaly.
"""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column
from delivery_verifier.run_directory.table import Column

LATE = "reordered_late"
"""A key of `ArmEvidence.totals`. Its value is the sum of the arm's column `resolved_late`. The key exists only if
this sum is above 0, and `ArmEvidence.late_convicts` says that late INDETERMINATE attempts count as REORDERED."""
UNPROVEN = "lost_unproven"
"""A key of `ArmEvidence.totals`. Its value is the number of the arm's reported attempts that were not found, but are
not counted as LOST, because they may stand at unreadable offsets. The key exists only if this number is above 0."""

_COUNTS_OF_ATTEMPTS = {
    "attempted": "attempts in the ledger",
    "acked": "attempts that are ACKED",
    "sent": "attempts that are SENT",
    "failed": "attempts that are FAILED",
    "indeterminate": "attempts that are INDETERMINATE",
    "reported": "attempts that are ACKED or SENT",
    "found": "reported attempts that are in the log",
    "lost": "reported attempts that are in no offset of the log: the cases of LOST",
    "resolved_present": "INDETERMINATE attempts that are in the log once",
    "resolved_absent": "INDETERMINATE attempts that are not in the log",
    "resolved_late": "of `resolved_present`, those that would be REORDERED had they been reported",
}
_COUNTS_OF_RECORDS = {
    "log_records": "records in the log",
    "first_copies": "first copies of attempts",
    "extra_copies": "copies of attempts beyond the first",
    "phantoms": "records that no attempt of the arm accounts for",
    "unattributed": "corrupted records, and records of foreign writers, that belong to no attempt",
}
_COUNTS_OF_ANOMALIES = {
    **{column(kind): f"cases of {kind}" for kind in Anomaly if kind is not Anomaly.LOST},
    **{also_column(kind): f"cases of {kind} that are counted under a kind of higher precedence" for kind in SECONDARY},
}
COUNTS = (
    *(Column(name, "int64", meaning, unit="attempts") for name, meaning in _COUNTS_OF_ATTEMPTS.items()),
    *(Column(name, "int64", meaning, unit="records") for name, meaning in _COUNTS_OF_RECORDS.items()),
    *(Column(name, "int64", meaning, unit="cases") for name, meaning in _COUNTS_OF_ANOMALIES.items()),
)
"""The declarations of the columns of counts/producers.parquet that count attempts, records or cases."""


def case_counts(totals: Mapping[str, int], anomaly: Anomaly) -> tuple[int, int]:
    """Returns two numbers: the cases of `anomaly`, and the other attempts that show `anomaly`.

    An attempt that shows several anomalies is a case of the first of them, in the order of `Anomaly`. `totals` is the
    field `ArmEvidence.totals`. For REORDERED, the second number includes `totals[LATE]`, the number of INDETERMINATE
    attempts that came late.
    """
    also = totals.get(also_column(anomaly), 0) if anomaly in SECONDARY else 0
    if anomaly is Anomaly.REORDERED:
        also += totals.get(LATE, 0)
    return totals.get(column(anomaly), 0), also
