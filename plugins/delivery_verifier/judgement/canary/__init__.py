"""The canary: an arm to whose topic the step `settle` writes known anomalies of every kind.

The reconciliation must report exactly these anomalies. If the reconciliation reports anything else, the checker is
broken, and no verdict may be given.
"""

from __future__ import annotations

from delivery_verifier.judgement.canary.layout import CanaryLayout
from delivery_verifier.judgement.canary.ledger import ledger_table
from delivery_verifier.judgement.canary.planters import expected_counts, lay_out

__all__ = ["CanaryLayout", "expected_counts", "lay_out", "ledger_table"]
