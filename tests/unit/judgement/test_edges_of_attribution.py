"""Tests of attribution at the edges: shares that are exactly 0 or 1, and cases of two kinds."""

from __future__ import annotations

import pytest
from support.evidence import BITE, RUN, SECOND, WEAK, case, cases, the_injections

from delivery_verifier.judgement.attribution import OUTSIDE, attribute_cases, confidence_interval


@pytest.mark.parametrize("trials", [1, 2, 29])
def test_a_share_of_none_begins_at_0_and_a_share_of_all_ends_at_1(trials: int) -> None:
    assert confidence_interval(0, trials)[0] == 0.0
    assert confidence_interval(trials, trials)[1] == 1.0


@pytest.mark.parametrize(
    ("kinds", "owner"),
    [
        (("OVERTAKEN",), 1),
        (("REAPPLIED", "OVERTAKEN"), 1),
        (("DUPLICATED",), OUTSIDE),
        (("DUPLICATED", "OVERTAKEN"), OUTSIDE),
    ],
)
def test_a_record_that_was_settled_before_is_met_only_if_its_first_kind_is_one_of_effects(
    kinds: tuple[str, ...], owner: int
) -> None:
    settled = case(BITE - 5 * SECOND, BITE - 2 * SECOND, *kinds)
    assert attribute_cases(cases(settled), the_injections(RUN)) == {WEAK: {kind: [owner] for kind in kinds}}
