"""Tests of causes: what the commits of a group and the kills of the plan show of a program of the user's own, and where
they show nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import EFFECT_AT, SECOND

from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import Cause
from delivery_verifier.verdict.causes import cause_of, causes_of, others, reapplied, skipped
from delivery_verifier.verdict.causes.group import Group

KILL = Injection(
    id=1, cycle=0, action="kill_application", brokers=[], hit={}, requested_at_us=EFFECT_AT, effect_at_us=EFFECT_AT
)
REWIND = replace(KILL, action="rewind")


def commit(partition: int, offset: int | None, at_s: float, **more: Any) -> dict[str, Any]:
    """Returns a commit that was written `at_s` seconds after the kill."""
    row = {"topic": "t", "partition": partition, "offset": offset, "at": EFFECT_AT + round(at_s * SECOND)}
    return row | {"log_offset": 100 + round(at_s * 10), "committed": True} | more


def member(name: str | None, at_s: float = -50, generation: int = 1, client: str = "", **more: Any) -> dict[str, Any]:
    """Returns a member of a generation that was written `at_s` seconds after the kill."""
    row = {
        "generation": generation,
        "member_id": name,
        "client_id": client or name,
        "at": EFFECT_AT + round(at_s * SECOND),
    }
    return row | {"log_offset": 100 + round(at_s * 10), "assigned": None} | more


STOPPED_S = 100
"""The members were stopped this many seconds after the kill."""


def group(*commits: dict[str, Any], members: Any = (), injections: Any = (KILL,)) -> Group:
    return Group.from_rows("t", commits, members, injections, EFFECT_AT + STOPPED_S * SECOND)


def case(kind: str, offset: int, at_s: float | None = -1, partition: int = 0, detail: str = "") -> dict[str, Any]:
    """Returns a case of a record that was sent `at_s` seconds after the kill."""
    sent_us = None if at_s is None else EFFECT_AT + round(at_s * SECOND)
    row = {"kind": kind, "producer": 0, "sequence": offset, "partition": partition, "sent_at": sent_us}
    return row | {"offsets": [offset], "detail": detail}


def skips(*offsets: int) -> list[dict[str, Any]]:
    return [case("SKIPPED", offset) for offset in offsets]


def whats(found: list[Cause]) -> list[tuple[int, str]]:
    return [(cause.count, cause.what) for cause in found]


def test_what_stands_below_the_last_commit_before_the_kill_was_committed_ahead() -> None:
    found = causes_of(group(commit(0, 5, -3), commit(0, 10, -1), commit(0, 20, 9)), skips(7, 8, 9))
    assert whats(found) == [(3, skipped.AHEAD.what)]
    assert "Record 7 of producer 0 stands in partition 0 at offset 7" in found[0].evidence[0]
    assert "Offset 10 of this partition was committed at 00:01:39.000 UTC: from then on" in found[0].evidence[1]


def test_several_commits_ahead_of_the_same_buffer_have_one_cause() -> None:
    found = causes_of(group(commit(0, 5, -3), commit(0, 8, -2), commit(0, 10, -1)), skips(6, 7, 8, 9))
    assert whats(found) == [(4, skipped.AHEAD.what)]


def test_what_others_stand_behind_in_the_last_commit_before_the_kill_was_committed_over_a_gap() -> None:
    found = causes_of(group(commit(0, 5, -3), commit(0, 10, -1), commit(0, 20, 9)), skips(6))
    assert whats(found) == [(1, skipped.OVER_A_GAP.what)]


@pytest.mark.parametrize("commits", [[(5, -3), (8, -2), (10, -1)], [(5, 2), (10, 3)]], ids=["before", "after"])
def test_what_another_commit_covers_was_left_out(commits: list[tuple[int, float]]) -> None:
    found = causes_of(group(*[commit(0, offset, at_s) for offset, at_s in commits]), skips(6))
    assert whats(found) == [(1, skipped.LEFT_OUT.what)]
    assert found[0].look_for[0].startswith("an exception that is caught")


def test_what_a_program_drops_that_is_stopped_was_committed_ahead() -> None:
    made = group(commit(0, 5, 3), commit(0, 10, 4), commit(0, 30, STOPPED_S + 1), injections=())
    (found,) = causes_of(made, skips(7, 8, 9))
    assert (found.count, found.what) == (3, skipped.AHEAD_AT_THE_END.what)
    assert "killed" not in " ".join(found.evidence)
    assert whats(causes_of(made, skips(7))) == [(1, skipped.LEFT_OUT.what)], "others behind it were applied"


def test_the_first_records_of_the_topic_were_jumped_over() -> None:
    found = causes_of(group(commit(0, 10, -1), injections=()), skips(0, 1, 2))
    assert whats(found) == [(3, skipped.JUMPED_OVER.what)]
    assert found[0].look_for[0].startswith("auto.offset.reset=latest")


def test_one_anomaly_may_have_several_causes_and_the_most_frequent_comes_first() -> None:
    made = group(commit(0, 5, -3), commit(0, 10, -1), commit(0, 30, 9), commit(0, 40, 10))
    assert whats(causes_of(made, skips(8, 9, 22))) == [(2, skipped.AHEAD.what), (1, skipped.LEFT_OUT.what)]


@pytest.mark.parametrize(
    ("made", "row"),
    [
        (group(commit(0, 5, -3)), case("SKIPPED", 7)),
        (group(commit(1, 50, -3)), case("SKIPPED", 7)),
        (group(commit(0, 50, -3, committed=False)), case("SKIPPED", 7, at_s=1)),
        (group(commit(0, 50, -3, topic="another")), case("SKIPPED", 7, at_s=1)),
        (group(commit(0, None, -3)), case("SKIPPED", 7, at_s=1)),
        (group(injections=()), case("SKIPPED", 7)),
        (group(), case("SKIPPED", 7, at_s=1)),
        (group(commit(0, 50, -3)), case("SKIPPED", 7) | {"offsets": []}),
        (group(commit(0, 50, -3)), case("GHOST", 7)),
    ],
    ids=[
        "committed below it",
        "another partition",
        "an aborted commit",
        "another topic",
        "a removal",
        "no commit and no kill",
        "no commit, and sent after the kill",
        "nowhere",
        "a ghost that the log may have lost",
    ],
)
def test_where_nothing_in_progress_shows_that_the_program_did_it_there_is_no_cause(
    made: Group, row: dict[str, Any]
) -> None:
    assert causes_of(made, [row]) == [] and cause_of(made, row, [row]) is None


def test_a_program_that_keeps_its_offsets_elsewhere_chose_itself_where_to_go_on() -> None:
    (found,) = causes_of(group(), skips(7, 8))
    assert (found.count, found.what) == (2, skipped.KEPT_ELSEWHERE.what)
    assert "Kafka had no offset of the group" in found.evidence[1]


AGAIN = {"detail": "in the log at 0:7; applied by member 0 in incarnation 0, by member 0 in incarnation 1"}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (group(commit(0, 5, -3), commit(0, 50, 9)), reapplied.APART),
        (group(commit(1, 5, -3)), reapplied.APART),
        (group(commit(0, 8, -3)), reapplied.BY_ITSELF),
        (group(commit(0, 5, -3), injections=()), reapplied.NOT_COMMITTED_AT_THE_END),
        (group(commit(0, 8, 3), injections=()), reapplied.BY_ITSELF),
        (group(injections=()), reapplied.BY_ITSELF),
        (group(), reapplied.KEPT_ELSEWHERE),
        (group(commit(0, 50, -3), injections=(REWIND,)), reapplied.SET_BACK),
        (group(commit(0, 5, -3), *[commit(1, at, -at / 100) for at in range(3)]), reapplied.SOME_PARTITIONS),
        (group(commit(0, 5, -3), *[commit(1, at, -at / 100) for at in range(2)]), reapplied.APART),
        (group(commit(0, 5, -3), commit(1, 5, -3), *[commit(1, at, -at / 100) for at in range(3)]), reapplied.APART),
        (group(commit(0, 5, -3), *[commit(1, at, -2 - at / 100) for at in range(3)]), reapplied.APART),
    ],
    ids=[
        "not committed at the kill",
        "nothing of its partition committed at the kill",
        "committed before the kill",
        "not committed when it was stopped",
        "committed when it was stopped",
        "no kill and no commit",
        "offsets elsewhere",
        "set back by the plan",
        "others committed since",
        "others hardly committed since",
        "commits of all partitions together",
        "others committed before it was sent",
    ],
)
def test_why_a_record_was_applied_again(made: Group, expected: Any) -> None:
    (found,) = causes_of(made, [case("REAPPLIED", 7) | AGAIN])
    assert found.what == expected.what and found.look_for and found.evidence
    assert "at offset 7: applied by member 0 in incarnation 0, by member 0 in incarnation 1." in found.evidence[0]


def test_a_record_that_nobody_sent_and_one_of_a_transaction_are_ghosts_of_the_program() -> None:
    unsent = case("GHOST", 7, at_s=None) | {"offsets": [], "sequence": None}
    assert whats(causes_of(group(), [unsent])) == [(1, others.NEVER_SENT.what)]
    aborted = case("GHOST", 7) | {"offsets": []}
    (found,) = causes_of(group(), [aborted], of_transactions=True)
    assert found.what == others.UNCOMMITTED.what and "isolation.level=read_uncommitted" in found.look_for[0]


def test_a_record_that_was_applied_late_has_a_cause_too() -> None:
    assert whats(causes_of(group(), [case("OVERTAKEN", 7)])) == [(1, others.OVERTAKEN.what)]


def by(made: Group) -> str:
    return made.by(made.commits[-1])


def test_the_member_that_had_the_partition_sent_the_commit() -> None:
    older = member("a", assigned=[0, 1], generation=1)
    two = [member("a", -40, 2, assigned=[1]), member("b", -40, 2, assigned=[0])]
    assert by(group(commit(0, 5, -3), members=[older, *two])) == " by member b"
    assert by(group(commit(1, 5, -3), members=[older, *two])) == " by member a"
    assert by(group(commit(0, 5, -45), members=[older, *two])) == " by member a"
    assert by(group(commit(0, 5, -3), members=[older, *two, member("c", 3, 3, assigned=[0])])) == " by member b"


def test_of_members_whose_partitions_nobody_knows_all_are_named() -> None:
    two = [member("a", -40, 2), member("b", -40, 2, client="sink")]
    assert by(group(commit(0, 5, -3), members=two)) == " by one of the members a, b (client.id sink)"
    assert by(group(commit(0, 5, -3), members=[member(None)])) == by(group(commit(0, 5, -3))) == ""


def test_in_the_new_protocol_a_member_is_of_the_incarnation_in_which_it_joined() -> None:
    joined = [member("a", -40, -1), member("b", 2, -1)]
    assert by(group(commit(0, 5, -3), members=joined)) == " by member a"
    assert by(group(commit(0, 5, 5), members=joined)) == " by member b"
    assert by(group(commit(0, 5, 1), members=joined)) == " by member a", "nobody has joined since the kill"


def regular(*gaps_s: float) -> float | None:
    at_s, commits = 0.0, [commit(0, 0, 0.0)]
    for number, gap_s in enumerate(gaps_s, 1):
        at_s += gap_s
        commits += [commit(partition, number, at_s) for partition in range(2)]
    return group(*commits).timer_s


def test_commits_that_come_as_regularly_as_those_of_a_timer_are_known() -> None:
    assert regular(1, 1, 1.1, 0.9, 1) == 1
    assert regular(1, 1, 1.1, 1, 0.9, 1, 1, 1, 1, 8) == 1, "a kill lies in between"
    assert regular(1, 1, 1, 1) is None, "too few"
    assert regular(0.2, 0.2, 0.2, 0.2, 0.2) is None, "as often as batches"
    assert regular(1, 2, 1, 3, 0.5, 1) is None


def test_after_a_group_was_set_back_the_first_commit_beyond_a_record_counts() -> None:
    made = group(commit(0, 10, -9), commit(0, 0, -5), commit(0, 3, -4), commit(0, 20, -3))
    first = made.first_beyond(0, 5)
    assert first is not None and (first.offset, first.at_us) == (10, EFFECT_AT - 9 * SECOND)
    last = made.last_before(0, EFFECT_AT - 4 * SECOND)
    assert last is not None and last.offset == 3 and made.last_before(0, EFFECT_AT - 10 * SECOND) is None
