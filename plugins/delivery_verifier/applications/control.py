"""The control block of a member: memory through which a member is observed and steered.

A *member* is one process of an application. A *life* is the time from one start of a member to its end. Three parties
share the block: the member, its supervisor (the process that started the member), and the fault plan. The block
survives the member.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from delivery_verifier.host.mapped_words import map_words
from delivery_verifier.host.waiting import wait_until


class Word(IntEnum):
    """The words of the control block of a member (one process of an application): int64 numbers.

    The value of an item of this enumeration is the index of its word in the block. The docstring of an item says what
    its word holds. The member writes the word, unless the docstring names another writer. The words up to ZOMBIE
    describe the latest life of the member, i.e. the time since its process was last started. When another life begins,
    the supervisor (the process that starts the members) sets these words to 0.
    """

    STATE = 0
    """Index of the word that says how far the member has come: a `State`."""
    HANDED_OVER = 1
    """Index of the word that counts the records that the client has handed over to the member."""
    APPLIED = 2
    """Index of the word that counts the records that the member has applied. A record counts just after its effect was
    written or, in a database, just after the transaction of its row was committed.

    The supervisor writes this word for an own member: while the member runs, the bytes that it has written in this
    life, and then the number of its effects.
    """
    COMMITTED = 3
    """Index of the word that counts the records whose offsets the member itself has committed, and for which the broker
    has answered.

    If the offsets are in a database, a record counts when the database has committed its offset.

    With `commit_after`, a record also counts if its commit failed, because it is no longer in hand. A record does not
    count if a timer of the client commits its offset.
    """
    MARKERS = 4
    """Index of the word that counts the markers among the applied records. A marker is a record that the verifier
    writes after the load."""
    PARK_AT = 5
    """Index of the word that says where the member is to park. The word holds the index of a crash point in
    `CRASH_POINTS`, plus 1. Written by the fault plan."""
    PARK_BATCH = 6
    """Index of the word that says in which batch the member is to park, counted from 1 after the order. Written by the
    fault plan."""
    PARK_RECORD = 7
    """Index of the word that says, for the crash point `applied`, how many records of the batch the member applies
    before it parks. Written by the fault plan."""
    PARKS = 8
    """Index of the word that counts how often the member was ordered to park in this life. The fault plan writes this
    word last, after the words that say where to park."""
    PARKED = 9
    """Index of the word that holds, while the member is parked, the number of the order that it obeys. This is the
    count of PARKS at that time. Otherwise the word holds 0.

    If the member is killed while it is parked, the word keeps its value until the next life begins.
    """
    ASSIGNMENTS = 10
    """Index of the word that counts how often the member was given its partitions in this life."""
    REFUSALS = 11
    """Index of the word that counts how often the member was refused: its group refused a commit, or a transaction had
    to be aborted."""
    ZOMBIE = 12
    """Index of the word that is 1 once the fault plan has frozen the member, to give its place to a substitute. The
    member may then end by itself, if it is fenced. Written by the fault plan."""
    KILLS = 13
    """Index of the word that counts how often the fault plan asked the supervisor to kill the member. Written by the
    fault plan."""
    KILLS_DONE = 14
    """Index of the word that counts the kills of the member that the supervisor has carried out. KILLS counts the kills
    that the fault plan has asked for. Written by the supervisor."""
    STOPS = 15
    """Index of the word that counts how often the fault plan asked the supervisor to stop the member in an orderly way.
    Written by the fault plan."""
    STOPS_DONE = 16
    """Index of the word that counts the stops of the member that the supervisor has carried out. STOPS counts the stops
    that the fault plan has asked for. Written by the supervisor."""
    STARTS = 17
    """Index of the word that counts how often the fault plan asked the supervisor to start the member again. Written by
    the fault plan."""
    STARTS_DONE = 18
    """Index of the word that counts the starts of the member that the supervisor has carried out. STARTS counts the
    starts that the fault plan has asked for. Written by the supervisor."""
    EXIT = 19
    """Index of the word with the exit code of the process in the latest life that has ended. If a signal ended the
    process, the code is minus the number of the signal. Written by the supervisor."""
    LIFE = 20
    """Index of the word with the number of the latest life, counted from 0. Written by the supervisor."""
    PID = 21
    """Index of the word with the pid of the process in the latest life. For a member of the user's own application, the
    pid is the id of its process group, too. Written by the supervisor."""


COMMAND_DEADLINE_S = 60.0
"""Seconds in which the supervisor must carry out a command. An orderly stop of the members may take 30 s."""

WORDS = 32
"""The size of a control block, in int64 words. It is greater than the number of members of `Word`."""

OF_ONE_LIFE = tuple(word for word in Word if word < Word.KILLS)
"""The words that are about one life only. The supervisor sets them to 0 when another life begins."""


class State(IntEnum):
    """How far a member has come.

    * STARTING: the group has not yet given partitions to the member.
    * ASSIGNED: the group has given partitions to the member, or has told the member that it gets none.
    * CLOSED: the member has left its group, and is about to end.
    """

    STARTING = 0
    ASSIGNED = 1
    CLOSED = 2


class Control:
    """The control block of one member. `folder` is the folder of the member, and holds the file of the block."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.words, self._map = map_words(folder / "control", WORDS)

    def __getitem__(self, word: Word) -> int:
        return int(self.words[word])

    def __setitem__(self, word: Word, value: int) -> None:
        self.words[word] = value

    @property
    def is_down(self) -> bool:
        """Whether the member was killed or stopped because the fault plan asked for it, and was not started again
        since."""
        return self[Word.KILLS_DONE] + self[Word.STOPS_DONE] > self[Word.STARTS_DONE]


def command(controls: list[Control], asked: Word, done: Word, what: str) -> None:
    """Gives a command to the supervisor of the members of `controls`, and waits until the supervisor has carried it
    out.

    The word `asked` counts the commands that were given. The word `done` counts the commands that the supervisor has
    carried out. `what` describes the command in messages. Raises DeadlinePassed after COMMAND_DEADLINE_S.
    """
    for control in controls:
        control[asked] += 1
    wait_until(
        lambda: all(control[done] >= control[asked] for control in controls),
        f"the supervisor to {what}",
        COMMAND_DEADLINE_S,
        every_s=0.005,
    )
