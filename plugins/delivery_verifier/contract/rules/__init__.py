"""The rules of the contract: what excuses an anomaly, under which settings, and who says so.

What no rule permits is forbidden, by the anomaly's promise. Where behaviour was measured and differs from the
documentation, the rule follows behaviour and says so.
"""

from __future__ import annotations

from delivery_verifier.contract.rules.losses import LOST, MISPLACED
from delivery_verifier.contract.rules.promises import PROMISES, Promise
from delivery_verifier.contract.rules.retries import REQUEUES, RESENDS, RETRIES
from delivery_verifier.contract.rules.rule import ContractRule
from delivery_verifier.contract.rules.transactions import TRANSACTIONS

__all__ = ["PROMISES", "RULES", "ContractRule", "Promise"]

RULES: tuple[ContractRule, ...] = (*LOST, *MISPLACED, *RETRIES, *REQUEUES, RESENDS, *TRANSACTIONS)
"""Every rule, in the order in which docs/contract.md lists them. Of equally strong rules the first gives the reason."""
