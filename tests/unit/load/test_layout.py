"""Tests of the layout of a load: it numbers records without gaps. The functions for one record and for whole columns
give the same numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.load.layout import (
    LARGEST_BLOCK,
    LARGEST_BLOCK_BYTES,
    LEAST_ROOM,
    LoadLayout,
    choose,
    queue_limit,
)

EVEN = st.builds(lambda block, partitions: LoadLayout(block, partitions), st.integers(1, 60), st.integers(1, 20))
GROWING = st.builds(
    lambda block, first, more, rounds: LoadLayout(block, first + more, first, rounds),
    block=st.integers(1, 60),
    first=st.integers(1, 10),
    more=st.integers(1, 10),
    rounds=st.integers(1, 5),
)
LAYOUTS = EVEN | GROWING
"""Layouts with the same partitions all the time, and those that get more after their first rounds."""


@given(layout=EVEN, rounds=st.integers(1, 4))
def test_whole_rounds_are_dense_in_every_partition(layout: LoadLayout, rounds: int) -> None:
    held: dict[int, list[int]] = {partition: [] for partition in range(layout.partitions)}
    for sequence in range(layout.block * layout.partitions * rounds):
        held[layout.partition(sequence)].append(layout.partition_sequence(sequence))
    assert all(numbers == list(range(layout.block * rounds)) for numbers in held.values())


@given(layout=LAYOUTS, length=st.integers(0, 500))
def test_however_long_the_load_partition_sequences_have_no_gap_and_no_double(layout: LoadLayout, length: int) -> None:
    held: dict[int, list[int]] = {}
    for sequence in range(length):
        held.setdefault(layout.partition(sequence), []).append(layout.partition_sequence(sequence))
    assert all(numbers == list(range(len(numbers))) for numbers in held.values())


@given(layout=GROWING, more=st.integers(0, 4))
def test_a_partition_that_is_added_gets_the_rounds_that_follow_and_the_others_get_all(
    layout: LoadLayout, more: int
) -> None:
    end = layout.end_of_rounds(layout.first_rounds + more)
    partitions = [layout.partition(sequence) for sequence in range(0, end, layout.block)]
    for partition in range(layout.partitions):
        blocks = more + (layout.first_rounds if partition < layout.first_partitions else 0)
        assert partitions.count(partition) * layout.block == layout.count_in(partition, end) == blocks * layout.block
    first = layout.end_of_rounds(layout.first_rounds)
    assert [sequence for sequence in range(end + 1) if layout.grows_at(sequence)] == [first]


@given(layout=LAYOUTS, blocks=st.integers(0, 80))
def test_records_are_counted_alike_one_by_one_and_at_once(layout: LoadLayout, blocks: int) -> None:
    end = blocks * layout.block
    held = [layout.partition(sequence) for sequence in range(0, end, layout.block)]
    for partition in range(layout.partitions):
        assert layout.count_in(partition, end) == held.count(partition) * layout.block


@given(layout=LAYOUTS, rounds=st.integers(0, 30))
def test_a_round_counts_once_its_last_block_is_there(layout: LoadLayout, rounds: int) -> None:
    begin, end = layout.end_of_rounds(rounds), layout.end_of_rounds(rounds + 1)
    assert (layout.rounds(begin), layout.rounds(end - layout.block), layout.rounds(end)) == (rounds, rounds, rounds + 1)


@given(layout=LAYOUTS, first=st.integers(0, 10**11), count=st.integers(0, 200))
def test_columns_say_what_the_single_numbers_say(layout: LoadLayout, first: int, count: int) -> None:
    partition, partition_sequence = layout.columns(first, count)
    assert partition.tolist() == [layout.partition(n) for n in range(first, first + count)]
    assert partition_sequence.tolist() == [layout.partition_sequence(n) for n in range(first, first + count)]


@given(records=st.integers(0, 10**9), rate=st.floats(1, 1e9), partitions=st.integers(1, 1000))
def test_a_chosen_block_gives_every_partition_its_share(records: int, rate: float, partitions: int) -> None:
    layout = choose(records, rate, partitions)
    assert 1 <= layout.block <= LARGEST_BLOCK and layout.partitions == partitions
    if records >= partitions * 10:
        assert records // layout.block >= partitions * 10, "at least ten blocks go to each partition"


@given(payload_bytes=st.integers(70, 1_000_000))
def test_a_chosen_block_of_a_flat_out_load_is_no_larger_than_a_megabyte(payload_bytes: int) -> None:
    block = choose(10**9, 1e9, 3, payload_bytes).block
    assert block == 1 or block * payload_bytes <= LARGEST_BLOCK_BYTES


@given(room=st.integers(LEAST_ROOM, 10**6))
def test_three_chosen_blocks_fit_into_a_short_queue(room: int) -> None:
    block = choose(10**9, 1e9, 3, 100, room).block
    assert queue_limit({"queue.buffering.max.messages": room}, 100, block) + 2 * block <= room
    assert 3 * block <= room
