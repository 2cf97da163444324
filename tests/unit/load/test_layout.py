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

LAYOUTS = st.builds(LoadLayout, block=st.integers(1, 60), partitions=st.integers(1, 20))


@given(layout=LAYOUTS, rounds=st.integers(1, 4))
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
