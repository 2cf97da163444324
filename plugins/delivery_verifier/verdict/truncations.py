"""Truncations: decides whether an election can have taken an acknowledged record from the log, by its offset.

The logs of new leaders decide (see `contract.elections`). If the last of them had the record, no election took it, and
it has vanished from the log in some other way. Otherwise one of them was the first that lacked it for good. A case is
explained only if this election, or the loss of power before it, permits the anomaly.

Nobody says which leader acknowledged a record. Its offset, and the times of the record, of the elections and of the
processes, leave one epoch or several. If the epochs lead to different answers, the log decides: a leader appends each
offset once, so a log that was written anew at the record's offset is not the log that had the record.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from delivery_verifier.contract.effect_windows import EffectWindow
from delivery_verifier.contract.elections import Answer, Elections
from delivery_verifier.contract.rules.rule import ELECTIONS
from delivery_verifier.verdict.cases import Case
from delivery_verifier.verdict.windows import before_the_end, nearest, settled_within


class Fate(Enum):
    """What became of a record, if no disturbance surely explains its loss.

    * KEPT: no disturbance that permits the anomaly can have taken it.
    * UNSEEN: a disturbance may have taken it, but nobody saw how far the log of the new leader reached.
    * UNKNOWN: what was seen does not decide it.
    """

    KEPT = auto()
    UNSEEN = auto()
    UNKNOWN = auto()


class Causes(NamedTuple):
    """The disturbances that permit an anomaly (`windows`), and further ones that may permit it (`possible`).

    If an unclean election permits the anomaly, `possible` holds every change of leader. Each of these changes may have
    been an unclean election, because the observer may have missed that the ISR shrank just before. Otherwise `possible`
    is empty.
    """

    windows: Sequence[EffectWindow]
    possible: Sequence[EffectWindow] = ()


def has_one_log(case: Case, elections: Mapping[int, Elections]) -> bool:
    """Returns whether the partition of the case had one leader epoch throughout, so that nothing in its log was ever
    written anew. `elections` maps a partition of the arm to its elections."""
    return case.partition is not None and case.partition in elections and not elections[case.partition].seen


def fate_of(case: Case, causes: Causes, elections: Mapping[int, Elections]) -> int | Fate:
    """Returns the index in `causes.windows` of the disturbance that took the acknowledged copy of a record, or its
    Fate.

    If several can have taken it, the nearest in time counts. `elections` maps a partition of the arm to its elections.
    """
    history = None if case.partition is None else elections.get(case.partition)
    if history is None or case.acked_offset is None or case.sent_us is None or case.settled_us is None:
        return Fate.UNKNOWN
    epochs = history.epochs_of(case.acked_offset, case.sent_us, case.settled_us)
    fates = [_in_epoch(epoch, case, causes, history) for epoch in epochs]
    taken = {fate for fate in fates if isinstance(fate, int)}
    others = {fate for fate in fates if isinstance(fate, Fate)}
    if taken and (not others or (others == {Fate.KEPT} and case.overwritten)):
        index = nearest(case, causes.windows, taken)
        assert index is not None
        return index
    if others == {Fate.KEPT} and not taken:
        return Fate.KEPT
    return Fate.UNSEEN if Fate.UNSEEN in others else Fate.UNKNOWN


def _in_epoch(epoch: int, case: Case, causes: Causes, history: Elections) -> int | Fate:
    """Like `fate_of`, if the leader of `epoch` acknowledged the record."""
    assert case.acked_offset is not None
    here = [window for window in (*causes.windows, *causes.possible) if before_the_end(case, window)]
    if not any(_is_later(window, epoch, history) for window in here):
        return Fate.KEPT  # nothing that permits it happened here after it was acknowledged
    if not all(_is_answered(window, history) for window in here):
        return Fate.UNSEEN
    answer = history.taken_by(case.acked_offset, epoch)
    if answer is None:
        return Fate.KEPT
    windows = causes.windows
    timely = [index for index, window in enumerate(windows) if settled_within(case, window)]
    taker = nearest(case, windows, [index for index in timely if _speaks_for(answer, windows[index], history)])
    if taker is not None:
        return taker
    return Fate.UNKNOWN if any(_speaks_for(answer, window, history) for window in here) else Fate.KEPT


def _is_later(window: EffectWindow, epoch: int, history: Elections) -> bool:
    """Returns whether the disturbance of `window` elected a later leader than that of `epoch`. A loss of power did: an
    election follows on it."""
    is_election = window.disturbance.kind in ELECTIONS
    return not is_election or any(later > epoch for later in history.elected_at(window.disturbance.at_us))


def _is_answered(window: EffectWindow, history: Elections) -> bool:
    """Returns whether a new leader said what its log had after the disturbance of `window`."""
    if window.disturbance.kind in ELECTIONS:
        return history.is_answered
    return history.is_answered and any(answer.at_us >= window.begun_us for answer in history.answers)


def _speaks_for(answer: Answer, window: EffectWindow, history: Elections) -> bool:
    """Returns whether the log in `answer` shows what the disturbance of `window` took.

    After a loss of power these are the answers from then on, up to the first one after the power was back: whoever is
    elected first decides what is left, and the others follow.
    """
    if window.disturbance.kind in ELECTIONS:
        return any(history.answer_of(epoch) == answer for epoch in history.elected_at(window.disturbance.at_us))
    later = [other.at_us for other in history.answers if window.until_us is not None and other.at_us >= window.until_us]
    return window.begun_us <= answer.at_us <= min(later, default=answer.at_us)
