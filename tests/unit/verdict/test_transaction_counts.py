"""Tests of the counts of transactions: which counts of produce.json belong to which arm."""

from __future__ import annotations

from support.evidence import a_scenario

from delivery_verifier.verdict.transaction_counts import TransactionCounts, transactions_of


def test_the_counts_of_an_arm_are_the_sums_over_its_producers_and_nothing_else() -> None:
    counts = {
        "attempted/transactional/0/0": 1000,
        "transactions_begun/transactional/0": 5,
        "transactions_begun/transactional/1": 3,
        "transactions_begun/transactional_2/0": 70,
        "transactions_committed/transactional/0": 4,
        "transactions_aborted/transactional/1": 1,
    }
    found = transactions_of(a_scenario("transactional"), counts)
    assert found == {"transactional": TransactionCounts(8, 4, 1)}
