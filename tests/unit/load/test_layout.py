"""Tests of the layout of a load: it numbers records without gaps. The functions for one record and for whole columns
give the same numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.load.layout import LARGEST_BLOCK, LoadLayout, choose

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
