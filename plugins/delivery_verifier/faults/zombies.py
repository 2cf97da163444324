"""Actions on members that become zombies. Such a member is frozen, a replacement takes its place, and then the member
goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.applications.pool import group_of
from delivery_verifier.applications.zombies import Zombie
from delivery_verifier.cluster import groups, topics
from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done, applications_in, scenario_in
from delivery_verifier.faults.applications import are_caught_up
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.application import IN_TRANSACTIONS
from delivery_verifier.model.history import now_us

TAKEN_OVER_S = 60.0
"""Seconds in which the replacements must take over what the frozen members had in progress."""
THAWED_S = 60.0
"""Seconds in which a thawed member must end, or do all that it has to do (see `_is_done`)."""


@dataclass(frozen=True)
class FreezeApplication:
    """Freezes the member of every application, and starts a replacement for each. The action `thaw_application` heals
    the injection.

    The proof shows for each member:

    * The member had records in progress, and was parked at the crash point of its order.
    * Every thread of the member is stopped.
    * The group lists the replacement with partitions, and does not list the member any more. This is not required if
      the member and the replacement assign partitions to themselves.
    * The replacement has applied records. Or the coordinator says that the replacement waits for offsets, which the
      open transaction of the member is about to commit.

    If the member has committed all that was sent, the replacement can apply nothing until more is sent.
    """

    def do(self, context: ActionContext) -> Done:
        """Freezes the members, starts the replacements, and waits until each replacement has taken over. If there is
        nothing to apply, a replacement can take over without applying anything. Raises DeadlinePassed."""
        zombies, frozen_at_us = applications_in(context).zombies, now_us()
        zombies.freeze()
        zombies.replace()
        wait_until(
            lambda: not any(_lacks(context, _is_idle)),
            "the replacements to take over:",
            TAKEN_OVER_S,
            every_s=0.1,
            detail=lambda: "; ".join(_lacks(context, _is_idle)),
        )
        return Done(frozen_at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns, for each arm, that its member is frozen and where the member is parked, how many records the member
        has in progress, and how many records the replacement has applied.

        The keys are `member <name>`, `member <name> parked at`, `in progress of <arm>` and `taken over of <arm>`. The
        result is empty if the freeze is not proven (see the class).
        """
        applications = applications_in(context)
        in_progress, parked = _in_progress(applications), applications.parked_at()
        if not (all(in_progress.values()) and all(parked.values())) or any(_lacks(context, _waits)):
            return {}
        zombies = applications.zombies.all
        return {
            **{f"member {zombie.name}": "frozen" for zombie in zombies},
            **{f"member {name} parked at": point for name, point in parked.items()},
            **{f"in progress of {arm}": count for arm, count in in_progress.items()},
            **{f"taken over of {zombie.arm.name}": zombie.replacement[Word.APPLIED] for zombie in zombies},
        }


@dataclass(frozen=True)
class ThawApplication:
    """Lets the frozen members go on, and stops them when they have nothing more to do. The injection is then over, so
    nothing has to be healed.

    The proof shows that each member, after the thaw, applied records, was refused, or ended because it was fenced.
    """

    def do(self, context: ActionContext) -> Done:
        """Thaws the members. Waits until each member has ended or has finished its work, and until all records are
        applied. Then stops the thawed members that still run. Raises DeadlinePassed."""
        applications = applications_in(context)
        zombies, in_progress = applications.zombies, _in_progress(applications)
        before = {zombie.name: _counts(zombie) for zombie in zombies.all}
        thawed_at_us = now_us()
        zombies.thaw()

        def waiting() -> list[str]:
            return [zombie.name for zombie in zombies.all if not _is_done(context, zombie, before[zombie.name])]

        wait_until(
            lambda: not waiting(),
            "each thawed member to apply what it has in progress, or to be refused:",
            THAWED_S,
            detail=lambda: ", ".join(waiting()),
        )
        wait_until(lambda: are_caught_up(context), "the applications to be caught up", THAWED_S)
        zombies.stop()
        deeds = {zombie.name: _deeds(zombie, before[zombie.name]) for zombie in zombies.all}
        if not all(deeds.values()):
            return Done(thawed_at_us)
        facts: dict[str, str | int] = {
            **{f"in progress of {arm}": count for arm, count in in_progress.items()},
            **{f"member {name} when thawed": deed for name, deed in deeds.items()},
        }
        return Done(thawed_at_us, facts)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns what each member did after the thaw, and how many records it had in progress before the thaw.

        The keys are `member <name> when thawed` and `in progress of <arm>`. Empty if a member did nothing.
        """
        return done.facts


def _in_progress(applications: RunningApplications) -> dict[str, int]:
    """Maps each arm to the number of records that its frozen member has in progress."""
    return {zombie.arm.name: applications.in_progress()[zombie.arm.name] for zombie in applications.zombies.all}


def _lacks(context: ActionContext, may_rest: Callable[[ActionContext, Zombie], bool]) -> Iterator[str]:
    """Yields a text for each replacement that has not taken over. The text says what is missing. `may_rest` returns
    whether a replacement may have applied nothing yet."""
    scenario, client = scenario_in(context), topics.admin(context.cluster.connection)
    for zombie in applications_in(context).zombies.all:
        group, (frozen, successor) = group_of(scenario, zombie.arm), zombie.client_ids
        if not zombie.is_frozen:
            yield f"{zombie.name} is not frozen"
        elif not zombie.replacement[Word.APPLIED] and not may_rest(context, zombie):
            yield f"{successor} has applied nothing"
        elif not zombie.is_assigned:
            members = groups.assignments(client, group)
            if frozen in members:
                yield f"{group} still lists {frozen}"
            elif not members.get(successor):
                yield f"{group} has given no partition to {successor}"


def _is_idle(context: ActionContext, zombie: Zombie) -> bool:
    """Returns whether the replacement has nothing to apply. Either it waits for the end of a transaction, or its group
    has committed all records that were sent."""
    scenario, client = scenario_in(context), topics.admin(context.cluster.connection)
    partitions = range(scenario.load.partitions)
    ends = topics.high_watermarks(client, [(zombie.arm.topic_name, partition) for partition in partitions])
    group = group_of(scenario, zombie.arm)
    committed = groups.committed_offsets(client, group, zombie.arm.topic_name, partitions)
    return sum(committed.values()) == sum(ends.values()) or _waits(context, zombie)


def _waits(context: ActionContext, zombie: Zombie) -> bool:
    """Returns whether the replacement waits until the transaction of the frozen member ends (KIP-447). This is so if
    the coordinator of the group says that offsets are about to be committed, and the replacement was handed no
    record."""
    if zombie.application.discipline not in IN_TRANSACTIONS or zombie.replacement[Word.HANDED_OVER]:
        return False
    scenario, client = scenario_in(context), topics.admin(context.cluster.connection)
    partitions = range(scenario.load.partitions)
    is_pending = groups.has_pending_offsets(client, group_of(scenario, zombie.arm), zombie.arm.topic_name, partitions)
    # If the replacement was handed records meanwhile, the pending offsets may be those of its own transaction.
    return is_pending and not zombie.replacement[Word.HANDED_OVER]


def _counts(zombie: Zombie) -> tuple[int, int, int]:
    """Returns three counts of the member itself, not of its replacement: how often the member was given partitions, how
    many records it applied, and how often it was refused."""
    control = zombie.control
    return control[Word.ASSIGNMENTS], control[Word.APPLIED], control[Word.REFUSALS]


def _is_done(context: ActionContext, zombie: Zombie, before: tuple[int, int, int]) -> bool:
    """Returns whether a thawed member has ended or has finished its work. `before` has the counts of the member at the
    thaw (see `_counts`).

    A subscribed member had been removed from its group. It is done once the group has given it partitions again, or has
    told it that it gets none. A member that assigns partitions to itself reads each partition from the start. It is
    done once it was handed the last record of each partition.
    """
    if zombie.ended:
        return True
    control, (assignments, *done) = zombie.control, before
    if control[Word.HANDED_OVER] != control[Word.APPLIED] or list(_counts(zombie)[1:]) == done:
        return False
    if not zombie.is_assigned:
        return control[Word.ASSIGNMENTS] > assignments
    keys = [(zombie.arm.topic_name, partition) for partition in range(scenario_in(context).load.partitions)]
    return control[Word.HANDED_OVER] >= sum(
        topics.high_watermarks(topics.admin(context.cluster.connection), keys).values()
    )


def _deeds(zombie: Zombie, before: tuple[int, int, int]) -> str:
    """Returns a text that says what a thawed member did. The text is empty if the member did nothing. `before` has the
    counts of the member at the thaw (see `_counts`)."""
    if zombie.ended:
        return f"ended with {zombie.ended}"
    _, applied, refusals = (now - then for now, then in zip(_counts(zombie), before, strict=True))
    often = "once" if refusals == 1 else f"{refusals} times"
    deeds = (
        f"applied {applied} record{'s' * (applied != 1)}" if applied else "",
        f"was refused {often}" if refusals else "",
    )
    return ", ".join(filter(None, deeds))


ACTIONS: dict[str, Action] = subset(
    "the actions on members that become zombies; faults.actions has all",
    {
        "freeze_application": FreezeApplication(),
        "thaw_application": ThawApplication(),
    },
)
