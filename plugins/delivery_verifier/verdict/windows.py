"""Windows: whether the times of a case fall into the effect window of a disturbance, the time in which it can hurt
records.

All functions are pure. All times are in µs since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from delivery_verifier.contract.effect_windows import EffectWindow
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.verdict.cases import Case

CLIENT_LAG_US = 2_000_000
"""The longest time (µs) from a broker's acknowledgement until a busy client learns of the acknowledgement."""


def sent_before(case: Case, window: EffectWindow) -> bool:
    """Returns whether the record was sent before the end of `window`. The disturbance hurts no record that is sent
    later."""
    return case.sent_us is not None and _within(case.sent_us, window)


def before_the_end(case: Case, window: EffectWindow) -> bool:
    """Returns whether the disturbance touched the record's partition, and the record was sent before the end of
    `window`."""
    return case.partition is not None and window.touches(case.partition) and sent_before(case, window)


def in_transaction(case: Case, window: EffectWindow) -> bool:
    """Returns whether the record's transaction was surely open at some time within `window`.

    The transaction is open at least from the time when the record is sent until the record is settled. If `window`
    began after the record was settled, the result is False: the transaction may still have been open then, but nobody
    knows when it ended.
    """
    settled_us = case.sent_us if case.settled_us is None else case.settled_us
    begun = window.since_us is None or (settled_us is not None and settled_us >= window.since_us)
    return begun and sent_before(case, window)


def settled_within(case: Case, window: EffectWindow) -> bool:
    """Returns whether the record was settled after the begin of `window`, and sent to a partition that the disturbance
    touched before the end of `window`."""
    begun = case.settled_us is not None and (window.since_us is None or case.settled_us >= window.since_us)
    return begun and before_the_end(case, window)


def under_way(case: Case, window: EffectWindow) -> bool:
    """Returns whether the record was under way at some time between the disturbance and the end of `window`."""
    if case.sent_us is None or case.partition is None or not window.touches(case.partition):
        return False
    begun = case.settled_us is None or case.settled_us >= window.disturbance.at_us - OBSERVER_LAG_US
    return begun and _within(case.sent_us - CLIENT_LAG_US, window)


def nearest(case: Case, windows: Sequence[EffectWindow], indexes: Iterable[int]) -> int | None:
    """Returns the one of `indexes` whose disturbance in `windows` is nearest in time to the case; None if there are no
    indexes.

    The time of the case is when its record was settled or, if it was never settled, when it was sent.
    """
    at_us = (case.sent_us if case.settled_us is None else case.settled_us) or 0
    return min(indexes, key=lambda index: abs(windows[index].disturbance.at_us - at_us), default=None)


def _within(at_us: int, window: EffectWindow) -> bool:
    return window.until_us is None or at_us <= window.until_us + OBSERVER_LAG_US
