"""The handle of running user applications (programs of the user's own). It finds out what they have in progress, and
freezes them.

A user application does not report which records it has in progress. So the handle compares what the application has
applied with what its group has committed, offset by offset (see `in_progress`). A record of the output topic is in
progress if its transaction has not ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.incarnations import application_folder, folder_of
from delivery_verifier.applications.own.described import location_of, pattern_of
from delivery_verifier.applications.own.in_progress import Applied, Commits, InProgress, Offsets, unapplied, uncommitted
from delivery_verifier.applications.own.readers import EffectReader, reader_of
from delivery_verifier.applications.own.scan import RecordPattern
from delivery_verifier.applications.own.topic import Topic
from delivery_verifier.applications.sink import FOREIGN, PARSED, SinkInputs
from delivery_verifier.host.supervision.descendants import send_to_tree
from delivery_verifier.model.positions import Positions
from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.scenario import Arm, Scenario


class OwnHandle:
    """Observes and freezes the user application of `scenario`. `workspace` is the folder that holds the folders
    of their members. `connection` has the client properties with which output topics are read.

    The attribute `arms` lists the arms that have a user application.
    """

    def __init__(self, scenario: Scenario, workspace: Path, connection: Mapping[str, str]) -> None:
        self._scenario, self._workspace, self._connection = scenario, workspace, connection
        self.arms = [arm for arm in scenario.loaded if arm.application and arm.application.discipline == "own"]
        self._commits = {arm.name: Commits() for arm in self.arms}
        self._sizes_before: dict[str, dict[str, int]] = {arm.name: {} for arm in self.arms}
        self._open: dict[tuple[str, int], tuple[EffectReader, RecordPattern]] = {}

    def send(self, number: int, arms: Iterable[Arm]) -> None:
        """Sends the signal `number` to all processes of every running member of `arms`."""
        for arm in arms:
            for member in range(arm.application.members if arm.application else 0):
                control = Control(folder_of(self._workspace, arm.name, member))
                if not control.is_down and control[Word.PID]:
                    send_to_tree(control[Word.PID], number)

    def in_progress(self, arm: Arm, committed: Offsets, positions: Mapping[int, Positions]) -> InProgress:
        """Returns what the application of `arm` has in progress. Call it while its members are frozen or dead.

        `committed` has the offsets that its group has committed. `positions` maps each producer to the positions of its
        records. Nothing is in progress while a transaction of an earlier incarnation is open, because nobody knows what
        stands behind this transaction.
        """
        commits = self._commits[arm.name]
        commits.note(committed)
        if not any(committed.values()):
            return InProgress(has_committed=False)
        if self._is_blocked(arm):
            return InProgress()
        applied = self._applied(arm)
        # In a topic with transactions, records of aborted transactions are never applied.
        not_applied = 0 if arm.transactional_id else unapplied(positions, applied, commits)
        return InProgress(uncommitted(positions, applied, commits), not_applied, self._undecided(arm))

    def undecided(self) -> dict[str, int]:
        """Maps each arm to the number of offsets of its output topic that are not decided: those from the oldest open
        transaction to the end of each partition."""
        return {arm.name: self._undecided(arm) for arm in self.arms}

    def _undecided(self, arm: Arm) -> int:
        """Returns how many offsets of the arm's output topic are not decided: those from the oldest open transaction to
        the end of each partition."""
        return sum(reader.undecided() for reader, _ in self._readers(arm))

    def records(self) -> dict[str, int]:
        """Maps each arm to the number of records of the run that the effects of its members hold, over all
        incarnations."""
        return {arm.name: len(self._applied(arm).sequence) for arm in self.arms}

    def begin_incarnation(self, committed: Mapping[str, Offsets]) -> None:
        """Tells the handle that the members are about to begin another incarnation. From now on, the handle does not
        count the records that the members had in progress before. `committed` maps each arm to the offsets that its
        group has committed."""
        for arm in self.arms:
            self._commits[arm.name].begin_incarnation(committed[arm.name])
            parts = [reader.sizes() for reader, _ in self._readers(arm)]
            self._sizes_before[arm.name] = {name: size for sizes in parts for name, size in sizes.items()}

    def _is_blocked(self, arm: Arm) -> bool:
        """Returns whether a transaction of an earlier incarnation is still open. Then nobody can know what is in
        progress behind this transaction."""
        topics = [reader for reader, _ in self._readers(arm) if isinstance(reader, Topic)]
        return any(topic.is_open_below(self._sizes_before[arm.name]) for topic in topics)

    def _applied(self, arm: Arm) -> Applied:
        """Returns the records that the effects of the arm's members hold. A record counts even if the effect has only
        its first bytes. An effect that names no record does not count, e.g. a line that the program prints when it
        starts."""
        before, parts = (
            self._sizes_before[arm.name],
            [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))],
        )
        for reader, pattern in self._readers(arm):
            for name, part in reader.scans(pattern):
                is_own = part.rows["flags"] & (PARSED | FOREIGN) == PARSED
                is_own &= part.rows["producer"] != MARKER_PRODUCER
                rows, is_new = part.rows[is_own], part.positions[is_own] >= before.get(name, 0)
                parts.append((rows["producer"].astype(np.int64), rows["sequence"].astype(np.int64), is_new))
        return Applied(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _readers(self, arm: Arm) -> list[tuple[EffectReader, RecordPattern]]:
        """Returns, for each member, the reader of its effects, and the pattern that the reader must look for. If all
        members write to one place, returns only one reader."""
        token, size = self._scenario.run_token, self._scenario.load.payload_bytes
        folder = application_folder(self._workspace, arm.name)
        inputs = SinkInputs(arm, folder, 1, token, self._connection, payload_bytes=size)
        members = arm.application.members if arm.application else 0
        for member in range(1 if location_of(inputs).is_shared else members):
            if (arm.name, member) not in self._open:
                pattern = pattern_of(inputs, location_of(inputs))._replace(is_header=True)
                self._open[arm.name, member] = reader_of(inputs, folder / str(member)), pattern
        return [each for (name, _), each in self._open.items() if name == arm.name]
