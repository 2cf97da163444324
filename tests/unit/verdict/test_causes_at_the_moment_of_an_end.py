"""What a cause says of a program whose commit, record or rewind falls on the moment of a kill, and of who committed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import EFFECT_AT, SECOND

from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import Cause
from delivery_verifier.verdict.causes import cause_of, causes_of, reapplied, skipped
from delivery_verifier.verdict.causes.group import Group

KILL = Injection(
    id=1, cycle=0, action="kill_application", brokers=[], hit={}, requested_at_us=EFFECT_AT, effect_at_us=EFFECT_AT
)
REWIND = replace(KILL, action="rewind")
STOPPED_S = 100
TWICE = "in the log at 0:7; applied by member 0 in incarnation 0, by member 0 in incarnation 1"


def us(at_s: float) -> int:
    """Returns a time that is `at_s` seconds after the kill."""
    return EFFECT_AT + round(at_s * SECOND)


def commit(partition: int, offset: int, at_s: float, **more: Any) -> dict[str, Any]:
    row = {"topic": "t", "partition": partition, "offset": offset, "at": us(at_s), "committed": True}
    return row | {"log_offset": 1000 + round(at_s * 10)} | more


def member(name: str, at_s: float = -50, generation: int = 1, **more: Any) -> dict[str, Any]:
    row = {"generation": generation, "member_id": name, "client_id": name, "at": us(at_s), "assigned": None}
    return row | {"log_offset": 1000 + round(at_s * 10)} | more


def group(*commits: dict[str, Any], members: Any = (), injections: Any = (KILL,)) -> Group:
    return Group.from_rows("t", commits, members, injections, us(STOPPED_S))


def case(kind: str, offset: int, at_s: float | None = -1, **more: Any) -> dict[str, Any]:
    row = {"kind": kind, "producer": 0, "sequence": offset, "partition": 0, "offsets": [offset]}
    return row | {"sent_at": None if at_s is None else us(at_s), "detail": TWICE} | more


def the_cause(made: Group, *rows: dict[str, Any]) -> Cause:
    (cause,) = causes_of(made, rows)
    return cause


# ---- At the moment of a kill, a stop or a rewind.


def test_a_commit_at_the_moment_of_the_kill_was_made_before_it() -> None:
    ahead = the_cause(group(commit(0, 5, -3), commit(0, 10, 0)), *(case("SKIPPED", offset) for offset in (7, 8, 9)))
    assert (ahead.count, ahead.what) == (3, skipped.AHEAD.what)
    assert ahead.evidence[1].endswith("Its members were killed at 00:01:40.000 UTC.")


def test_a_record_that_was_sent_at_the_moment_of_the_kill_may_have_been_in_its_hands() -> None:
    assert the_cause(group(), case("SKIPPED", 7, at_s=0)).what == skipped.KEPT_ELSEWHERE.what
    assert the_cause(group(), case("REAPPLIED", 7, at_s=0)).what == reapplied.KEPT_ELSEWHERE.what
    assert the_cause(group(commit(0, 5, -3)), case("REAPPLIED", 7, at_s=0)).what == reapplied.APART.what


def test_a_record_that_was_sent_when_the_group_was_set_back_was_given_again_by_it() -> None:
    made = group(commit(0, 50, -3), injections=(REWIND,))
    assert the_cause(made, case("REAPPLIED", 7, at_s=0)).what == reapplied.SET_BACK.what


def test_a_commit_of_the_offset_of_a_record_leaves_this_record_to_be_given_again() -> None:
    assert the_cause(group(commit(0, 7, -3)), case("REAPPLIED", 7)).what == reapplied.APART.what


def test_of_several_kills_the_first_one_behind_the_record_is_named() -> None:
    second = replace(KILL, effect_at_us=us(60))
    (cause,) = causes_of(group(injections=(KILL, second)), [case("SKIPPED", 7, at_s=30)])
    assert cause.evidence[1].startswith("It was sent before the kill at 00:02:40.000 UTC.")


# ---- Where nothing can be said.


@pytest.mark.parametrize("unknown", [{"partition": None}, {"sent_at": None}, {"offsets": []}])
def test_a_record_that_was_applied_again_and_of_which_a_part_is_unknown_has_no_cause(unknown: dict[str, Any]) -> None:
    assert causes_of(group(commit(0, 5, -3)), [case("REAPPLIED", 7) | unknown]) == []
    assert causes_of(group(), [case("REAPPLIED", 7) | unknown]) == []


# ---- The sentences.


def test_the_evidence_of_a_record_that_was_applied_again_names_the_end_and_the_last_commit() -> None:
    killed = the_cause(group(commit(0, 5, -3), members=[member("a")]), case("REAPPLIED", 7))
    assert killed.evidence[1] == (
        "At the kill at 00:01:40.000 UTC, the group had committed offset 5 of this partition, at 00:01:37.000 UTC by "
        "member a."
    )
    stopped = the_cause(group(commit(1, 5, -3), injections=()), case("REAPPLIED", 7))
    assert stopped.evidence[1] == (
        "When it was stopped after the load (SIGTERM), the group had committed nothing of this partition."
    )


def test_the_evidence_says_how_often_the_others_were_committed_since() -> None:
    others = [commit(1, number, -0.5 + number / 10) for number in range(4)]
    for first in ([], [commit(0, 5, -3)]):
        cause = the_cause(group(*first, *others), case("REAPPLIED", 7))
        assert cause.what == reapplied.SOME_PARTITIONS.what
        assert cause.evidence[-1] == "Since then, it had committed other partitions 4 times."


def test_of_a_program_that_did_it_by_itself_the_generations_of_its_group_are_told() -> None:
    two = [member("a", generation=0), member("a", -40, 1), member("b", -40, 1)]
    told = the_cause(group(commit(0, 8, -3), members=two), case("REAPPLIED", 7))
    assert told.what == reapplied.BY_ITSELF.what
    assert told.evidence[1:] == ["Its group had 2 generations in this run."]
    for nobody in ([], [member("a", generation=-1)]):
        alone = the_cause(group(commit(0, 8, -3), members=nobody), case("REAPPLIED", 7))
        assert len(alone.evidence) == 1, "the new protocol has no generations of members"


@pytest.mark.parametrize(
    ("offsets", "places"), [([7], "7"), ([7, 8, 1009], "7, 8, 1,009"), ([7, 8, 9, 10], "7, 8, 9"), ([], "")]
)
def test_a_record_is_named_with_its_first_places(offsets: list[int], places: str) -> None:
    cause = the_cause(group(), case("OVERTAKEN", 7, offsets=offsets))
    stands = f"in partition 0 at offset {places}" if places else "at no offset that consumers see"
    assert cause.evidence[0].startswith(f"Record 7 of producer 0 stands {stands}: applied by member 0")


def test_a_record_that_nobody_sent_has_no_producer() -> None:
    for sequence, name in ((None, "A record that was never sent stands"), (7, "Record 7 stands")):
        row = case("GHOST", 7, at_s=None, sequence=sequence, producer=0 if sequence is None else None)
        assert the_cause(group(), row).evidence[0].startswith(name)


# ---- One record among others.


def test_the_cause_of_one_record_is_its_own_and_counts_it_alone() -> None:
    made = group(commit(0, 5, -3), commit(0, 10, -1), commit(0, 30, 9), commit(0, 40, 10))
    rows = [case("SKIPPED", offset) for offset in (22, 8, 9, 33)]
    ahead, left_out = cause_of(made, rows[1], rows), cause_of(made, rows[0], rows)
    assert ahead is not None and left_out is not None
    assert (ahead.what, ahead.count) == (skipped.AHEAD.what, 1)
    assert (left_out.what, left_out.count) == (skipped.LEFT_OUT.what, 1)


# ---- Who committed, and when.


def by(made: Group) -> str:
    return made.by(made.commits[-1])


def test_members_of_the_new_protocol_are_all_named_whenever_they_joined() -> None:
    joined = [member("a", -40, -1), member("b", -30, -1)]
    assert by(group(commit(0, 5, -3), members=joined)) == " by one of the members a, b"


@pytest.mark.parametrize("first", [0, 1])
def test_the_last_generation_before_a_commit_sent_it_also_if_it_is_the_first(first: int) -> None:
    members = [member("new", -45, -1), member("old", -40, first)]
    assert by(group(commit(0, 5, -3), members=members)) == " by member old"


def test_a_member_that_joined_at_the_moment_of_the_kill_is_of_the_next_incarnation() -> None:
    joined = [member("a", -40, -1), member("b", 0, -1, log_offset=999)]
    assert by(group(commit(0, 5, 0), members=joined)) == " by member b"


def test_the_group_log_may_have_moments_of_a_calendar() -> None:
    moment = datetime(2026, 11, 29, 12, 34, 56, 789_000, UTC)
    made = Group.from_rows("t", [commit(0, 10, 0, at=moment)], [], [], None)
    first = made.first_beyond(0, 7)
    assert first is not None and first.at_us == 1_795_955_696_789_000
    (cause,) = causes_of(made, [case("SKIPPED", 7)])
    assert "Offset 10 of this partition was committed at 12:34:56.789 UTC: from then on" in cause.evidence[1]


def timer_s(*gaps_s: float) -> float | None:
    times_s = [sum(gaps_s[:number]) for number in range(len(gaps_s) + 1)]
    return group(*(commit(0, number, at_s) for number, at_s in enumerate(times_s))).timer_s


@pytest.mark.parametrize(
    ("gaps_s", "expected"),
    [
        ((0.4, 0.4, 0.4, 0.4, 0.4), 0.4),
        ((0.8, 0.5, 1, 1, 8), 1),
        ((1.25, 0.5, 1, 1, 8), 1),
        ((0.79, 0.5, 1, 1, 8), None),
        ((1.26, 0.5, 1, 1, 8), None),
    ],
    ids=["as often as a timer may", "a fifth shorter", "a quarter longer", "shorter", "longer"],
)
def test_three_of_five_times_that_hardly_differ_are_those_of_a_timer(
    gaps_s: tuple[float, ...], expected: float | None
) -> None:
    assert timer_s(*gaps_s) == expected
