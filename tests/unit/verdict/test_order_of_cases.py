"""The order in which the records of a finding are named: by partition, number and attempt; unknown ones come last."""

from __future__ import annotations

import itertools
from typing import Any

from delivery_verifier.verdict.cases import Case


def case(partition: int | None, sequence: int | None, attempt: int | None = 0) -> Case:
    fields: dict[str, Any] = {"partition": partition, "sequence": sequence, "attempt": attempt}
    return Case("a", ("LOST",), 0, sent_us=None, settled_us=None, **fields)


def test_cases_are_ordered_by_partition_number_and_attempt_and_unknown_ones_come_last() -> None:
    places = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 7, None), (0, None, 0), (1, 0, 0), (None, 0, 0), (None, None, None)]
    ordered = [case(*place) for place in places]
    for mixed in itertools.islice(itertools.permutations(ordered), 0, None, 997):
        assert sorted(mixed, key=lambda each: each.sort_key) == ordered
