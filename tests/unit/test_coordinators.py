"""Coordinators: the partition of a transactional.id is the one that Java would compute; a plan without transactions has none."""

from __future__ import annotations

import pytest
from hand_made import RUN
from msgspec.structs import replace

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.cluster.coordinators import partition_of
from delivery_verifier.scenario import BadInput
from delivery_verifier.scenario_checks import check

MODULUS = 2**31


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("hello", 99162322), ("Hello, World!", 1498789909), ("kdv-transactional-0", 546215076), ("polygenelubricants", 0), ("ä", 228), ("😀", 1772899)],
)
def test_the_code_of_a_text_is_javas_without_its_sign_and_the_smallest_number_has_none(text: str, code: int) -> None:
    assert partition_of(text, MODULUS) == code


def test_a_plan_that_aims_at_a_coordinator_needs_an_arm_that_has_one() -> None:
    plan = build(ENTRIES["transactional.coordinator_killed"], "run-1").fault
    with pytest.raises(BadInput, match="transaction_coordinator needs an arm"):
        check(replace(RUN, fault=plan))
