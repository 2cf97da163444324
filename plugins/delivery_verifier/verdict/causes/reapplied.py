"""Why a user application applied records again: what its group had committed when its members ended."""

from __future__ import annotations

from collections.abc import Sequence

from delivery_verifier.verdict.causes.group import End, Group, clock
from delivery_verifier.verdict.causes.pattern import Applied, Pattern

OTHERS = 3
"""A partition lags behind if its group has committed other partitions this often since the partition's last commit."""


def reapplied(group: Group, cases: Sequence[Applied]) -> list[Pattern | None]:
    """Returns the pattern of each case."""
    return [_pattern(group, case) for case in cases]


def _pattern(group: Group, case: Applied) -> Pattern | None:
    if case.partition is None or case.sent_us is None or not case.offsets:
        return None
    if any(rewind_us >= case.sent_us for rewind_us in group.rewinds_us):
        return SET_BACK
    if not group.commits:
        return KEPT_ELSEWHERE if group.kill_after(case.sent_us) is not None else BY_ITSELF
    end = _uncommitted_at(group, case)
    if end is None:
        return BY_ITSELF
    if group.commits_one_by_one and _others(group, case, end) >= OTHERS:
        return SOME_PARTITIONS
    return APART if end.is_kill else NOT_COMMITTED_AT_THE_END


def _uncommitted_at(group: Group, case: Applied) -> End | None:
    """Returns the first end of the members behind the sending of the record at which its offset was not committed."""
    assert case.partition is not None and case.sent_us is not None, "a case that stands nowhere has no pattern"
    for end in group.ends:
        last = group.last_before(case.partition, end.at_us)
        if end.at_us >= case.sent_us and (last is None or last.offset <= min(case.offsets)):
            return end
    return None


def _others(group: Group, case: Applied, end: End) -> int:
    """Returns how often the group committed other partitions before the end of its members, since the record was sent
    and since the last commit of its partition."""
    assert case.partition is not None and case.sent_us is not None, "a case that stands nowhere has no pattern"
    last = group.last_before(case.partition, end.at_us)
    return group.count(max(case.sent_us, last.at_us) if last else case.sent_us, end.at_us)


def _at_the_end(group: Group, case: Applied) -> list[str]:
    end = _uncommitted_at(group, case)
    assert end is not None and case.partition is not None, "the pattern is about an end"
    last = group.last_before(case.partition, end.at_us)
    state = (
        f"the group had committed offset {last.offset:,} of this partition, at {clock(last.at_us)}{group.by(last)}"
        if last
        else "the group had committed nothing of this partition"
    )
    return [f"{case.in_words}: {case.applied}.", f"{end.in_words}, {state}."]


def _lagging(group: Group, case: Applied) -> list[str]:
    end = _uncommitted_at(group, case)
    assert end is not None, "the pattern is about an end"
    count = _others(group, case, end)
    return [*_at_the_end(group, case), f"Since then, it had committed other partitions {count:,} times."]


def _without_an_end(group: Group, case: Applied) -> list[str]:
    generations = group.generations
    rebalances = f"Its group had {generations} generations in this run." if generations else ""
    return [f"{case.in_words}: {case.applied}.", *([rebalances] if rebalances else [])]


def _unseen(group: Group, case: Applied) -> list[str]:
    return [f"{case.in_words}: {case.applied}."]


_TOGETHER = "effect and offset that are stored apart: store the offset in the sink's own transaction, and begin there"
_KEYED = "effects without a key: write each under its topic, partition and offset"

APART = Pattern(
    "The program had applied records, and not committed their offsets, when it was killed. So its group was given them "
    "again.",
    _at_the_end,
    lambda group: [_TOGETHER, _KEYED],
)
NOT_COMMITTED_AT_THE_END = Pattern(
    "The program had applied records, and ended without committing their offsets when it was stopped. So its group was "
    "given them again.",
    _at_the_end,
    lambda group: [
        "a program that ends without a last commit when it is told to (SIGTERM, close())",
        _TOGETHER,
        _KEYED,
    ],
)
SOME_PARTITIONS = Pattern(
    "The program, or its client library, commits only some of the partitions of which it has applied records. So its "
    "group was given the others again.",
    _lagging,
    lambda group: [
        "a commit of one record or one partition, e.g. `commit(message)`, after a batch with records of several "
        "partitions: commit the position of each",
        _TOGETHER,
        _KEYED,
    ],
)
SET_BACK = Pattern(
    "The plan set the group back, and the program applied the records again: its sink does not know that it has them.",
    _unseen,
    lambda group: [_KEYED, _TOGETHER],
)
KEPT_ELSEWHERE = Pattern(
    "The program applied records again after it was killed. Its group has never committed, so the program keeps its "
    "offsets elsewhere.",
    _unseen,
    lambda group: [
        "a sink that has the records before their offsets (a checkpoint, a commit log) are stored: store both in one "
        "transaction",
        _KEYED,
    ],
)
BY_ITSELF = Pattern(
    "The program applied records more than once, and neither a kill nor a stop made its group be given them again.",
    _without_an_end,
    lambda group: [
        "a batch that is worked on as a whole again after an error",
        "a member that loses its partitions while it works: max.poll.interval.ms, session.timeout.ms",
        "a commit that is refused after a rebalance, and never checked",
    ],
)
