"""The rules of the contract. A rule permits an anomaly under certain settings, after certain disturbances.

Each rule names its source. An anomaly that no rule permits is forbidden by the promise of the anomaly. If the measured
behaviour of Kafka differs from Kafka's documentation, the rule follows the behaviour. Its `source` then names this
difference.
"""

from __future__ import annotations

from delivery_verifier.contract.rules.applications import APPLICATIONS
from delivery_verifier.contract.rules.losses import LOST, MISPLACED
from delivery_verifier.contract.rules.promises import LATE, PROMISES, Promise, unexplained
from delivery_verifier.contract.rules.retries import ACKS_0, REQUEUES, RESENDS, RETRIES, SPLITS
from delivery_verifier.contract.rules.rule import ContractRule
from delivery_verifier.contract.rules.transactions import TRANSACTIONS

__all__ = ["LATE", "PROMISES", "RULES", "ContractRule", "Promise", "unexplained"]

_OF_THE_LOG = (*LOST, *MISPLACED, *RETRIES, ACKS_0, *REQUEUES, SPLITS, RESENDS, *TRANSACTIONS)
RULES: tuple[ContractRule, ...] = (*_OF_THE_LOG, *APPLICATIONS)
"""Every rule, in the order in which docs/reference/contract.md lists the rules. If several rules permit an anomaly, the
ruling names the first rule that needs no disturbance or rests on a planned disturbance. If there is no such rule, the
ruling names the first rule."""
