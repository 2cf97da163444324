"""The handle of running own applications (programs of the user's own). It counts what they have applied, and freezes
them.

An own application does not report which records it has in hand. So the handle compares two numbers: the records that
the application has applied, and the records that its group has committed. In each life of a healthy application, both
numbers grow by the same amount.

* A record that is applied and not committed is in hand, because the group delivers it again after a kill.
* A record that is committed and not applied is in hand only if the claim permits its loss. Otherwise the record is no
  sign of a crash, because an application that leaves records out looks the same.
* A record of the output topic is in hand if its transaction has not ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.lives import application_folder, folder_of
from delivery_verifier.applications.own.descendants import send_to_all
from delivery_verifier.applications.own.described import landing_of, pattern_of
from delivery_verifier.applications.own.readers import EffectReader, reader_of
from delivery_verifier.applications.own.scan import RecordPattern
from delivery_verifier.applications.own.topic import Topic
from delivery_verifier.applications.sink import FOREIGN, PARSED, SinkInputs
from delivery_verifier.model.scenario import Arm, Scenario


class OwnHandle:
    """Observes and freezes the user's own applications of `scenario`. `workspace` is the folder that holds the folders
    of their members. `connection` has the client properties with which output topics are read.

    The attribute `arms` lists the arms that have an own application.
    """

    def __init__(self, scenario: Scenario, workspace: Path, connection: Mapping[str, str]) -> None:
        self._scenario, self._workspace, self._connection = scenario, workspace, connection
        self.arms = [arm for arm in scenario.loaded if arm.application and arm.application.discipline == "own"]
        self._before: dict[str, int] = {}
        self._ends_before: dict[str, dict[str, int]] = {}
        self._open: dict[tuple[str, int], tuple[EffectReader, RecordPattern]] = {}

    def send(self, number: int) -> None:
        """Sends the signal `number` to all processes of every running member."""
        for arm in self.arms:
            for member in range(arm.application.members if arm.application else 0):
                control = Control(folder_of(self._workspace, arm.name, member))
                if not control.is_down and control[Word.PID]:
                    send_to_all(control[Word.PID], number)

    def in_hand(self, committed: Mapping[str, int]) -> dict[str, int]:
        """Maps each arm to the number of records that its application has in hand. Call it while the members are frozen
        or dead.

        `committed` maps each arm to the number of records that its group has committed. The result is 0 for an arm
        whose group has never committed, because the application may keep its offsets elsewhere. The result is also 0
        while a transaction of an earlier life is open.
        """
        apart = self.apart(committed)
        return {
            arm.name: max(apart[arm.name], -apart[arm.name] if arm.claim == "at_most_once" else 0, self._undecided(arm))
            if committed[arm.name] and not self._is_blocked(arm)
            else 0
            for arm in self.arms
        }

    def undecided(self) -> dict[str, int]:
        """Maps each arm to the number of offsets of its output topic that are not decided: those from the oldest open
        transaction to the end of each partition."""
        return {arm.name: self._undecided(arm) for arm in self.arms}

    def _undecided(self, arm: Arm) -> int:
        """Returns how many offsets of the arm's output topic are not decided: those from the oldest open transaction to
        the end of each partition."""
        return sum(reader.undecided() for reader, _ in self._readers(arm))

    def apart(self, committed: Mapping[str, int]) -> dict[str, int]:
        """Maps each arm to a difference: the number of records that its application has applied in this life, minus the
        number that its group has committed. The difference is negative if the group has committed more.

        The difference is 0 if the application reads a topic with transactions. In such a topic, the end of a
        transaction also takes an offset. So a difference of offsets is not a number of records there.
        """
        return {
            arm.name: 0 if arm.transactional_id else self._ahead(arm.name, committed) - self._before.get(arm.name, 0)
            for arm in self.arms
        }

    def records(self) -> dict[str, int]:
        """Maps each arm to the number of records of the run that the effects of its members hold, over all lives."""
        return {arm.name: self._records(arm.name) for arm in self.arms}

    def begin_life(self, committed: Mapping[str, int]) -> None:
        """Tells the handle that the members are about to begin another life. From now on, the handle does not count the
        records that the members had in hand before."""
        self._before = {arm.name: self._ahead(arm.name, committed) for arm in self.arms}
        self._ends_before = {arm.name: dict(topic.sizes()) for arm in self.arms for topic in self._topics(arm)}

    def _is_blocked(self, arm: Arm) -> bool:
        """Returns whether a transaction of an earlier life is still open. Then nobody can know what is in hand behind
        this transaction."""
        return any(topic.is_open_below(self._ends_before.get(arm.name, {})) for topic in self._topics(arm))

    def _topics(self, arm: Arm) -> list[Topic]:
        return [reader for reader, _ in self._readers(arm) if isinstance(reader, Topic)]

    def _ahead(self, name: str, committed: Mapping[str, int]) -> int:
        """Returns the number of records that the arm's members have applied, minus the number that its group has
        committed, over all lives."""
        return self._records(name) - committed[name]

    def _records(self, name: str) -> int:
        """Returns how many records of the arm the effects of its members hold. A record counts even if the effect has
        only its first bytes. An effect that names no record does not count, e.g. a line that the program prints when it
        starts."""
        return sum(
            int(np.count_nonzero(part.rows["flags"] & (PARSED | FOREIGN) == PARSED))
            for reader, pattern in self._readers(self._scenario.arm(name))
            for _, part in reader.scans(pattern)
        )

    def _readers(self, arm: Arm) -> list[tuple[EffectReader, RecordPattern]]:
        """Returns, for each member, the reader of its effects, and the pattern that the reader must look for. If all
        members write to one place, returns only one reader."""
        token, size = self._scenario.run_token, self._scenario.load.payload_bytes
        folder = application_folder(self._workspace, arm.name)
        inputs = SinkInputs(arm, folder, 1, token, self._connection, payload_bytes=size)
        members = arm.application.members if arm.application else 0
        for member in range(1 if landing_of(inputs).is_shared else members):
            if (arm.name, member) not in self._open:
                pattern = pattern_of(inputs, landing_of(inputs))._replace(is_header=True)
                self._open[arm.name, member] = reader_of(inputs, folder / str(member)), pattern
        return [each for (name, _), each in self._open.items() if name == arm.name]
