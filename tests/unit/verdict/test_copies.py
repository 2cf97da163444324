"""The copies of a record: which of them can be attempts of one request, and which cannot."""

from __future__ import annotations

from typing import Any

import pytest

from delivery_verifier.contract.times import Span
from delivery_verifier.verdict.cases import Case
from delivery_verifier.verdict.copies import CLOCK_SLACK_US, STRAY_US, Placement, placement_of
from delivery_verifier.verdict.windows import CLIENT_LAG_US

S = 1_000_000
SENT, SETTLED = 100 * S, 101 * S
POSSIBLE, IMPOSSIBLE, UNKNOWN, UNSEEN = Placement.POSSIBLE, Placement.IMPOSSIBLE, Placement.UNKNOWN, Placement.UNSEEN


def placed(*delays: Span, **more: Any) -> Placement:
    fields: dict[str, Any] = {"outcome": "ACKED", "acked_offset": 7, "offsets": (7, 9), "partitions": (0, 0)} | more
    times = (fields.pop("sent_us", SENT), fields.pop("settled_us", SETTLED))
    one_log = fields.pop("one_log", False)
    case = Case("a", ("DUPLICATED",), 0, fields.pop("partition", 0), *times, **fields)
    return placement_of(case, delays, one_log=one_log)


def test_copies_of_which_the_log_says_nothing_else_are_retries() -> None:
    assert placed() is POSSIBLE
    assert placed(appended_after_us=SENT - 1, appended_before_us=SETTLED + 1) is POSSIBLE
    assert placed(appended_after_us=SETTLED, appended_before_us=SENT) is POSSIBLE


@pytest.mark.parametrize("partitions", [(0, 1), (1,), (1, 1)])
def test_a_copy_in_another_partition_is_no_retry(partitions: tuple[int, ...]) -> None:
    assert placed(partitions=partitions) is IMPOSSIBLE


@pytest.mark.parametrize("outcome", ["ACKED", "SENT", "INDETERMINATE"])
def test_a_copy_that_was_appended_before_the_record_was_sent_is_no_retry(outcome: str) -> None:
    for early_us, said in ((CLOCK_SLACK_US, POSSIBLE), (CLOCK_SLACK_US + 1, IMPOSSIBLE)):
        assert placed(outcome=outcome, appended_before_us=SENT - early_us) is said
        assert placed(outcome=outcome, settled_us=None, appended_before_us=SENT - early_us) is said


@pytest.mark.parametrize(
    ("late_us", "said"),
    [(CLIENT_LAG_US, POSSIBLE), (CLIENT_LAG_US + 1, UNKNOWN), (STRAY_US, UNKNOWN), (STRAY_US + 1, IMPOSSIBLE)],
)
def test_a_copy_that_was_appended_long_after_the_acknowledgement_is_no_retry(late_us: int, said: Placement) -> None:
    assert placed(appended_after_us=SETTLED + late_us) is said
    given_up = UNKNOWN if late_us > STRAY_US else POSSIBLE
    assert placed(appended_after_us=SETTLED + late_us, outcome="INDETERMINATE") is given_up
    assert placed(appended_after_us=SETTLED + late_us, outcome="SENT") is POSSIBLE
    assert placed(appended_after_us=SETTLED + late_us, settled_us=None) is POSSIBLE


@pytest.mark.parametrize(("late_us", "said"), [(CLOCK_SLACK_US, POSSIBLE), (CLOCK_SLACK_US + 1, IMPOSSIBLE)])
def test_the_only_copy_stood_in_the_log_when_it_was_acknowledged_if_nothing_was_written_anew(
    late_us: int, said: Placement
) -> None:
    alone: dict[str, Any] = {"offsets": (7,), "partitions": (0,), "appended_after_us": SETTLED + late_us}
    assert placed(one_log=True, **alone) is said
    assert placed((SENT, None), one_log=True, **alone) is said, "what is held up has not been acknowledged"
    assert placed(one_log=False, **alone) is POSSIBLE
    assert placed(one_log=True, **alone | {"offsets": (8,)}) is POSSIBLE
    assert placed(one_log=True, **alone | {"offsets": (7, 8), "partitions": (0, 0)}) is POSSIBLE


@pytest.mark.parametrize(
    ("delay", "said"),
    [
        ((SETTLED, SETTLED + 60 * S), POSSIBLE),
        ((SETTLED, None), POSSIBLE),
        ((SETTLED + 1, None), IMPOSSIBLE),  # the other request had been answered before anything was held up
        ((SENT - 60 * S, SETTLED + 30 * S), POSSIBLE),
        ((SENT - 60 * S, SETTLED + 30 * S - 1), IMPOSSIBLE),
    ],
)
def test_a_request_that_was_held_up_may_arrive_as_late(delay: Span, said: Placement) -> None:
    assert placed((1, 2), delay, appended_after_us=SETTLED + 30 * S) is said


@pytest.mark.parametrize("unknown", [{"partitions": None}, {"sent_us": None}, {"partition": None}])
def test_where_nothing_was_written_down_nothing_is_decided(unknown: dict[str, Any]) -> None:
    assert placed(appended_before_us=1, **unknown) is UNSEEN
