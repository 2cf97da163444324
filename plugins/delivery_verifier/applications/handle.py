"""The handle of running applications: through it, the fault plan observes and steers their members.

The fault plan and the members run in different processes. They share one block of memory per member, the control block
(see control.Word). The supervisor is the process that started the members. When the fault plan asks for it, the
supervisor kills, stops or starts members.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from delivery_verifier.applications.control import Control, State, Word, command
from delivery_verifier.applications.incarnations import folder_of
from delivery_verifier.applications.own.handle import OwnHandle
from delivery_verifier.applications.parking import POINTS
from delivery_verifier.applications.pool import applications_of
from delivery_verifier.applications.zombies import Zombies
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.application import STORED, CrashPoint, Discipline
from delivery_verifier.model.scenario import Scenario

RESTART_DEADLINE_S = 90.0
"""Seconds in which members that were started again must have partitions."""
UNCOMMITTED: tuple[Discipline, ...] = (
    "commit_after",
    "transform",
    "transform_transactional",
    *STORED,
)
"""The disciplines with which a member has a record in progress until the record is committed. With every other
discipline, the member has it in progress until the record is applied: it commits earlier, or a timer commits."""


class RunningApplications:
    """The running applications of `scenario`. `workspace` is the folder that holds the control blocks. An *own*
    application is a program of the user's own, and its members are *own* members. `connection` has the client
    properties with which the output topics of user applications are read."""

    def __init__(
        self, scenario: Scenario, workspace: Path, connection: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._members = {
            arm.name: [Control(folder_of(workspace, arm.name, number)) for number in range(application.members)]
            for arm, application in applications_of(scenario)
        }
        self._disciplines = {arm.name: application.discipline for arm, application in applications_of(scenario)}
        self.own = OwnHandle(scenario, workspace, connection)
        self.zombies = Zombies(scenario, workspace)

    @property
    def arms(self) -> list[str]:
        """The names of the arms that have an application."""
        return list(self._members)

    def park(self, point: CrashPoint, batch: int, record: int) -> None:
        """Orders every member to park at `point` of the batch with the number `batch`. The first batch after the order
        has the number 1. Own members get no order, because they have no crash points.

        If `point` is `applied`, the member parks after it has applied `record` records of the batch.
        """
        for control in self._parkable():
            control[Word.PARK_AT] = POINTS.index(point) + 1
            control[Word.PARK_BATCH] = batch
            control[Word.PARK_RECORD] = record
            control[Word.PARKS] += 1

    def are_parked(self) -> bool:
        """Returns whether every member has parked where the latest order says. A member that was killed while it was
        parked there counts as parked. Own members (processes of the user application) are left out."""
        controls = self._parkable()
        return bool(controls) and all(0 < control[Word.PARKS] == control[Word.PARKED] for control in controls)

    def parked_at(self) -> dict[str, str]:
        """Maps each member, as `<arm>/<number>`, to the crash point at which the member is parked, or was parked when
        it was killed.

        The text is empty if the member was ordered to park, but did not park there. A member that was never ordered to
        park in its latest incarnation is missing.
        """
        return {
            f"{arm}/{number}": POINTS[control[Word.PARK_AT] - 1] if control[Word.PARKED] == control[Word.PARKS] else ""
            for arm, controls in self._members.items()
            for number, control in enumerate(controls)
            if control[Word.PARKS]
        }

    def in_progress(self) -> dict[str, int]:
        """Maps each arm to the number of records that its members have in progress. For a killed member, counts the
        records that it had in progress at the kill.

        A record is in progress from the hand-over to the member until the end of the work on it. With the disciplines
        in UNCOMMITTED, this end is the commit of the record. With other disciplines, it is the application of the
        record. User applications are left out, because they count nothing (see `OwnHandle.in_progress`).
        """
        return {
            arm: sum(
                control[Word.HANDED_OVER]
                - control[Word.COMMITTED if self._disciplines[arm] in UNCOMMITTED else Word.APPLIED]
                for control in controls
            )
            for arm, controls in self._members.items()
            if self._disciplines[arm] != "own"
        }

    def are_idle(self) -> bool:
        """Returns whether every member has applied all records that were handed over to it. Own members (processes of
        the user application) are left out, because they do not report what they apply. If a replacement has
        taken the place of a member, the member is left out, and the replacement counts."""
        controls = [
            control
            for arm, controls in self._members.items()
            for control in controls
            if self._disciplines[arm] != "own" and not control[Word.ZOMBIE]
        ]
        return all(
            control[Word.HANDED_OVER] == control[Word.APPLIED] for control in (*controls, *self.zombies.replacements)
        )

    def kill(self) -> None:
        """Asks the supervisor to send SIGKILL to all members at the same moment. Waits until the members are dead.

        Raises DeadlinePassed.
        """
        self._command(Word.KILLS, Word.KILLS_DONE, "kill")

    def stop(self) -> None:
        """Asks the supervisor to stop all members in an orderly way. Waits until the members have left their groups.

        Raises DeadlinePassed.
        """
        self._command(Word.STOPS, Word.STOPS_DONE, "stop")

    def restart(self) -> None:
        """Asks the supervisor to start all killed or stopped members again. Waits until all members have their
        partitions.

        First thaws frozen members. If no member was killed or stopped, asks the supervisor for nothing. Raises
        DeadlinePassed.
        """
        self.zombies.thaw()
        if not any(control.is_down for control in self._controls()):
            return
        self._command(Word.STARTS, Word.STARTS_DONE, "start")
        wait_until(
            lambda: all(control[Word.STATE] >= State.ASSIGNED for control in self._controls()),
            "all members of applications to be given their partitions",
            RESTART_DEADLINE_S,
        )

    def exits(self) -> dict[str, int]:
        """Maps each killed or stopped member, as `<arm>/<number>`, to the exit code of its process.

        A code below zero is minus the number of the signal that ended the process.
        """
        return {
            f"{arm}/{number}": control[Word.EXIT]
            for arm, controls in self._members.items()
            for number, control in enumerate(controls)
            if control.is_down
        }

    @property
    def members(self) -> int:
        """The number of members of all applications together."""
        return len(self._controls())

    def _command(self, asked: Word, done: Word, verb: str) -> None:
        """Gives a command to the supervisor, for all members. `verb` names the command in messages."""
        command(self._controls(), asked, done, f"{verb} all members of applications")

    def _parkable(self) -> list[Control]:
        """Returns the control blocks of all members except own members, which have no crash points."""
        return [
            control
            for arm, controls in self._members.items()
            for control in controls
            if self._disciplines[arm] != "own"
        ]

    def _controls(self) -> list[Control]:
        return [control for controls in self._members.values() for control in controls]
