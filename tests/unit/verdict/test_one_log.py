"""Whether the log of a partition was ever written anew, and what is known of a record of which a part is not."""

from __future__ import annotations

from typing import Any

import pytest

from delivery_verifier.contract.elections import Elections, Tenure
from delivery_verifier.verdict.cases import Case
from delivery_verifier.verdict.truncations import Causes, Fate, fate_of, has_one_log

ONE_LEADER = Elections((Tenure(0, None, None, ()),), (), ())
ELECTED = Elections((Tenure(0, None, 60, ()), Tenure(1, 40, None, ())), ((1, 40),), ())


def case(**changes: Any) -> Case:
    fields: dict[str, Any] = {"partition": 0, "sent_us": 10, "settled_us": 11, "acked_offset": 5} | changes
    return Case("a", ("LOST",), 0, **fields)


@pytest.mark.parametrize(
    ("partition", "is_one"),
    [(0, True), (1, False), (7, False), (None, False)],
    ids=["one", "elected", "unseen", "none"],
)
def test_a_partition_has_one_log_only_if_it_was_seen_and_no_leader_was_elected(
    partition: int | None, is_one: bool
) -> None:
    assert has_one_log(case(partition=partition), {0: ONE_LEADER, 1: ELECTED}) is is_one


@pytest.mark.parametrize("unknown", ["partition", "acked_offset", "sent_us", "settled_us"])
def test_what_became_of_a_record_is_unknown_if_its_place_or_its_times_are(unknown: str) -> None:
    assert fate_of(case(**{unknown: None}), Causes(()), {0: ONE_LEADER}) is Fate.UNKNOWN
    assert fate_of(case(), Causes(()), {0: ONE_LEADER}) is Fate.KEPT
