"""Copies: decides whether the copies of a record in the log can be attempts of one request.

A client hands a record over once, and sends it until it has an answer. So each copy was appended after the record was
sent, and before the record was acknowledged, or soon afterwards: only a request that was under way by then can still
arrive. The order of the log shows when a copy was appended. It stands behind records that were appended before it, so
after they were sent. It stands before records that were appended after it, so before they were acknowledged. A client
sends a record to one partition only.

A copy for which this is impossible is no retry: somebody else wrote it, or the log was altered. All functions are pure.
All times are in µs since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from delivery_verifier.contract.times import Span
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.verdict.cases import Case
from delivery_verifier.verdict.windows import CLIENT_LAG_US

CLOCK_SLACK_US = 100_000
"""How far the clock can be set back without being noticed (µs). The observer writes its times at least this often."""
STRAY_US = 10_000_000
"""If nothing held up requests, no request is appended later than this after its record was acknowledged by another one,
or was given up (µs). Such a request has reached the broker by then, and only waits for a thread of the broker. This is
a bound on a busy host, and no promise of Kafka: for a record that was given up, a later copy is a doubt."""


class Placement(Enum):
    """Whether the copies of a record can be attempts of one request. UNSEEN: the run did not write down where and when
    the copies were appended. UNKNOWN: what was seen does not decide it."""

    POSSIBLE = auto()
    IMPOSSIBLE = auto()
    UNSEEN = auto()
    UNKNOWN = auto()


def placement_of(case: Case, delays: Iterable[Span], *, one_log: bool) -> Placement:
    """Returns whether the copies of a record can be attempts of one request. `delays`: when requests were held up.
    `one_log`: whether the partition had one leader throughout, so that nothing in its log was ever written anew."""
    if case.partitions is None or case.partition is None or case.sent_us is None:
        return Placement.UNSEEN
    if any(partition != case.partition for partition in case.partitions):
        return Placement.IMPOSSIBLE
    if case.appended_before_us is not None and case.appended_before_us + CLOCK_SLACK_US < case.sent_us:
        return Placement.IMPOSSIBLE
    if case.outcome == Outcome.SENT or case.settled_us is None or case.appended_after_us is None:
        return Placement.POSSIBLE
    if one_log and case.stands_where_acked:  # it stood there when it was acknowledged
        is_late = case.appended_after_us > case.settled_us + CLOCK_SLACK_US
        return Placement.IMPOSSIBLE if is_late else Placement.POSSIBLE
    return _after_the_answer(case.outcome, case.settled_us, case.appended_after_us, delays)


def _after_the_answer(outcome: str | None, settled_us: int, appended_us: int, delays: Iterable[Span]) -> Placement:
    late_us, usual_us = appended_us - settled_us, CLIENT_LAG_US if outcome == Outcome.ACKED else STRAY_US
    if late_us <= usual_us or any(_explains(span, settled_us, appended_us) for span in delays):
        return Placement.POSSIBLE
    return Placement.IMPOSSIBLE if late_us > STRAY_US and outcome == Outcome.ACKED else Placement.UNKNOWN


def _explains(span: Span, settled_us: int, appended_us: int) -> bool:
    """Returns whether a request that was under way when its record was settled can have been held up until its copy was
    appended."""
    begin_us, end_us = span
    return begin_us <= settled_us and (end_us is None or appended_us <= end_us)
