"""The pool of members: all member processes of a run. The pool starts and stops them, and checks that none ends by
itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from delivery_verifier.applications.control import OF_ONE_LIFE, Control, State, Word
from delivery_verifier.applications.lives import LifeEnd, folder_of, lives_of, write_end
from delivery_verifier.applications.spec import MemberSpec, life_folder
from delivery_verifier.host.processes import dies_with_parent, how_it_ended
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.application import Application
from delivery_verifier.model.data import Setting, dumps
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import Arm, Scenario

ASSIGNMENT_DEADLINE_S = 90.0
"""Seconds in which every member must be given its partitions. After a kill, the group first waits until the session of
the killed member times out."""
STOP_DEADLINE_S = 30.0
"""Seconds in which a member must have ended after SIGTERM."""


class MemberDied(VerifierError, RuntimeError):
    """A member of an application ended by itself, or did not end as it was told to."""


@dataclass
class MemberProcess:
    """One member of an arm's application, with its control block. `process` is None while the member does not run."""

    arm: Arm
    application: Application
    number: int
    folder: Path
    control: Control
    process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The member's name in messages: `<arm>/<number>`."""
        return f"{self.arm.name}/{self.number}"


class MemberPool:
    """All members of a run's applications. A new pool starts no process.

    `connection` has the client properties with which the members reach the cluster. `workspace` is the folder of the
    cluster. Several steps of a run may each have a pool, one after the other. A later pool continues the numbers of the
    lives. `adopt` is called with the pid of each new process, so that the process ends with the cluster.
    """

    def __init__(
        self, scenario: Scenario, connection: Mapping[str, str], workspace: Path, adopt: Callable[[int], None]
    ) -> None:
        self._scenario, self._connection, self._adopt = scenario, connection, adopt
        self.members = [
            MemberProcess(arm, application, number, folder, Control(folder))
            for arm, application in applications_of(scenario)
            for number in range(application.members)
            for folder in (folder_of(workspace, arm.name, number),)
        ]

    def start(self) -> None:
        """Begins another life of every member. Waits until each has its partitions.

        Raises MemberDied, and DeadlinePassed after `ASSIGNMENT_DEADLINE_S` seconds.
        """
        for member in self.members:
            self._begin_life(member)
        self.wait_assigned()

    def wait_assigned(self) -> None:
        """Waits until the group of every member has given the member its partitions. Raises as `start` does."""
        wait_until(
            lambda: self.check() and all(member.control[Word.STATE] >= State.ASSIGNED for member in self.members),
            "all members of applications to be given their partitions",
            ASSIGNMENT_DEADLINE_S,
            detail=lambda: str({member.name: State(member.control[Word.STATE]).name for member in self.members}),
        )

    def check(self) -> bool:
        """Raises MemberDied if a member ended by itself. Returns True otherwise."""
        for member in self.members:
            if member.process is not None and member.process.poll() is not None:
                raise _died(member, member.process.returncode)
        return True

    def apply_commands(self) -> None:
        """Carries out the latest command of the fault plan, once it is in the control blocks of all members.

        The fault plan waits until a command is carried out before it gives another. After a start, this method does not
        wait until the members have partitions. Raises MemberDied if a member does not end as it was told to.
        """
        for asked, done, carry_out in (
            (Word.KILLS, Word.KILLS_DONE, self.kill),
            (Word.STOPS, Word.STOPS_DONE, self.stop),
            (Word.STARTS, Word.STARTS_DONE, self._begin_lives),
        ):
            if self.members and all(member.control[asked] > member.control[done] for member in self.members):
                carry_out()
                for member in self.members:
                    member.control[done] = member.control[asked]

    def kill(self) -> None:
        """Sends SIGKILL to all members at the same moment. Waits until all have ended, and writes down how each life
        ended."""
        for process in self._processes().values():
            process.send_signal(signal.SIGKILL)
        for name, process in self._processes().items():
            process.wait()
            self._end_life(name, killed=True)

    def stop(self) -> None:
        """Sends SIGTERM to all members, and waits until all have ended. Before a member ends, it applies what it has in
        hand, and leaves its group.

        Raises MemberDied if a member ends with an error, and DeadlinePassed after `STOP_DEADLINE_S` seconds.
        """
        processes = self._processes()
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        wait_until(
            lambda: all(process.poll() is not None for process in processes.values()),
            "all members of applications to end",
            STOP_DEADLINE_S,
        )
        for name in processes:
            self._end_life(name, killed=False)

    def close(self) -> None:
        """Kills every process that is left, e.g. after an error. Does not write down how these lives ended."""
        for process in self._processes().values():
            process.kill()
            process.wait()

    def _processes(self) -> dict[int, subprocess.Popen[bytes]]:
        """Maps the index of each member that has a process to the process."""
        return {index: member.process for index, member in enumerate(self.members) if member.process is not None}

    def _begin_lives(self) -> None:
        """Begins another life of every member that has no process."""
        for member in self.members:
            if member.process is None:
                self._begin_life(member)

    def _begin_life(self, member: MemberProcess) -> None:
        """Begins the next life of `member`: sets the words about one life to 0, and starts a process."""
        control, life = member.control, len(lives_of(member.folder))
        control[Word.LIFE] = life
        for word in OF_ONE_LIFE:
            control[word] = 0
        spec = MemberSpec(
            folder=str(member.folder),
            life=life,
            connection=dict(self._connection),
            settings={
                **member.application.consumer,
                "group.id": group_of(self._scenario, member.arm),
                "client.id": f"{member.arm.name}-member-{member.number}",
            },
            topic=member.arm.topic_name,
            run_token=self._scenario.run_token,
            arm=member.arm.ordinal,
            discipline=member.application.discipline,
            batch=member.application.batch,
            producer=_producer_settings(member),
        )
        member.process = start_process(spec)
        self._adopt(member.process.pid)

    def _end_life(self, index: int, *, killed: bool) -> None:
        """Writes down how the latest life of a member has ended. `killed`: whether the pool killed the process.

        Raises MemberDied if the process did not end by SIGKILL although it was killed, or did so although it was only
        stopped. Also raises MemberDied if a stopped process ended with an error or without leaving its group.
        """
        member = self.members[index]
        process, control = member.process, member.control
        assert process is not None, "only a member with a process can end"
        code = control[Word.EXIT] = process.returncode
        if killed != (code == -signal.SIGKILL) or (not killed and (code or control[Word.STATE] != State.CLOSED)):
            raise _died(member, code)
        end = LifeEnd(applied=control[Word.APPLIED], exit_code=code, killed=killed)
        write_end(lives_of(member.folder)[control[Word.LIFE]], end)
        member.process = None


def applications_of(scenario: Scenario) -> list[tuple[Arm, Application]]:
    """Returns the arms that have an application, each with its application."""
    return [(arm, arm.application) for arm in scenario.loaded if arm.application is not None]


def group_of(scenario: Scenario, arm: Arm) -> str:
    """Returns the group.id of the consumers of the arm's application."""
    return f"kdv-{scenario.run_token}-{arm.name}"


def _producer_settings(member: MemberProcess) -> dict[str, Setting]:
    """Returns the producer settings of a member; empty if its application is no transform.

    Each member has a transactional.id of its own, and keeps it in every life: with the same one, members would fence
    each other, and with a new one, a life would not end the transaction of the life before.
    """
    settings = member.application.producer
    if not settings:
        return {}
    own: dict[str, Setting] = {"client.id": f"{member.arm.name}-output-{member.number}"}
    if base := member.application.transactional_id:
        own["transactional.id"] = f"{base}-{member.arm.name}-{member.number}"
    return {**settings, **own}


def start_process(spec: MemberSpec) -> subprocess.Popen[bytes]:
    """Starts the process for the life that `spec` describes, and creates the folder of the life. The process dies when
    the calling process dies."""
    folder = life_folder(spec)
    folder.mkdir(parents=True)
    (folder / "spec.json").write_bytes(dumps(spec))
    with (folder / "stderr").open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "delivery_verifier.applications.process", str(folder / "spec.json")],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            preexec_fn=dies_with_parent(),
        )


def _died(member: MemberProcess, code: int) -> MemberDied:
    """Returns the error that says how the latest life of `member` ended."""
    error = (member.folder / str(member.control[Word.LIFE]) / "stderr").read_text(errors="replace").strip()[-500:]
    return MemberDied(f"member {member.name} ended with {how_it_ended(code)}; it said last: {error or 'nothing'}")
