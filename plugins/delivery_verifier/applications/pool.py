"""The pool of members: all member processes of a run. The pool starts and stops them. It also checks that none of them
ends without a request."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from delivery_verifier.applications.clients import require_client
from delivery_verifier.applications.control import OF_ONE_INCARNATION, Control, State, Word
from delivery_verifier.applications.incarnations import (
    FENCED,
    OFFSET_MOVED,
    IncarnationEnd,
    folder_of,
    incarnations_of,
    write_end,
)
from delivery_verifier.applications.member_process import MemberProcess, spec_of, start_process
from delivery_verifier.applications.own.ends import ORDERLY, describe_end, end_of_own
from delivery_verifier.applications.own.process import Progress, kill_group, start_own
from delivery_verifier.applications.sink import SinkInputs
from delivery_verifier.applications.spec import MemberSpec
from delivery_verifier.host.java.jvm import await_end
from delivery_verifier.host.supervision.children import Child
from delivery_verifier.host.supervision.control_block import carry_out
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.application import Application
from delivery_verifier.model.client import Client
from delivery_verifier.model.fault_plan import replacements_of
from delivery_verifier.model.scenario import Arm, Scenario

Connections = Mapping[Client, Mapping[str, str]]
ASSIGNMENT_DEADLINE_S = 90.0
"""Seconds in which every member must be given its partitions. After a kill, the group first waits until the session of
the killed member times out."""
STOP_DEADLINE_S = 30.0
"""Seconds in which a member must have ended after SIGTERM."""
_CHECK_S = 0.2


class MemberPool:
    """All members of a run's applications. A new pool starts no process.

    `connections` has, for each client of the members, its properties for reaching the cluster (see `clients_of`).
    `workspace` is the folder of the cluster. Several steps of a run may each have a pool, one after the other. A later
    pool continues the numbers of the incarnations. `adopt` is called with the pid of each new process, so that the
    process ends with the cluster. The constructor raises what `clients.require_client` raises.

    The attribute `members` lists the regular members and the replacements. A replacement is a process that takes the
    place of a member that the fault plan freezes. The replacement runs only once the fault plan asks for it.
    """

    def __init__(
        self, scenario: Scenario, connections: Connections, workspace: Path, adopt: Callable[[int], None]
    ) -> None:
        self._scenario, self._connections, self._adopt = scenario, connections, adopt
        self._regulars, self._replacements = list[MemberProcess](), list[MemberProcess]()
        for arm, application in applications_of(scenario):
            for number in (*range(application.members), *replacements_of(scenario.fault, application)):
                folder = folder_of(workspace, arm.name, number)
                crew = self._regulars if number < application.members else self._replacements
                crew.append(MemberProcess(arm, application, number, folder, Control(folder)))
        self.members = [*self._regulars, *self._replacements]
        for member in self.members:
            if not member.is_own:
                require_client(self._spec(member, 0))

    def start(self) -> None:
        """Begins another incarnation of every member, but not of replacements. Waits until each of these members has
        its partitions.

        Raises MemberDied, and DeadlinePassed after `ASSIGNMENT_DEADLINE_S` seconds.
        """
        for member in self._regulars:
            self._begin_incarnation(member)
        self._wait_assigned([member for member in self._regulars if not member.is_own])

    def wait_applying(self) -> None:
        """Waits until each own member (a process of a user application) has applied something. Does not wait
        longer for a member that applies nothing for 60 s.

        Raises the same errors as `start`.
        """
        self._wait_assigned([member for member in self.members if member.is_own])

    def _wait_assigned(self, members: list[MemberProcess]) -> None:
        wait_until(
            lambda: self.check() and all(member.control[Word.STATE] >= State.ASSIGNED for member in members),
            "all members of applications to be given their partitions",
            ASSIGNMENT_DEADLINE_S,
            detail=lambda: str({member.name: State(member.control[Word.STATE]).name for member in members}),
        )

    def check(self) -> bool:
        """Finds out how far own members (processes of the user application) have come. Returns True.

        Raises MemberDied if a member ended without a request. Raises StepFailed if a part of the place to which an own
        member writes is gone or has shrunk. One end is allowed: a member that a replacement has replaced may end
        because it was fenced.
        """
        for member in self.members:
            if member.process is None:
                continue
            code = member.process.poll()
            if code is None:
                member.update()
            elif _is_fenced(member, code):
                self._end_incarnation(member, killed=False)
            else:
                raise member.died(code)
        return True

    def note_markers(self) -> None:
        """Notes which markers own members (processes of the user application) have applied since the last call.
        Other members note their markers themselves."""
        for member in self.members:
            if member.progress is not None:
                member.progress.note_markers()

    def apply_commands(self) -> None:
        """Carries out the latest command of the fault plan. A command goes to all regular members or to all
        replacements. The pool carries it out once the command is in the control blocks of all of them.

        The fault plan gives its next command only after this command is carried out. A start counts as carried out
        before the members have partitions. Raises MemberDied if a member does not end as requested.
        """
        for members in (self._regulars, self._replacements):
            carry_out(
                [member.control for member in members],
                (
                    (Word.KILLS, Word.KILLS_DONE, partial(self.kill, members)),
                    (Word.STOPS, Word.STOPS_DONE, partial(self.stop, members)),
                    (Word.STARTS, Word.STARTS_DONE, partial(self._begin_incarnations, members)),
                ),
            )

    def kill(self, members: Sequence[MemberProcess] | None = None) -> None:
        """Sends SIGKILL to `members` at the same moment. None stands for all members. Waits until all have ended, and
        writes down how each incarnation ended."""
        running = _running(self.members if members is None else members)
        for member, _ in running:
            member.send(signal.SIGKILL)
        for member, process in running:
            process.wait()
            await_end(member.folder)  # a JVM ends with its member process, but a moment later
            self._end_incarnation(member, killed=True)

    def stop(self, members: Sequence[MemberProcess] | None = None) -> None:
        """Sends SIGTERM to `members`, and waits until all have ended. None stands for all members. Before a member
        ends, it applies the records that it has in progress, and leaves its group.

        Raises MemberDied if a member ends with an error, and DeadlinePassed after `STOP_DEADLINE_S` seconds. An own
        member (a process of the user application) that still runs at this deadline is killed instead. The invariant
        `incarnations` is then broken, because the fault plan did not ask for a kill.
        """
        running = _running(self.members if members is None else members)
        end_s = time.monotonic() + STOP_DEADLINE_S
        for member, _ in running:
            member.send(signal.SIGTERM)

        def have_ended() -> bool:
            is_late = time.monotonic() >= end_s
            return all((is_late and member.is_own) or process.poll() is not None for member, process in running)

        wait_until(have_ended, "all members of applications to end", STOP_DEADLINE_S + _CHECK_S)
        for member, process in running:
            is_late = process.poll() is None
            if is_late:
                kill_group(process)
            self._end_incarnation(member, killed=is_late)

    def close(self) -> None:
        """Kills every process that still runs, e.g. after an error. Does not write down how the incarnations of these
        processes ended."""
        for member, process in _running(self.members):
            member.send(signal.SIGKILL)
            process.wait()
        for member in self.members:
            if member.process is not None and member.progress is not None:
                describe_end(member.progress)  # what an own member has printed is kept without secrets

    def _begin_incarnations(self, members: Sequence[MemberProcess]) -> None:
        """Begins another incarnation of each member in `members` that has no process."""
        for member in members:
            if member.process is None:
                self._begin_incarnation(member)

    def _begin_incarnation(self, member: MemberProcess) -> None:
        """Begins the next incarnation of `member`. Sets the control words that describe one incarnation to 0, and
        starts a process."""
        control, incarnation = member.control, len(incarnations_of(member.folder))
        control[Word.INCARNATION] = incarnation
        for word in OF_ONE_INCARNATION:
            control[word] = 0
        if member.is_own:
            inputs, group = self._inputs(member), group_of(self._scenario, member.arm)
            member.progress = Progress.begin(inputs, member.number, control)
            member.process = start_own(inputs, group, member.number, incarnation, member.progress.secrets)
        else:
            member.process = start_process(self._spec(member, incarnation))
        control[Word.PID] = member.process.pid
        self._adopt(member.process.pid)

    def _end_incarnation(self, member: MemberProcess, *, killed: bool) -> None:
        """Writes down how the latest incarnation of a member has ended. `killed` says whether the pool killed the
        process.

        Raises MemberDied in each of these cases:

        * A killed process did not end by SIGKILL.
        * A stopped process did not leave its group and end with exit code 0. One other end is allowed: it was fenced.
        * A stopped own member (a process of the user application) ended with an exit code that is not in ORDERLY.
        """
        process, control = member.process, member.control
        assert process is not None, "only a member with a process can end"
        code = control[Word.EXIT] = process.returncode
        if member.progress is not None:
            if code not in ((-signal.SIGKILL,) if killed else ORDERLY):
                raise member.died(code)
            end_of_own(member.progress, IncarnationEnd(applied=0, exit_code=code, killed=killed))
            member.process = member.progress = None
            return
        in_order = code == 0 and control[Word.STATE] == State.CLOSED
        if not (code == -signal.SIGKILL if killed else in_order or _is_fenced(member, code)):
            raise member.died(code)
        end = IncarnationEnd(applied=control[Word.APPLIED], exit_code=code, killed=killed)
        write_end(incarnations_of(member.folder)[control[Word.INCARNATION]], end)
        member.process = None

    def _spec(self, member: MemberProcess, incarnation: int) -> MemberSpec:
        group, connection = group_of(self._scenario, member.arm), self._connections[member.application.client]
        return spec_of(member, incarnation, group, self._scenario.run_token, connection)

    def _inputs(self, member: MemberProcess) -> SinkInputs:
        folder, size = member.folder.parent, self._scenario.load.payload_bytes
        token = self._scenario.run_token
        connection = self._connections["librdkafka"]
        return SinkInputs(member.arm, folder, member.application.batch, token, connection, payload_bytes=size)


def _running(members: Sequence[MemberProcess]) -> list[tuple[MemberProcess, Child]]:
    """Returns the members in `members` that have a process. Pairs each member with its process."""
    return [(member, member.process) for member in members if member.process is not None]


def _is_fenced(member: MemberProcess, code: int) -> bool:
    """Returns whether the member, which ended with the exit code `code`, had been replaced by a replacement and was
    then fenced."""
    return bool(member.control[Word.ZOMBIE]) and code in (OFFSET_MOVED, FENCED)


def applications_of(scenario: Scenario) -> list[tuple[Arm, Application]]:
    """Returns the arms that have an application, each with its application."""
    return [(arm, arm.application) for arm in scenario.loaded if arm.application is not None]


def clients_of(scenario: Scenario) -> set[Client]:
    """Returns the clients of the members of all applications, and librdkafka, with which their effects are read."""
    return {"librdkafka", *(application.client for _, application in applications_of(scenario))}


def group_of(scenario: Scenario, arm: Arm) -> str:
    """Returns the group.id of the consumers of an arm's application."""
    return f"kdv-{scenario.run_token}-{arm.name}"
