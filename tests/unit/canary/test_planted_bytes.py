"""What stands in the canary's log: damaged records have their full length and the trace of the run, and no gap."""

from __future__ import annotations

from support.run_directories import scenario

from delivery_verifier import canary
from delivery_verifier.model.record import encode

PLAIN, TRANSACTIONAL = scenario(["plain"]), scenario(["plain", "transactional"], transactional=["transactional"])
SOUND = encode(PLAIN.run_token, PLAIN.canary.ordinal, 0, 0, 0, 0, 0, PLAIN.load.payload_bytes)
MAGIC_AND_TOKEN = 13


def test_every_record_is_as_long_as_a_sound_one_and_bears_the_trace_of_the_run() -> None:
    values = [value for _, value in canary.lay_out(PLAIN).values]
    assert {len(value) for value in values} == {len(SOUND)}
    assert {value[:MAGIC_AND_TOKEN] for value in values} == {SOUND[:MAGIC_AND_TOKEN]}


def test_the_first_record_is_of_producer_0_in_its_first_session() -> None:
    assert canary.lay_out(PLAIN).values[0] == (0, SOUND)


def test_the_transactions_hold_all_records_that_a_canary_with_transactions_has_more() -> None:
    with_them, without = canary.lay_out(TRANSACTIONAL), canary.lay_out(PLAIN)
    (committed, is_committed), (aborted, is_aborted) = with_them.transactions
    assert committed + aborted == len(with_them.values) - len(without.values)
    assert (is_committed, is_aborted) == (True, False) and min(committed, aborted) > 0


def test_the_attempts_in_transactions_have_every_sequence_and_no_gap() -> None:
    sequences = {row.sequence for row in canary.lay_out(TRANSACTIONAL).rows}
    assert sorted(sequences) == [*range(len(sequences))]
