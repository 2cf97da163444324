"""The moment at which own applications (programs of the user's own) are killed, and what they have in hand then.

They have no crash points. So the verifier freezes them again and again, until each has records in hand, and kills them
frozen.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping

from delivery_verifier.applications.own.in_hand import InHand, Offsets
from delivery_verifier.applications.own.scan import PlaceBusy
from delivery_verifier.applications.pool import group_of
from delivery_verifier.cluster import groups, topics
from delivery_verifier.faults.action import ActionContext, applications_in, load_in, scenario_in
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.scenario import Arm

IN_HAND_S = 20.0
"""How many seconds a kill waits for a moment at which each application has records in hand."""
WORST_S = 6.0
"""Seconds for which a kill waits for a moment at which it can break the claim of each application. After this time, any
records in hand will do. Clients commit every 5 s by default (auto.commit.interval.ms), so such a moment comes within
this time if it comes at all."""
STILL_S = 2.0
"""Seconds after a kill in which the applications must neither apply nor commit anything."""
_UNDER_WAY_S = 0.05
"""If a member is frozen while its commit is under way, the commit arrives within this many seconds."""
_LATE_S = 0.3
"""Seconds between two looks at what frozen members have in hand. On a busy host, a commit that is under way may need
this longer time to arrive."""
_RUN_S = 0.02

Committed = Mapping[str, Offsets]
"""Maps each arm with an own application to the offsets that its group has committed."""


def commits(context: ActionContext) -> Callable[[], Committed]:
    """Returns a function that asks what the groups of the own applications have committed. All calls of the function
    share one client."""
    scenario, own = scenario_in(context), applications_in(context).own
    if not own.arms:
        return dict
    client, partitions = topics.admin(context.cluster.connection), range(scenario.load.partitions)
    return lambda: {
        arm.name: groups.committed_offsets(client, group_of(scenario, arm), arm.topic_name, partitions)
        for arm in own.arms
    }


def in_hand(context: ActionContext, committed: Committed) -> dict[str, InHand]:
    """Maps each arm with an own application to what the application has in hand. Call it while the members are frozen
    or dead."""
    own = applications_in(context).own
    load = load_in(context) if own.arms else None
    return own.in_hand(committed, {arm.name: load.positions(arm) for arm in own.arms} if load else {})


def freeze_in_hand(context: ActionContext) -> None:
    """Freezes the members of the own applications at a moment at which each of these applications has records in hand.
    If there is no such moment within 20 s, leaves the members running.

    For the first 6 s, waits for a moment at which the kill can break the claim of each application.
    """
    own, begin_s = applications_in(context).own, time.monotonic()
    if not own.arms:
        return
    committed = commits(context)
    while (passed_s := time.monotonic() - begin_s) < IN_HAND_S:
        own.send(signal.SIGSTOP)
        pause(_UNDER_WAY_S)
        try:
            if _is_moment(context, committed(), passed_s):
                pause(_LATE_S)
                if _is_moment(context, committed(), passed_s):
                    return
        except BaseException:
            own.send(signal.SIGCONT)
            raise
        own.send(signal.SIGCONT)
        pause(_RUN_S)


def _is_moment(context: ActionContext, committed: Committed, passed_s: float) -> bool:
    """Returns whether the members may be killed now, `passed_s` seconds after the search for a moment began."""
    try:
        hands = in_hand(context, committed)
    except PlaceBusy:  # a frozen member has locked its database: this is not the moment
        return False
    if passed_s < WORST_S:
        return all(_can_break(arm, hands[arm.name]) for arm in applications_in(context).own.arms)
    return all(hand.total for hand in hands.values())


def _can_break(arm: Arm, hand: InHand) -> bool:
    """Returns whether a kill can break the arm's claim. What is committed and not applied will be skipped. What is
    applied and not committed will be applied again, which only some claims forbid."""
    if arm.claim == "exactly_once":
        return hand.total > 0
    return hand.total > hand.unapplied if arm.claim == "at_most_once" else hand.unapplied > 0


def goes_on(context: ActionContext) -> bool:
    """Returns whether an own application applies or commits anything although its members were killed."""
    own = applications_in(context).own
    if not own.arms:
        return False
    committed = commits(context)
    pause(_UNDER_WAY_S)
    after_kill = own.records(), own.undecided(), committed()
    pause(STILL_S)
    return (own.records(), own.undecided(), committed()) != after_kill
