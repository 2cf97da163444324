"""The handle of running own applications: it counts what they have applied, and freezes them.

An own application does not report which records it has in hand. So the handle compares two numbers: the records that
the application has applied, and the records that its group has committed. Both numbers grow alike in each life of a
healthy application.

* A record that is applied and not committed is in hand, because the group delivers it again after a kill.
* A record that is committed and not applied is in hand only if the claim permits its loss. Otherwise the record is no
  sign of a crash, because an application that leaves records out looks the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.lives import application_folder, folder_of
from delivery_verifier.applications.own.descendants import send_to_all
from delivery_verifier.applications.own.files import files_of, scans_of
from delivery_verifier.applications.own.sink import landing_of, pattern_of
from delivery_verifier.applications.sink import FOREIGN, PARSED, SinkInputs
from delivery_verifier.model.scenario import Scenario


class OwnHandle:
    """The own applications of `scenario`. `workspace` is the folder that holds the folders of their members.

    `arms` are the arms that have an own application.
    """

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self._scenario, self._workspace = scenario, workspace
        self.arms = [arm for arm in scenario.loaded if arm.application and arm.application.discipline == "own"]
        self._before: dict[str, int] = {}

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
        committed: it may keep its offsets elsewhere.
        """
        apart = self.apart(committed)
        return {
            arm.name: max(apart[arm.name], -apart[arm.name] if arm.claim == "at_most_once" else 0)
            if committed[arm.name]
            else 0
            for arm in self.arms
        }

    def apart(self, committed: Mapping[str, int]) -> dict[str, int]:
        """Maps each arm to the number of records that it has applied and not committed. The number is below 0 if it has
        committed more than it has applied.

        If the arm writes transactions, the number is 0. In such a topic, the end of a transaction also takes an offset,
        so a difference of offsets is no number of records.
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

    def _ahead(self, name: str, committed: Mapping[str, int]) -> int:
        """Returns how many more records the arm has applied than committed, over all lives."""
        return self._records(name) - committed[name]

    def _records(self, name: str) -> int:
        arm, token, size = self._scenario.arm(name), self._scenario.run_token, self._scenario.load.payload_bytes
        folder = application_folder(self._workspace, name)
        inputs = SinkInputs(arm, folder, 1, token, {}, payload_bytes=size)
        members = range(arm.application.members if arm.application else 0)
        return sum(_records_of_member(inputs, folder / str(member)) for member in members)


def _records_of_member(inputs: SinkInputs, folder: Path) -> int:
    """Returns how many records of the arm stand in the effects of a member. A record counts even if only its beginning
    is there. Text without a record does not count, e.g. a line that the program prints at its start."""
    landing = landing_of(inputs)
    pattern = pattern_of(inputs, landing)._replace(is_header=True)
    parts = (part for file in files_of(landing, folder) for part in scans_of(landing, file, pattern))
    return sum(int(np.count_nonzero(part.rows["flags"] & (PARSED | FOREIGN) == PARSED)) for part in parts)
