"""Counts the transactions that the producers of each arm began, committed and aborted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from delivery_verifier.model.scenario import Scenario


class TransactionCounts(NamedTuple):
    """How many transactions were begun. How many of them the client reported as committed, and how many as aborted.

    Nobody knows how the remaining transactions ended.
    """

    begun: int
    committed: int
    aborted: int


def transactions_of(scenario: Scenario, counts: Mapping[str, int]) -> dict[str, TransactionCounts]:
    """Maps each arm that writes transactions to the counts of its transactions.

    `counts` are the counts in produce.json. The function adds up the counts of an arm's producers. Their names are
    `transactions_begun/<arm>/...`, `transactions_committed/<arm>/...` and `transactions_aborted/<arm>/...`.
    """

    def total(field_name: str, arm: str) -> int:
        prefix = f"transactions_{field_name}/{arm}/"
        return sum(count for name, count in counts.items() if name.startswith(prefix))

    arms = [arm.name for arm in scenario.loaded if arm.transactional_id]
    return {arm: TransactionCounts(*(total(name, arm) for name in TransactionCounts._fields)) for arm in arms}


def clause_of(counts: TransactionCounts | None) -> str:
    """Returns a clause on what a read_committed consumer sees of an arm's transactions; empty if `counts` is None.

    The clause is true only for an arm without anomalies. In such an arm, no transaction was torn, and no record of an
    aborted transaction was visible.
    """
    if counts is None:
        return ""
    text = f"; a read_committed consumer sees every committed transaction ({counts.committed:,} in all)"
    if counts.aborted:
        text += f", and nothing of the aborted ones ({counts.aborted:,} in all)"
    unknown = counts.begun - counts.committed - counts.aborted
    if unknown:
        text += f" (how {unknown:,} more ended is not known; each is seen whole or not at all)"
    return text
