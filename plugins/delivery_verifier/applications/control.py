"""The control block of a member: memory through which a member is observed and steered.

A *member* is one process of an application. A *incarnation* is the time from one start of a member to its end. Three
parties share the block: the member, its supervisor (the process that started the member), and the fault plan. The block
survives the member.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from delivery_verifier.host.supervision import control_block
from delivery_verifier.host.supervision.control_block import ControlBlock, ControlWord


class Word(ControlWord):
    """The words of the control block of a member (one process of an application).

    * The words up to ZOMBIE describe the latest incarnation of the member. When another incarnation begins, the
      supervisor sets them to 0.
    * A record counts as APPLIED just after its effect was written or, in a database, after the transaction of its row.
      For an own member the supervisor writes the word: while the member runs, the bytes that it has written in this
      incarnation, and then the number of its effects.
    * A record counts as COMMITTED when the broker or the database has answered. With `commit_after`, it also counts if
      its commit failed, because it is no longer in progress. It does not count if a timer of the client commits its
      offset.
    * A marker is a record that the verifier writes after the load.
    * PARKED keeps its value if the member is killed while it is parked, until the next incarnation begins.
    """

    STATE = 0, "process", "how far the member has come: a `State`"
    HANDED_OVER = 1, "process", "records that the client has handed over to the member"
    APPLIED = 2, "process", "records that the member has applied"
    COMMITTED = 3, "process", "records whose offsets the member itself has committed"
    MARKERS = 4, "process", "markers among the applied records"
    PARK_AT = 5, "fault plan", "where to park: the index of a crash point in `CRASH_POINTS`, plus 1"
    PARK_BATCH = 6, "fault plan", "in which batch to park, counted from 1 after the order"
    PARK_RECORD = 7, "fault plan", "crash point `applied`: records of the batch to apply before it parks"
    PARKS = 8, "fault plan", "orders to park in this incarnation; written after the words of the order"
    PARKED = 9, "process", "the count of PARKS that the member obeys while it is parked, otherwise 0"
    ASSIGNMENTS = 10, "process", "how often the member was given its partitions in this incarnation"
    REFUSALS = 11, "process", "how often its group refused a commit, or a transaction had to be aborted"
    ZOMBIE = 12, "fault plan", "1 once it was frozen for a replacement; it may then end by itself, if it is fenced"
    KILLS = 13, "fault plan", "how often the supervisor was asked to kill the member"
    KILLS_DONE = 14, "supervisor", "how many of KILLS were carried out"
    STOPS = 15, "fault plan", "how often the supervisor was asked to stop the member in an orderly way"
    STOPS_DONE = 16, "supervisor", "how many of STOPS were carried out"
    STARTS = 17, "fault plan", "how often the supervisor was asked to start the member again"
    STARTS_DONE = 18, "supervisor", "how many of STARTS were carried out"
    EXIT = 19, "supervisor", "exit code of the latest incarnation that has ended, or minus the number of the signal"
    INCARNATION = 20, "supervisor", "number of the latest incarnation, from 0"
    PID = 21, "supervisor", "pid of the latest incarnation; for an own member also the id of its process group"


COMMAND_DEADLINE_S = 60.0
"""Seconds in which the supervisor must carry out a command. An orderly stop of the members may take 30 s."""

OF_ONE_INCARNATION = tuple(word for word in Word if word < Word.KILLS)
"""The words that are about one incarnation only. The supervisor sets them to 0 when another incarnation begins."""


class State(IntEnum):
    """How far a member has come.

    * STARTING: the group has not yet given partitions to the member.
    * ASSIGNED: the group has given partitions to the member, or has told the member that it gets none.
    * CLOSED: the member has left its group, and is about to end.
    """

    STARTING = 0
    ASSIGNED = 1
    CLOSED = 2


class Control(ControlBlock[Word]):
    """The control block of one member. `folder` is the folder of the member, and holds the file of the block."""

    @property
    def is_down(self) -> bool:
        """Whether the member was killed or stopped because the fault plan asked for it, and was not started again
        since."""
        return self[Word.KILLS_DONE] + self[Word.STOPS_DONE] > self[Word.STARTS_DONE]


def command(controls: Sequence[Control], asked: Word, done: Word, what: str) -> None:
    """Gives a command to the supervisor of the members of `controls`, and waits until the supervisor has carried it
    out (see `control_block.command`). Raises DeadlinePassed after COMMAND_DEADLINE_S."""
    control_block.command(controls, asked, done, f"the supervisor to {what}", COMMAND_DEADLINE_S)
