"""Actions on applications: they park members, kill members and start them again, and set back the committed offsets of
groups.

An application is the program that consumes an arm's topic. Its members are processes. An *own* application is a program
of the user's own.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import cast

from delivery_verifier.applications.pool import applications_of, group_of
from delivery_verifier.cluster import groups, topics
from delivery_verifier.faults.action import (
    Action,
    ActionContext,
    ActionProof,
    Done,
    Harmless,
    applications_in,
    scenario_in,
)
from delivery_verifier.faults.user_applications import (
    begin_incarnation,
    commits,
    freeze_in_progress,
    goes_on,
    in_progress,
)
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.application import CrashPoint
from delivery_verifier.model.history import now_us
from delivery_verifier.model.partition_growth import first_partitions
from delivery_verifier.model.scenario import Arm

ASSIGNMENT_DEADLINE_S = 60.0
"""The longest time, in seconds, until members have the partitions that were added to their topic: they ask for
partitions only now and then, and their group rebalances."""
NEVER_COMMITTED = "has never committed"
"""What the proof of a kill says of the group of a user application that keeps its offsets elsewhere."""
GOES_ON = "user applications go on after the kill"
"""The fact of a kill that says whether a user application applied or committed anything after it."""


@dataclass(frozen=True)
class Park(Harmless):
    """Orders every member to stand still at a crash point. A crash point is a named place in a member's work on a
    batch.

    The options `at`, `batch` and `record` name the place. The action by itself breaks nothing, and has no proof.
    """

    def do(self, context: ActionContext) -> Done:
        """Gives the order. Returns before the members are parked, because the trigger `parked` waits for that."""
        options, ordered_at_us = context.options, now_us()
        point = cast(CrashPoint, options["at"])
        applications_in(context).park(point, int(options.get("batch", 1)), int(options.get("record", 1)))
        return Done(ordered_at_us)


@dataclass(frozen=True)
class KillApplication:
    """Kills all members of all applications at the same moment. The action `restart_application` heals the injection.

    The proof consists of these facts:

    * SIGKILL ended every member.
    * Every member that was ordered to park was parked.
    * The user application neither applied nor committed anything in the 2 s after the kill. Otherwise a part of
      the program runs elsewhere, e.g. in a container, and was not killed.

    The proof also says how many records each arm had in progress. An arm without any was not put to the test.
    """

    def do(self, context: ActionContext) -> Done:
        """Kills the members, and waits until no member runs. Raises DeadlinePassed.

        If the run has applications of the user's own, first freezes each of them at a moment at which it has records in
        progress, and waits at most 20 s for this moment.
        """
        freeze_in_progress(context)
        killed_at_us = now_us()
        applications_in(context).kill()
        return Done(killed_at_us, {GOES_ON: "yes" if goes_on(context) else "no"})

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns how each member ended, where it had parked, and how many records each arm had in progress.

        The keys are `member <name>`, `member <name> parked at` and `in progress of <arm>`. A user application has two
        more: `applied, not committed of <arm>` and `committed, not applied of <arm>`. If its group has never
        committed, the only key is `group of <arm>`. The result is empty if the kill is not proven.
        """
        applications = applications_in(context)
        exits, parked = applications.exits(), applications.parked_at()
        was_killed = len(exits) == applications.members and set(exits.values()) == {-signal.SIGKILL}
        if not (was_killed and done.facts.get(GOES_ON) == "no" and all(parked.values())):
            return {}
        return {
            **{f"member {name}": how_it_ended(code) for name, code in exits.items()},
            **{f"member {name} parked at": point for name, point in parked.items()},
            **{f"in progress of {arm}": count for arm, count in applications.in_progress().items()},
            **_own_facts(context),
        }


def _own_facts(context: ActionContext) -> dict[str, str | int]:
    facts = dict[str, str | int]()
    if not (own := applications_in(context).own.arms):
        return facts
    committed = commits(context)
    for arm, hand in {arm.name: in_progress(context, arm, committed) for arm in own}.items():
        if not hand.has_committed:
            facts[f"group of {arm}"] = NEVER_COMMITTED
            continue
        facts[f"in progress of {arm}"] = hand.total
        facts[f"applied, not committed of {arm}"] = max(hand.uncommitted, hand.undecided)
        facts[f"committed, not applied of {arm}"] = hand.unapplied
    return facts


@dataclass(frozen=True)
class StopApplication:
    """Stops all members of all applications in an orderly way. The action `restart_application` heals the injection.

    The proof: no member runs, and in each topic there are records behind the offsets that the group has committed. Only
    such records show where a group goes on.
    """

    def do(self, context: ActionContext) -> Done:
        """Stops the members, and waits until they have left their groups. Raises DeadlinePassed."""
        stopped_at_us = now_us()
        applications_in(context).stop()
        return Done(stopped_at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns how each member ended, and how many records of each arm wait behind the committed offsets of its
        group. The keys are `member <name>` and `waiting of <arm>`. The result is empty if the stop is not proven."""
        exits = applications_in(context).exits()
        waiting = {f"waiting of {arm.name}": _waiting(context, arm) for arm, _ in applications_of(scenario_in(context))}
        if len(exits) != applications_in(context).members or not all(waiting.values()):
            return {}
        return {f"member {name}": how_it_ended(code) for name, code in exits.items()} | waiting


@dataclass(frozen=True)
class RestartApplication(Harmless):
    """Starts again all members that were killed or stopped. This action has no proof."""

    def do(self, context: ActionContext) -> Done:
        """Starts the members, and waits until each has its partitions. Raises DeadlinePassed."""
        started_at_us = now_us()
        begin_incarnation(context)
        applications_in(context).restart()
        return Done(started_at_us)


@dataclass(frozen=True)
class AwaitAssignment(Harmless):
    """Waits until the members of every application together have all partitions that their topic has at the end. A
    member may still look up where it begins in them. This action has no proof."""

    def do(self, context: ActionContext) -> Done:
        """Asks the coordinators of the groups. Raises DeadlinePassed."""
        scenario, client = scenario_in(context), topics.admin(context.cluster.connection)

        def are_assigned() -> bool:
            return all(
                sum(groups.assignments(client, group_of(scenario, arm)).values()) == scenario.load.partitions
                for arm, _ in applications_of(scenario)
            )

        wait_until(are_assigned, "the members of applications to have all partitions", ASSIGNMENT_DEADLINE_S)
        return Done(now_us())


@dataclass(frozen=True)
class Rewind:
    """Sets the committed offset of every application's group back to 0 in every partition, as an operator might.

    First stops the members in an orderly way. Starts the members again afterwards. The proof: every group had committed
    an offset above 0, and while no member ran after the change, the brokers reported offset 0 for every partition.
    """

    def do(self, context: ActionContext) -> Done:
        """Stops the members, sets back the offsets of their groups, and starts them. Waits until they have their
        partitions.

        Raises DeadlinePassed, and KafkaException or ValueError if a group cannot be set back.
        """
        applications, scenario = applications_in(context), scenario_in(context)
        applications.stop()
        client, set_back_at_us, facts = topics.admin(context.cluster.connection), now_us(), dict[str, int]()
        for arm, _ in applications_of(scenario):
            group, partitions = group_of(scenario, arm), range(scenario.load.partitions)
            before = groups.committed_offsets(client, group, arm.topic_name, partitions)
            groups.set_offsets(client, group, arm.topic_name, dict.fromkeys(partitions, 0))
            after = groups.committed_offsets(client, group, arm.topic_name, partitions)
            facts[f"rewound {arm.name}"] = 0 if any(after.values()) else sum(before.values())
        begin_incarnation(context)
        applications.restart()
        return Done(set_back_at_us, facts)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns by how many records the rewind set back the group of each arm. The keys are `rewound <arm>`.

        The result is empty if a group was not set back by at least one record.
        """
        return done.facts if all(done.facts.values()) else {}


def are_caught_up(context: ActionContext) -> bool:
    """Returns whether every application has finished the records of its arm: no attempt of these arms is outstanding,
    each group has committed the end offset of each partition or a later one, and the members have applied all records
    that they were given."""
    scenario, load, applications = scenario_in(context), context.load, applications_in(context)
    arms = [arm for arm, _ in applications_of(scenario)]
    if load is None or load.outstanding(arms):
        return False
    return not any(_waiting(context, arm) for arm in arms) and applications.are_idle()


def _waiting(context: ActionContext, arm: Arm) -> int:
    """Returns how many offsets of the arm's topic are behind those that the group of its application has committed; 1
    if that is not known."""
    scenario, client = scenario_in(context), topics.admin(context.cluster.connection)
    partitions = _partitions(context, arm)
    if not partitions:
        return 1
    ends = topics.high_watermarks(client, [(arm.topic_name, partition) for partition in partitions])
    committed = groups.committed_offsets(client, group_of(scenario, arm), arm.topic_name, partitions)
    # A group may have committed an offset beyond the end (librdkafka issue 4844): then nothing is behind it.
    return sum(max(ends[arm.topic_name, partition] - committed[partition], 0) for partition in partitions)


def _partitions(context: ActionContext, arm: Arm) -> list[int]:
    """Returns the partitions of the arm's topic that are there now. The fault plan may add others later. Returns none
    if it is not known."""
    scenario = scenario_in(context)
    at_last, first = range(scenario.load.partitions), range(first_partitions(scenario))
    if first == at_last:
        return [*at_last]
    there = sorted(partition for _, partition in context.cluster.partitions([arm.topic_name]))
    return there if there in ([*first], [*at_last]) else []  # no broker answered, or not all of its answer is there


ACTIONS: dict[str, Action] = subset(
    "the actions on applications; faults.actions has all",
    {
        "park": Park(),
        "kill_application": KillApplication(),
        "stop_application": StopApplication(),
        "restart_application": RestartApplication(),
        "await_assignment": AwaitAssignment(),
        "rewind": Rewind(),
    },
)
