"""The handle of running own applications: it counts what they have applied, and freezes them.

An own application does not report which records it has in hand. So the handle compares two numbers: the records that
the application has applied, and the records that its group has committed. Both numbers grow alike in each life of a
healthy application.

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
    """The own applications of `scenario`. `workspace` is the folder that holds the folders of their members.
    `connection` has the client properties with which output topics are read.

    `arms` are the arms that have an own application.
    """

    def __init__(self, scenario: Scenario, workspace: Path, connection: Mapping[str, str]) -> None:
        self._scenario, self._workspace, self._connection = scenario, workspace, connection
        self.arms = [arm for arm in scenario.loaded if arm.application and arm.application.discipline == "own"]
        self._before: dict[str, int] = {}
        self._ends_before: dict[str, dict[str, int]] = {}
        self._open: dict[tuple[str, int], tuple[EffectReader, RecordPattern]] = {}

    def send(self, number: int) -> None:
        """Sends the signal `number` to all processes of every member that runs."""
        for arm in self.arms:
            for member in range(arm.application.members if arm.application else 0):
                control = Control(folder_of(self._workspace, arm.name, member))
                if not control.is_down and control[Word.PID]:
                    send_to_all(control[Word.PID], number)

    def in_hand(self, committed: Mapping[str, int]) -> dict[str, int]:
        """Maps each arm to the number of records in hand. Call it while the members are frozen or dead.

        `committed` maps arms to how many records their groups have committed. The number is 0 if the group has never
        committed: it may keep its offsets elsewhere. It is also 0 while a transaction of an earlier life is open.
        """
        apart = self.apart(committed)
        return {
            arm.name: max(apart[arm.name], -apart[arm.name] if arm.claim == "at_most_once" else 0, self._undecided(arm))
            if committed[arm.name] and not self._is_blocked(arm)
            else 0
            for arm in self.arms
        }

    def undecided(self) -> dict[str, int]:
        """Maps each arm to the number of offsets in transactions of its output topic that have not ended."""
        return {arm.name: self._undecided(arm) for arm in self.arms}

    def _undecided(self, arm: Arm) -> int:
        """Returns how many records the arm has written in transactions that have not ended."""
        return sum(reader.undecided() for reader, _ in self._readers(arm))

    def apart(self, committed: Mapping[str, int]) -> dict[str, int]:
        """Maps each arm to the number of records that the arm's application has applied, minus the number that it has
        committed. The number is negative if the application has committed more.

        The number is 0 if the application reads a topic with transactions. In such a topic, the end of a transaction
        also takes an offset, so a difference of offsets is no number of records.
        """
        return {
            arm.name: 0 if arm.transactional_id else self._ahead(arm.name, committed) - self._before.get(arm.name, 0)
            for arm in self.arms
        }

    def records(self) -> dict[str, int]:
        """Maps each arm to the number of records of the run that stand in its effects, over all lives."""
        return {arm.name: self._records(arm.name) for arm in self.arms}

    def begin_life(self, committed: Mapping[str, int]) -> None:
        """Tells the handle that the members are about to begin another life. Records that they had in hand no longer
        count."""
        self._before = {arm.name: self._ahead(arm.name, committed) for arm in self.arms}
        self._ends_before = {arm.name: dict(topic.sizes()) for arm in self.arms for topic in self._topics(arm)}

    def _is_blocked(self, arm: Arm) -> bool:
        """Returns whether a transaction of an earlier life is open: nobody knows what is in hand behind it."""
        return any(topic.is_open_below(self._ends_before.get(arm.name, {})) for topic in self._topics(arm))

    def _topics(self, arm: Arm) -> list[Topic]:
        return [reader for reader, _ in self._readers(arm) if isinstance(reader, Topic)]

    def _ahead(self, name: str, committed: Mapping[str, int]) -> int:
        """Returns how many more records the arm has applied than committed, over all lives."""
        return self._records(name) - committed[name]

    def _records(self, name: str) -> int:
        """Returns how many records of the arm stand in the effects of its members. A record counts even if only its
        beginning is there. An effect that names no record does not count, e.g. a line that the program prints when it
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
