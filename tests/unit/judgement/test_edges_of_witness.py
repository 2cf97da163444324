"""Tests of the witness at the edges: the first and the last offset of a batch, partitions without commits, and what a
doubt names."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.applications import application
from support.evidence import SUBJECT
from support.witnesses import TOPIC, Row, applied_by, commit, event, of_batches

from delivery_verifier.judgement.witness import _Sendable, differences
from delivery_verifier.store.witness import Witness

STRANGER = "witness_stranger"
ENDS = {(SUBJECT, partition): 402 for partition in range(3)}


def details(witness: Witness, discipline: Any = "commit_after") -> list[tuple[str, str]]:
    """Returns the name and the detail of each doubt about the subject."""
    found = differences(applied_by(discipline), witness, ENDS, is_rewound=False)
    return [(name, detail.removeprefix(f"{SUBJECT}: ")) for _, name, detail in found]


def test_a_doubt_names_what_a_stranger_sent_and_where_it_stands() -> None:
    witness = of_batches("committed")
    witness.commits[:0] = [commit(0, None, 90), commit(0, 17, 90)]
    place = f"of {TOPIC}/0, which stands in __consumer_offsets at 1:90"
    assert details(witness) == [
        (STRANGER, f"no member sent the removal {place}"),
        (STRANGER, f"no member sent the commit of offset 17 {place}"),
    ]


def test_the_doubt_about_lacking_commits_names_the_first_of_them() -> None:
    witness = of_batches("committed")
    del witness.commits[:2]
    lacking = "2 accepted commits of partition 0 are not in __consumer_offsets, the first of offset 390"
    assert ("witness_lacks_commit", lacking) in details(witness)
    witness.positions[2]["removed"] = 1  # the log of the group was compacted, whichever partition it was
    assert "witness_lacks_commit" not in dict(details(witness))


def test_a_partition_without_commits_is_at_offset_0_and_its_coordinator_must_say_so() -> None:
    witness = of_batches("committed")
    witness.commits[:] = [row for row in witness.commits if row["partition"] != 1]
    witness.positions[1] |= {"position": 0, "removed": 1}
    assert details(witness) == []
    del witness.positions[1]
    witness.positions[0]["removed"] = 1
    silent = "the last commit of partition 1 is 0, and its coordinator answers -1"
    assert details(witness) == [("witness_disagrees", silent)]


def test_every_arm_with_an_application_is_compared_with_the_ends_of_its_own_topic() -> None:
    scenario = applied_by("at_handover")
    others = [msgspec.structs.replace(arm, application=None) for arm in scenario.loaded if arm.name != SUBJECT]
    scenario = msgspec.structs.replace(scenario, arms=[*others, scenario.arm(SUBJECT), scenario.canary])
    witness = of_batches("")
    witness.journal.remove(event("closed"))
    witness.commits[1]["offset"] = witness.positions[0]["position"] = 403
    for ends, names in ((402, [STRANGER]), (403, [])):
        of_all = {
            (arm.name, part): ends if arm.name == SUBJECT else 805 - ends
            for arm in scenario.loaded
            for part in range(3)
        }
        assert [name for _, name, _ in differences(scenario, witness, of_all, is_rewound=False)] == names


JOURNAL: list[Row] = [
    event("assigned", 0),
    event("assigned", 1),
    event("handed_over", 0, 100, 390),
]
"""A member got a batch of partition 0, and none of partition 1."""


@pytest.mark.parametrize(
    ("partition", "offset", "is_closed", "sent"),
    [
        (0, 50, True, False),
        (0, 100, True, False),
        (0, 101, True, True),
        (0, 390, True, True),
        (0, 391, True, False),
        (0, 50, False, False),
        (0, 391, False, True),
        (0, 402, False, True),
        (0, 403, False, False),
        (1, 0, True, False),
        (1, 0, False, True),
        (1, 402, False, True),
        (1, 403, False, False),
        (2, 0, False, False),
    ],
)
def test_a_timer_may_commit_behind_each_record_that_was_handed_over_or_may_have_been(
    partition: int, offset: int, is_closed: bool, sent: bool
) -> None:
    journal = [*JOURNAL, *([event("closed")] if is_closed else [])]
    ends = {at: 402 for (_, at) in ENDS}
    assert _Sendable(application("at_handover"), journal, ends, is_rewound=False).has(partition, offset) is sent


def test_of_a_partition_whose_end_nobody_knows_a_timer_may_commit_offset_0_alone() -> None:
    sendable = _Sendable(application("at_handover"), JOURNAL, {}, is_rewound=False)
    assert [sendable.has(1, offset) for offset in (0, 1)] == [True, False]


def test_a_commit_without_an_offset_is_sent_by_nobody() -> None:
    sendable = _Sendable(application("at_handover"), JOURNAL, {0: 402}, is_rewound=True)
    assert not sendable.has(0, None) and sendable.has(0, 0)
