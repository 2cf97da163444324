"""The number of transactions that the producers of each arm began, committed and aborted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from delivery_verifier.model.scenario import Scenario


class TransactionCounts(NamedTuple):
    """How many transactions were begun, and how many of these transactions the client reported as committed or aborted.

    How the remaining transactions ended is unknown.
    """

    begun: int
    committed: int
    aborted: int


def transactions_of(scenario: Scenario, counts: Mapping[str, int]) -> dict[str, TransactionCounts]:
    """Maps each arm that writes transactions to the counts of its transactions.

    `counts` are the counts of produce.json. The function adds up the counts with the names `transactions_<begun |
    committed | aborted>/<arm>/...`.
    """

    def total(field_name: str, arm: str) -> int:
        prefix = f"transactions_{field_name}/{arm}/"
        return sum(count for name, count in counts.items() if name.startswith(prefix))

    arms = [arm.name for arm in scenario.loaded if arm.transactional_id]
    return {arm: TransactionCounts(*(total(name, arm) for name in TransactionCounts._fields)) for arm in arms}
