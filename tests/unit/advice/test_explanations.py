"""The explanation of a loss: it names who vouched for the record only where what was seen proves it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.advised import evidence_for_advice
from support.evidence import SECOND, a_scenario, partition

from delivery_verifier.advice.explanations import explanation
from delivery_verifier.verdict.evidence import ArmEvidence

RUN = a_scenario("acks_1", "pause_leader")
SENT, ANSWERED = 100 * SECOND, 110 * SECOND
NONE = -1
DEPOSED = (
    "With acks=1 the leader alone vouches for a record. The acknowledgement of the deposed leader, broker 1, arrived "
    "after broker 2 had taken over without having the record, and what a new leader does not have is cut off "
    "the logs of the others."
)
SUCCEEDED = "With acks=1 the leader alone vouches for a record: broker 1 did. Broker 2 then led without having it"


def explained(*terms: tuple[int, int, int], acks: str = "1", kind: str = "LOST") -> str:
    """The explanation of a lost record of the subject. `terms`: second, leader and epoch of each observation."""
    arm = "acks_1" if acks == "1" else "control-safe"
    seen = [partition(RUN, at * SECOND, arm, 0, leader, epoch, [1, 2]) for at, leader, epoch in terms]
    judged = ArmEvidence(evidence_for_advice(RUN, [], seen), RUN.arm(arm))
    row = {"arm": arm, "kind": kind, "partition": 0, "sent_at": SENT, "settled_at": ANSWERED}
    return explanation(judged, row, Path("nowhere"), None)


def test_the_showcase_is_explained_an_acknowledgement_of_a_leader_that_was_deposed_meanwhile() -> None:
    assert explained((0, 1, 0), (105, 2, 1)) == DEPOSED
    assert explained((0, 1, 0), (103, NONE, 0), (105, 2, 1), (130, 2, 1)) == DEPOSED


def test_a_leader_that_vouched_and_was_deposed_afterwards_is_named() -> None:
    assert explained((0, 1, 0), (120, 2, 1)).startswith(SUCCEEDED)
    assert explained((0, 1, 0), (108, NONE, 0), (120, 2, 1)).startswith(SUCCEEDED), "no broker -1 vouches for anything"


@pytest.mark.parametrize(
    "terms",
    [
        [],
        [(0, 1, 0)],
        [(105, 2, 1)],  # nobody knows who led when it was sent
        [(101, 1, 0), (105, 2, 1)],
        [(0, 1, 0), (105, 2, 1), (120, 1, 2)],  # broker 2 may have vouched for it, too
        [(0, 1, 0), (105, 2, 1), (120, 2, 2)],  # elected again, perhaps after it lost its memory
        [(0, 1, 0), (103, 2, 1), (105, 1, 2), (120, 3, 3)],
        [(0, 1, 0), (105, 1, 1)],
    ],
)
def test_where_several_leaders_may_have_vouched_for_it_nobody_is_accused(terms: list[tuple[int, int, int]]) -> None:
    assert explained(*terms) == ""


def test_other_settings_and_kinds_are_not_explained_by_a_leader() -> None:
    assert explained((0, 1, 0), (105, 2, 1), acks="all") == ""
    assert explained((0, 1, 0), (105, 2, 1), kind="TORN") == ""


def test_no_setting_puts_a_record_into_a_wrong_place() -> None:
    assert explained((0, 1, 0), (105, 2, 1), kind="MISROUTED") == explained(acks="all", kind="MISROUTED") != ""
