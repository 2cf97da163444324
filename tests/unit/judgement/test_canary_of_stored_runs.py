"""Tests that planters plant what they always planted: the canaries of stored runs hold it, and are judged by it."""

from __future__ import annotations

import hashlib

import pytest
from support.run_directories import scenario

from delivery_verifier.judgement import canary

PLAIN, TRANSACTIONAL = scenario(["plain"]), scenario(["plain", "transactional"], transactional=["transactional"])


@pytest.mark.parametrize(
    ("is_transactional", "digest"),
    [(False, "346db8c06e30aa98"), (True, "28958fb3a0a58f50")],
    ids=["plain", "transactional"],
)
def test_the_records_and_the_ledger_of_the_canary_never_change(is_transactional: bool, digest: str) -> None:
    layout = canary.lay_out(TRANSACTIONAL if is_transactional else PLAIN, 2)
    rows = [tuple(getattr(row, name) for name in row.__slots__) for row in layout.rows]
    text = repr((layout.values, rows, layout.transactions, sorted(layout.counts.items())))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest, "write a new planter, and change no old one"


def test_one_partition_holds_the_whole_canary_if_there_is_no_other() -> None:
    load = canary.lay_out(scenario(["plain"], partitions=1)).values
    assert {partition for partition, _ in load} == {0}
    assert {partition for partition, _ in canary.lay_out(PLAIN).values} == {0, 1}
