"""Windows: whether the times of a case fall into the reach of a disturbance, the time in which it can hurt records.

All functions are pure. All times are in µs since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.reach import Reach
from delivery_verifier.judgement.cases import Case

CLIENT_LAG_US = 2_000_000
"""The longest time (µs) from a broker's acknowledgement until a busy client learns of the acknowledgement."""


def sent_before(case: Case, reach: Reach) -> bool:
    """Returns whether the record was sent before the end of `reach`. The disturbance hurts no record that is sent
    later."""
    return case.sent_us is not None and _within(case.sent_us, reach)


def before_the_end(case: Case, reach: Reach) -> bool:
    """Returns whether the disturbance touched the record's partition, and the record was sent before the end of
    `reach`."""
    return case.partition is not None and reach.touches(case.partition) and sent_before(case, reach)


def in_transaction(case: Case, reach: Reach) -> bool:
    """Returns whether the record's transaction was surely open at some time within `reach`.

    The transaction is open at least from the time when the record is sent until the record is settled. If `reach` began
    after the record was settled, the result is False: the transaction may still have been open then, but nobody knows
    when it ended.
    """
    settled_us = case.sent_us if case.settled_us is None else case.settled_us
    begun = reach.since_us is None or (settled_us is not None and settled_us >= reach.since_us)
    return begun and sent_before(case, reach)


def settled_within(case: Case, reach: Reach) -> bool:
    """Returns whether the record was settled after the begin of `reach`, and sent to a partition that the disturbance
    touched before the end of `reach`."""
    begun = case.settled_us is not None and (reach.since_us is None or case.settled_us >= reach.since_us)
    return begun and before_the_end(case, reach)


def under_way(case: Case, reach: Reach) -> bool:
    """Returns whether the record was under way at some time between the disturbance and the end of `reach`."""
    if case.sent_us is None or case.partition is None or not reach.touches(case.partition):
        return False
    begun = case.settled_us is None or case.settled_us >= reach.disturbance.at_us - OBSERVER_LAG_US
    return begun and _within(case.sent_us - CLIENT_LAG_US, reach)


def nearest(case: Case, reached: Sequence[Reach], indexes: Iterable[int]) -> int | None:
    """Returns the one of `indexes` whose disturbance in `reached` is nearest in time to the case; None if there are no
    indexes.

    The time of the case is when its record was settled or, if it was never settled, when it was sent.
    """
    at_us = (case.sent_us if case.settled_us is None else case.settled_us) or 0
    return min(indexes, key=lambda index: abs(reached[index].disturbance.at_us - at_us), default=None)


def _within(at_us: int, reach: Reach) -> bool:
    return reach.until_us is None or at_us <= reach.until_us + OBSERVER_LAG_US
