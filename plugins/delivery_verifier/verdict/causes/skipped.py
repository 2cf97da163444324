"""Why a user application skipped records: which commit covers them, and what stands behind them.

A commit of offset n says that everything below n is done. So a group that has committed an offset beyond a record lets
go of it: no member is given the record again. If the record was never applied, the program, or its client library,
committed what it had not applied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from delivery_verifier.verdict.causes.group import Group, clock
from delivery_verifier.verdict.causes.pattern import Applied, Pattern


def skipped(group: Group, cases: Sequence[Applied]) -> list[Pattern | None]:
    """Returns the pattern of each case. None: nothing in progress shows that the program did it."""
    offsets = defaultdict[int, set[int]](set)
    for case in cases:
        if case.partition is not None:
            offsets[case.partition].update(case.offsets)
    runs = {partition: _Runs(own) for partition, own in offsets.items()}
    return [_pattern(group, case, runs) for case in cases]


class _Runs:
    """The runs of skipped offsets of one partition. Each is a range without a gap."""

    def __init__(self, offsets: set[int]) -> None:
        ordered = sorted(offsets)
        self._first = [offset for offset in ordered if offset - 1 not in offsets]
        self._last = [offset for offset in ordered if offset + 1 not in offsets]

    def around(self, offset: int) -> tuple[int, int]:
        """Returns the first and the last offset of the run that holds `offset`."""
        index = bisect_right(self._first, offset) - 1
        return self._first[index], self._last[index]


def _pattern(group: Group, case: Applied, runs: Mapping[int, _Runs]) -> Pattern | None:
    if case.partition is None or not case.offsets:
        return None
    offset = max(case.offsets)
    cover = group.first_beyond(case.partition, offset)
    if cover is None:
        is_older = case.sent_us is not None and group.kill_after(case.sent_us) is not None
        return KEPT_ELSEWHERE if is_older and not group.commits else None
    first, last = runs[case.partition].around(offset)
    end = group.end_after(cover.at_us)
    committed = group.last_before(case.partition, end.at_us) if end else None
    if end and committed and last + 1 == committed.offset:
        return AHEAD if end.is_kill else AHEAD_AT_THE_END
    if first == 0:
        return JUMPED_OVER
    return OVER_A_GAP if end and end.is_kill and committed == cover else LEFT_OUT


def _committed(group: Group, case: Applied) -> list[str]:
    assert case.partition is not None, "the pattern is about a case with a partition"
    cover = group.first_beyond(case.partition, max(case.offsets))
    assert cover is not None, "the pattern is about a case that a commit covers"
    end = group.end_after(cover.at_us)
    killed = f" Its members were killed at {clock(end.at_us)}." if end and end.is_kill else ""
    return [
        f"{case.in_words}, and no member ever applied it.",
        f"Offset {cover.offset:,} of this partition was committed at {clock(cover.at_us)}{group.by(cover)}: from then "
        f"on the group is not given the record any more.{killed}",
    ]


def _before_the_kill(group: Group, case: Applied) -> list[str]:
    kill = group.kill_after(case.sent_us or 0)
    assert kill is not None, "the pattern is about a case before a kill"
    return [
        f"{case.in_words}, and no member ever applied it.",
        f"It was sent before the kill at {clock(kill.at_us)}. Kafka had no offset of the group, so the program itself "
        "chose where to go on.",
    ]


def _timer(group: Group) -> list[str]:
    return (
        [f"commits on a timer (enable.auto.commit, a scheduler): the group committed about every {group.timer_s:.1f} s"]
        if group.timer_s
        else []
    )


AHEAD = Pattern(
    "The program, or its client library, committed offsets of records that it had not applied, and was killed before "
    "it applied them.",
    _committed,
    lambda group: [
        *_timer(group),
        "a commit before the write is durable",
        "a buffer, queue or thread between poll() and the write, of which the commit knows nothing",
    ],
)
AHEAD_AT_THE_END = Pattern(
    "The program, or its client library, committed offsets of records that it had not applied, and ended without "
    "applying them when it was stopped.",
    _committed,
    lambda group: [
        "a buffer, queue or thread that is dropped when the program is told to end (SIGTERM, close())",
        "a commit before the write is durable",
        *_timer(group),
    ],
)
OVER_A_GAP = Pattern(
    "The program, or its client library, committed past records that it had not applied, and had applied others behind "
    "them.",
    _committed,
    lambda group: [
        "a commit of the batch's last position while some of its records are still in work (threads, asynchronous "
        "writes)",
        "an exception that is caught and logged, after which the commit goes on",
        *_timer(group),
    ],
)
LEFT_OUT = Pattern(
    "The program, or its client library, left records out while it ran on, and committed past them.",
    _committed,
    lambda group: [
        "an exception that is caught and logged, after which the commit goes on",
        "a commit of the batch's last position over a record that failed, or was put aside for a retry",
        "a filter, a full queue or a time-out that drops records",
    ],
)
JUMPED_OVER = Pattern(
    "The program began behind the first records of the topic, and committed past them.",
    _committed,
    lambda group: [
        "auto.offset.reset=latest, which is the default: a group without offsets begins at the end of the log",
        "a seek to the end when the program starts",
    ],
)
KEPT_ELSEWHERE = Pattern(
    "The program went on behind records that it had not applied. Its group has never committed, so the program keeps "
    "its offsets elsewhere.",
    _before_the_kill,
    lambda group: [
        "offsets (a checkpoint, a commit log) that are stored before the sink has the records",
        "auto.offset.reset=latest, which is the default, beside offsets that the kill has lost",
    ],
)
