"""Zombies: members that were frozen and replaced, and that go on when they are thawed.

The fault plan freezes the only member of each application with SIGSTOP. A replacement takes its place: another process
with the same settings, in a folder of its own. Once the member is thawed, two processes of one application run at the
same time. The thawed member goes on with the records that it has in progress. It ends its work when it is refused, or
has nothing more to do.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from delivery_verifier.applications.control import Control, State, Word, command
from delivery_verifier.applications.incarnations import folder_of, has_end, incarnations_of, read_end
from delivery_verifier.applications.pool import applications_of
from delivery_verifier.host.java.jvm import jvm_of
from delivery_verifier.host.processes import is_frozen
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.application import ASSIGNED, Application, member_client_id
from delivery_verifier.model.fault_plan import replacements_of
from delivery_verifier.model.scenario import Arm, Scenario

FREEZE_S = 10.0
"""Seconds in which every thread of a member must stand still after SIGSTOP."""
REPLACED_S = 90.0
"""Seconds in which the replacements must be given their partitions. A group first waits until the session of the frozen
member is over."""

NEVER = 1 << 62
"""The number of a batch that no member ever reaches. A member that is ordered to park in this batch goes on."""


@dataclass(frozen=True)
class Zombie:
    """A member that the fault plan may freeze, and its replacement (the process that then takes its place). `control`
    is the control block of the member. `replacement` is the control block of the replacement."""

    arm: Arm
    application: Application
    control: Control
    replacement: Control
    folder: Path

    @property
    def name(self) -> str:
        """The member's name in proofs: `<arm>/0`."""
        return f"{self.arm.name}/0"

    @property
    def client_ids(self) -> tuple[str, str]:
        """The client.id of the member, and the client.id of its replacement."""
        return member_client_id(self.arm.name, 0), member_client_id(self.arm.name, 1)

    @property
    def is_frozen(self) -> bool:
        """Whether every thread of the member is stopped, and every thread of its JVM, if it has one."""
        return all(is_frozen(pid) for pid in self._pids)

    @property
    def _pids(self) -> list[int]:
        jvm = jvm_of(self.folder)
        return [self.control[Word.PID], *([jvm.pid] if jvm is not None else [])]

    def send(self, number: int) -> None:
        """Sends the signal `number` to the member, and to its JVM, if it has one."""
        for pid in self._pids:
            os.kill(pid, number)

    @property
    def is_assigned(self) -> bool:
        """Whether the member and its replacement assign partitions to themselves. If so, their group has no members."""
        return self.application.discipline in ASSIGNED

    @property
    def ended(self) -> str:
        """The exit code of the member and the last words that it printed, if the member ended because it was fenced.
        Empty if the member still runs or was stopped."""
        incarnation = incarnations_of(self.folder)[self.control[Word.INCARNATION]]
        if not has_end(incarnation) or not read_end(incarnation).exit_code:
            return ""
        words = (incarnation / "stderr").read_text(errors="replace").strip().splitlines()
        return f"exit code {read_end(incarnation).exit_code}: {words[-1] if words else 'nothing'}"


class Zombies:
    """The members that the fault plan of `scenario` freezes. `workspace` is the folder that holds the control blocks.

    If the fault plan freezes nothing, there are no such members.
    """

    def __init__(self, scenario: Scenario, workspace: Path) -> None:
        self.all = [
            Zombie(
                arm,
                application,
                Control(folder_of(workspace, arm.name, 0)),
                Control(folder_of(workspace, arm.name, number)),
                folder_of(workspace, arm.name, 0),
            )
            for arm, application in applications_of(scenario)
            for number in replacements_of(scenario.fault, application)
        ]

    @property
    def replacements(self) -> list[Control]:
        """The control blocks of the replacements."""
        return [zombie.replacement for zombie in self.all]

    def freeze(self) -> None:
        """Freezes all members. Waits until every thread of the members is stopped. Raises DeadlinePassed."""
        for zombie in self.all:
            zombie.control[Word.ZOMBIE] = 1
            zombie.send(signal.SIGSTOP)
        wait_until(lambda: all(zombie.is_frozen for zombie in self.all), "the members to stand still", FREEZE_S, 0.005)

    def replace(self) -> None:
        """Asks the supervisor to start the replacements. Waits until each replacement has its partitions. Raises
        DeadlinePassed."""
        command(self.replacements, Word.STARTS, Word.STARTS_DONE, "start the replacements")
        wait_until(
            lambda: all(control[Word.STATE] >= State.ASSIGNED for control in self.replacements),
            "all replacements to be given their partitions",
            REPLACED_S,
        )

    def thaw(self) -> None:
        """Lets every frozen member go on from the crash point at which it is parked. Does nothing to other members."""
        for zombie in self.all:
            if zombie.control[Word.ZOMBIE] and zombie.is_frozen:
                zombie.control[Word.PARK_BATCH] = NEVER
                zombie.control[Word.PARKS] += 1
                zombie.send(signal.SIGCONT)

    def stop(self) -> None:
        """Asks the supervisor to stop the thawed members that still run, in an orderly way. Waits until these members
        have ended. Raises DeadlinePassed."""
        controls = [zombie.control for zombie in self.all]
        command(controls, Word.STOPS, Word.STOPS_DONE, "stop the thawed members")
