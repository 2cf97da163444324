"""The moment at which user applications (programs of the user's own) are killed, and what they have in progress then.

They have no crash points. So the verifier freezes each of them again and again, until it has records in progress, and
kills all of them frozen.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from delivery_verifier.applications.own.in_progress import InProgress, Offsets
from delivery_verifier.applications.own.scan import PlaceBusy
from delivery_verifier.applications.pool import group_of
from delivery_verifier.cluster import groups, topics
from delivery_verifier.faults.action import ActionContext, applications_in, load_in, scenario_in
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.scenario import Arm

IN_PROGRESS_S = 20.0
"""How many seconds a kill waits until each application has records in progress."""
WORST_S = 6.0
"""Seconds for which a kill waits for the worst moment of an application (see `_is_worst`). After this time, any records
in progress will do. Clients commit every 5 s by default (auto.commit.interval.ms), so such a moment comes within
this time if it comes at all."""
STILL_S = 2.0
"""Seconds after a kill in which the applications must neither apply nor commit anything."""
_UNDER_WAY_S = 0.05
"""If a member is frozen while its commit is under way, the commit arrives within this many seconds."""
_LATE_S = 0.3
"""Seconds between two looks at what frozen members have in progress. On a busy host, a commit that is under way may
need this longer time to arrive."""
_RUN_S = 0.02

Committed = Callable[[Arm], Offsets]
"""A function that asks what the group of an arm has committed."""


def commits(context: ActionContext) -> Committed:
    """Returns a function that asks what the group of an arm has committed. All calls of the function share one
    client."""
    scenario = scenario_in(context)
    client, partitions = topics.admin(context.cluster.connection), range(scenario.load.partitions)
    return lambda arm: groups.committed_offsets(client, group_of(scenario, arm), arm.topic_name, partitions)


def begin_incarnation(context: ActionContext) -> None:
    """Tells the handle of the user applications that their members are about to begin another incarnation."""
    if own := applications_in(context).own.arms:
        committed = commits(context)
        applications_in(context).own.begin_incarnation({arm.name: committed(arm) for arm in own})


def in_progress(context: ActionContext, arm: Arm, committed: Committed) -> InProgress:
    """Returns what the user application of `arm` has in progress. Call it while its members are frozen or dead."""
    return applications_in(context).own.in_progress(arm, committed(arm), load_in(context).positions(arm))


def freeze_in_progress(context: ActionContext) -> None:
    """Freezes the members of each user application at a moment at which the application has records in progress. Leaves
    the members running if there is no such moment within 20 s.

    For the first 6 s, waits for the worst moment of the application.
    """
    own, begin_s = applications_in(context).own, time.monotonic()
    if not own.arms:
        return
    committed, running = commits(context), list(own.arms)
    try:
        while running and (passed_s := time.monotonic() - begin_s) < IN_PROGRESS_S:
            own.send(signal.SIGSTOP, running)
            pause(_UNDER_WAY_S)
            frozen = [arm for arm in running if _is_moment(context, arm, committed, passed_s)]
            own.send(signal.SIGCONT, [arm for arm in running if arm not in frozen])
            if frozen:
                pause(_LATE_S)
                late = [arm for arm in frozen if not _is_moment(context, arm, committed, passed_s)]
                own.send(signal.SIGCONT, late)
                running = [arm for arm in running if arm not in frozen or arm in late]
            pause(_RUN_S)
    except BaseException:
        own.send(signal.SIGCONT, own.arms)
        raise


def _is_moment(context: ActionContext, arm: Arm, committed: Committed, passed_s: float) -> bool:
    """Returns whether the members of `arm` may be killed now, `passed_s` seconds after the search for a moment
    began."""
    try:
        hand = in_progress(context, arm, committed)
    except PlaceBusy:  # a frozen member has locked its database: this is not the moment
        return False
    return _is_worst(arm, hand) if passed_s < WORST_S else hand.total > 0


def _is_worst(arm: Arm, hand: InProgress) -> bool:
    """Returns whether a kill now does the worst that the arm's claim forbids. What is committed and not applied will be
    skipped. What is applied and not committed will be applied again, which is worse only where skipping is
    permitted."""
    return hand.total > hand.unapplied if arm.claim == "at_most_once" else hand.unapplied > 0


def goes_on(context: ActionContext) -> bool:
    """Returns whether a user application applies or commits anything although its members were killed."""
    own = applications_in(context).own
    if not own.arms:
        return False
    committed = commits(context)

    def state() -> object:
        return own.records(), own.undecided(), [committed(arm) for arm in own.arms]

    pause(_UNDER_WAY_S)
    after_kill = state()
    pause(STILL_S)
    return state() != after_kill
