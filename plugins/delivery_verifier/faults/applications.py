"""Actions on applications: they park members, kill members and start them again, and set back the committed offsets of
groups.

An application is the program that consumes an arm's topic. Its members are processes. An *own* application is a program
of the user's own.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from typing import cast

from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.own.handle import OwnHandle
from delivery_verifier.applications.own.scan import PlaceBusy
from delivery_verifier.applications.pool import applications_of, group_of
from delivery_verifier.cluster import groups, topics
from delivery_verifier.faults.action import ActionContext, ActionProof
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.application import CrashPoint
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario

IN_HAND_S = 20.0
"""How many seconds a kill waits for a moment at which own applications have records in hand."""
UNCOMMITTED_S = 5.0
"""Seconds for which a kill waits for records that are applied and not committed. After this time, the kill also accepts
records that are committed and not applied. An application that commits before it applies has only such records."""
STILL_S = 2.0
"""Seconds after a kill in which own applications must neither apply nor commit anything."""
_UNDER_WAY_S = 0.05
"""If a member is frozen while its commit is under way, the commit arrives within this many seconds."""
_LATE_S = 0.3
"""Seconds between two looks at what frozen members have in hand. On a busy host, a commit that is under way may need
this longer time to arrive."""
_RUN_S = 0.02


class Park:
    """Orders every member to stand still at a crash point. A crash point is a named place in a member's work on a
    batch.

    The options `at`, `batch` and `record` name the place. The action by itself breaks nothing, and has no proof.
    """

    def do(self, context: ActionContext) -> int:
        """Gives the order. Returns before the members are parked, because the trigger `parked` waits for that."""
        options, ordered_at_us = context.options, now_us()
        point = cast(CrashPoint, options["at"])
        applications_in(context).park(point, int(options.get("batch", 1)), int(options.get("record", 1)))
        return ordered_at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns an empty proof, because the action breaks nothing."""
        return {}


class KillApplication:
    """Kills all members of all applications at the same moment. The action `restart_application` heals the injection.

    The proof consists of these facts:

    * SIGKILL ended every member.
    * In each arm, the members had at least one record in hand: they had been given it, and had not finished it.
    * Every member that was ordered to park was parked.
    * The user's own applications neither applied nor committed anything in the 2 s after the kill. Otherwise a part of
      the program runs elsewhere, e.g. in a container, and was not killed.
    """

    def __init__(self) -> None:
        self._goes_on = False

    def do(self, context: ActionContext) -> int:
        """Kills the members, and waits until no member runs. Raises DeadlinePassed.

        If the run has applications of the user's own, first looks for a moment at which each of them has records in
        hand. Kills the members at this moment, or after 20 s if there is no such moment.
        """
        _freeze_in_hand(context)
        killed_at_us = now_us()
        applications_in(context).kill()
        self._goes_on = _goes_on(context)
        return killed_at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns how each member ended, where it had parked, and how many records each arm had in hand.

        The keys are `member <name>`, `member <name> parked at` and `in hand of <arm>`. Empty if the kill is not proven.
        """
        applications = applications_in(context)
        exits, parked = applications.exits(), applications.parked_at()
        in_hand = {**applications.in_hand(), **applications.own.in_hand(_committed(context))}
        was_killed = len(exits) == applications.members and set(exits.values()) == {-signal.SIGKILL}
        if not (was_killed and not self._goes_on and all(in_hand.values()) and all(parked.values())):
            return {}
        return {
            **{f"member {name}": how_it_ended(code) for name, code in exits.items()},
            **{f"member {name} parked at": point for name, point in parked.items()},
            **{f"in hand of {arm}": count for arm, count in in_hand.items()},
        }


class RestartApplication:
    """Starts again all members that were killed. This action has no proof."""

    def do(self, context: ActionContext) -> int:
        """Starts the members, and waits until each has its partitions. Raises DeadlinePassed."""
        started_at_us = now_us()
        applications_in(context).own.begin_life(_committed(context))
        applications_in(context).restart()
        return started_at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns an empty proof, because the action breaks nothing."""
        return {}


class Rewind:
    """Sets the committed offset of every application's group back to 0 in every partition, as an operator might.

    First stops the members in an orderly way. Starts the members again afterwards. The proof: every group had committed
    an offset above 0, and while no member ran after the change, the brokers reported offset 0 for every partition.
    """

    def __init__(self) -> None:
        self._facts: ActionProof = {}

    def do(self, context: ActionContext) -> int:
        """Stops the members, sets back the offsets of their groups, and starts them. Waits until they have their
        partitions.

        Raises DeadlinePassed, and KafkaException or ValueError if a group cannot be set back.
        """
        self._facts = {}
        applications, scenario = applications_in(context), scenario_in(context)
        applications.stop()
        client, partitions = topics.admin(context.cluster.connection), range(scenario.load.partitions)
        set_back_at_us, facts = now_us(), dict[str, int]()
        for arm, _ in applications_of(scenario):
            group = group_of(scenario, arm)
            before = groups.committed_offsets(client, group, arm.topic_name, partitions)
            groups.set_offsets(client, group, arm.topic_name, dict.fromkeys(partitions, 0))
            after = groups.committed_offsets(client, group, arm.topic_name, partitions)
            facts[f"rewound {arm.name}"] = 0 if any(after.values()) else sum(before.values())
        self._facts = facts if all(facts.values()) else {}
        applications.own.begin_life(_committed(context))
        applications.restart()
        return set_back_at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns by how many records the latest rewind set back the group of each arm. The keys are `rewound <arm>`.

        The result is empty if a group was not set back by at least one record.
        """
        return self._facts


def are_caught_up(context: ActionContext) -> bool:
    """Returns whether every application has finished the records of its arm: no attempt of these arms is outstanding,
    each group has committed the end offset of each partition, and the members have applied all records that they were
    given."""
    scenario, load, applications = scenario_in(context), context.load, applications_in(context)
    arms = [arm for arm, _ in applications_of(scenario)]
    if load is None or load.outstanding(arms):
        return False
    client, partitions = topics.admin(context.cluster.connection), range(scenario.load.partitions)
    for arm in arms:
        ends = topics.high_watermarks(client, [(arm.topic_name, partition) for partition in partitions])
        committed = groups.committed_offsets(client, group_of(scenario, arm), arm.topic_name, partitions)
        if any(committed[partition] != ends[arm.topic_name, partition] for partition in partitions):
            return False
    return applications.are_idle()


def _committed(context: ActionContext) -> dict[str, int]:
    """Maps each arm with an application of the user's own to the number of records that its group has committed."""
    return _commits(context)() if applications_in(context).own.arms else {}


def _commits(context: ActionContext) -> Callable[[], dict[str, int]]:
    """Returns a function that maps each arm with an application of the user's own to the number of records that its
    group has committed. All calls of the function share one client."""
    scenario, own = scenario_in(context), applications_in(context).own
    client, partitions = topics.admin(context.cluster.connection), range(scenario.load.partitions)
    return lambda: {
        arm.name: sum(groups.committed_offsets(client, group_of(scenario, arm), arm.topic_name, partitions).values())
        for arm in own.arms
    }


def _freeze_in_hand(context: ActionContext) -> None:
    """Freezes the members of the user's own applications at a moment at which each of these applications has records in
    hand. If there is no such moment within 20 s, leaves the members running."""
    own, begin_s = applications_in(context).own, time.monotonic()
    if not own.arms:
        return
    committed = _commits(context)
    while (passed_s := time.monotonic() - begin_s) < IN_HAND_S:
        own.send(signal.SIGSTOP)
        pause(_UNDER_WAY_S)
        is_any = passed_s >= UNCOMMITTED_S
        try:
            if _have_in_hand(own, committed(), is_any_difference=is_any):
                pause(_LATE_S)
                if _have_in_hand(own, committed(), is_any_difference=is_any):
                    return
        except BaseException:
            own.send(signal.SIGCONT)
            raise
        own.send(signal.SIGCONT)
        pause(_RUN_S)


def _have_in_hand(own: OwnHandle, committed: Mapping[str, int], *, is_any_difference: bool) -> bool:
    """Returns whether each application of the user's own has records in hand. With `is_any_difference`, it is also
    enough if the numbers of applied and committed records differ. Call it while the members are frozen."""
    try:
        in_hand = own.in_hand(committed)
        apart = own.apart(committed) if is_any_difference else {}
    except PlaceBusy:  # a frozen member has locked its database: this is not the moment
        return False
    return all(count or apart.get(arm) for arm, count in in_hand.items())


def _goes_on(context: ActionContext) -> bool:
    """Returns whether an application of the user's own applies or commits anything although its members were killed."""
    own = applications_in(context).own
    if not own.arms:
        return False
    pause(_UNDER_WAY_S)
    after_kill = own.records(), own.undecided(), _committed(context)
    pause(STILL_S)
    return (own.records(), own.undecided(), _committed(context)) != after_kill


def applications_in(context: ActionContext) -> RunningApplications:
    """Returns the applications of the run. Raises ValueError if the context has none."""
    if context.applications is None:
        raise ValueError("an action on applications needs applications")
    return context.applications


def scenario_in(context: ActionContext) -> Scenario:
    """Returns the scenario of the run. Raises ValueError if the context has none."""
    if context.scenario is None:
        raise ValueError("an action on applications needs a scenario")
    return context.scenario
