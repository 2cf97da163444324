"""The canary: an arm without load. The step `settle` writes known anomalies of every kind to the canary's topic.

Their ledger is written here (`ledger`). Beside it, a real producer process gets real acknowledgements for records that
no cluster keeps, and its ledger is sealed like that of any producer. So one kind of case, LOST, takes the whole way.

The reconciliation, which compares ledger and log, must report exactly these anomalies. If it reports anything else, the
checker is broken, and no verdict may be given.
"""

from __future__ import annotations

from delivery_verifier.judgement.canary.effects import applied, expected_effects
from delivery_verifier.judgement.canary.layout import CanaryLayout
from delivery_verifier.judgement.canary.ledger import ledger_table
from delivery_verifier.judgement.canary.planters import FORGOTTEN, expected_counts, lay_out

__all__ = ["FORGOTTEN", "CanaryLayout", "applied", "expected_counts", "expected_effects", "lay_out", "ledger_table"]
