"""The canary: an arm without load. The step `settle` writes known anomalies of every kind to the canary's topic.

The module `ledger` makes the ledger rows of these records. In addition, a real producer process sends further records
to a fake broker, which acknowledges them but stores nothing. So these further records are LOST. The producer process
writes their ledger as any producer does, so this ledger looks as after a real loss.

The reconciliation, which compares ledger and log, must report exactly the planted anomalies. If it reports anything
else, the checker is broken, and no verdict may be given.

Owns: which records, ledger rows and effects are planted, and the counts that the counts must then show. The room
    `settlement` writes them to the brokers and to the sinks.
May use: run_directory, model.
Weak spot: a planter of a new anomaly is compared with the reconciliation of this project alone. A mistake that both
    share stays unseen here; the second opinion in SQL is the next to see it.
"""

from __future__ import annotations

from delivery_verifier.canary.effects import applied, expected_effects
from delivery_verifier.canary.layout import CanaryLayout
from delivery_verifier.canary.ledger import ledger_table
from delivery_verifier.canary.planters import FORGOTTEN, expected_counts, lay_out

__all__ = ["FORGOTTEN", "CanaryLayout", "applied", "expected_counts", "expected_effects", "lay_out", "ledger_table"]
