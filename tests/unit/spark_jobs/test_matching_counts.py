"""Tests of the counts by which the matching chooses its way, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from spark_jobs.matching.match import FEW, FEW_DAMAGED, MatchingInputs, _by_arm, _few_rows, _has_nonzero
from spark_jobs.matching.screen import Screen


def census(*rows: tuple[str, int, int]) -> pa.Table:
    """Returns a census of the log with rows of (arm, corrupted, foreign)."""
    return pa.Table.from_pylist([{"arm": arm, "corrupted": bad, "foreign": alien} for arm, bad, alien in rows])


def are_few(examined: int, *rows: tuple[str, int, int]) -> bool:
    inputs = cast(MatchingInputs, SimpleNamespace(census=SimpleNamespace(log=census(*rows, ("other", 0, 0)))))
    return _few_rows(inputs, cast(Screen, SimpleNamespace(counts={"screen/examined": examined})))


@pytest.mark.parametrize(
    ("examined", "corrupted", "foreign", "few"),
    [
        (0, 0, 0, True),
        (100_000, 0, 0, True),
        (100_001, 0, 0, False),
        (0, 1_000, 0, True),
        (0, 1_001, 0, False),
        (0, 0, 100_000, True),
        (0, 0, 100_001, False),
        (99_000, 1_000, 0, True),
        (99_001, 1_000, 0, False),
        (98_000, 1_000, 1_000, True),
        (98_000, 1_000, 1_001, False),
        (200_000, 1_000, 0, False),
    ],
)
def test_rows_are_few_up_to_a_bound_of_all_and_a_lower_bound_of_damaged_ones(
    examined: int, corrupted: int, foreign: int, few: bool
) -> None:
    assert are_few(examined, ("a", corrupted, foreign)) is few
    assert are_few(examined, ("a", corrupted, 0), ("a", 0, foreign)) is few
    assert (FEW, FEW_DAMAGED) == (100_000, 1_000)


def test_the_sum_of_an_arm_leaves_out_arms_without_any() -> None:
    table = census(("a", 1, 0), ("b", 0, 3), ("a", 2, 0))
    assert (_by_arm(table, "corrupted"), _by_arm(table, "foreign")) == ({"a": 3}, {"b": 3})


@pytest.mark.parametrize(("values", "expected"), [([], False), ([0, 0], False), ([0, 2], True), ([1, 1], True)])
def test_a_column_has_a_value_other_than_zero(values: list[Any], expected: bool) -> None:
    assert _has_nonzero(pa.table({"attempt": pa.array(values, pa.int64())}), "attempt") is expected
