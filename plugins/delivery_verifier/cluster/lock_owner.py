"""The lock owner of the host's lock: the run or command that uses this host now.

The module tells users who started the lock owner, and when the lock owner took the lock. If the lock owner is a run,
the module also tells which step of the run is in progress.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from delivery_verifier.host.processes import ProcessId, myself, process_of, terminal_of, user_of
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

_ON_THE_HOST = ("start_cluster", "create_topics", "produce", "settle", "read_topic", "stop_cluster")
"""The steps of a run during which the run holds the host's lock, in their order. The step inject_fault is left out,
because it runs beside produce."""


class LockOwner(Struct, frozen=True, kw_only=True):
    """The run or command that holds the host's lock. The lock file contains this object as JSON.

    * `name`: the id of the run, or the name of the command.
    * `process`: the process that holds the host's lock. For a run, this is at first the process of the step
      start_cluster, and then the cluster agent.
    * `since_us`: when the lock was taken, in µs since the epoch.
    * `run_dir`: the run directory. None for a command, or if the directory is unknown.
    * `workspace`: the folder in which the cluster agent takes requests. None if there is no cluster agent.
    """

    name: str
    process: ProcessId
    since_us: int
    run_dir: str | None = None
    workspace: str | None = None

    @property
    def owner(self) -> ProcessId | None:
        """The process that the run must not outlive, e.g. a `kdv run`. None if the run has no such process, e.g.
        because Airflow started the run."""
        if self.run_dir is None:
            return None
        try:
            return process_of(RunDirectory(self.run_dir).manifest("plan").notes.get("owner", ""))
        except IncompleteRun:
            return None

    @property
    def is_run(self) -> bool:
        """Whether the lock owner is a run. If not, the lock owner is a command that cleans up and ends soon."""
        return self.run_dir is not None or self.workspace is not None

    def __str__(self) -> str:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since_us / 1e6))
        since = f"since {began} ({_age_s(self.since_us):.0f} s ago)"
        if not self.is_run:
            return f"{self.name} (pid {self.process.pid}, user {user_of(self.process.pid)}), {since}"
        progress = "" if self.run_dir is None else f"; {_progress(RunDirectory(self.run_dir), self.since_us)}"
        return f"run {self.name} ({self._origin()}), {since}{progress}"

    def _origin(self) -> str:
        """Returns, in words, who started the run: the user, the process, and the terminal or Airflow."""
        owner = self.owner
        process = owner if owner is not None and owner.alive else self.process
        text = f"user {user_of(process.pid)}, pid {process.pid}"
        if self.run_dir is None:
            return text
        if owner is None:
            return f"{text}, started in Airflow"
        terminal = terminal_of(process.pid)
        return f"{text}, {f'terminal {terminal}' if terminal else 'no terminal'}"


def _progress(run: RunDirectory, began_at_us: int) -> str:
    """Returns, in words, which step of the run is in progress, and how long ago the step began. For the step produce,
    returns how long the load will still take.

    `began_at_us` is the time when the run took the host's lock, in µs since the epoch. It counts as the begin of the
    first step.
    """
    for step in _ON_THE_HOST:
        try:
            began_at_us = run.manifest(step).finished_at_us
        except IncompleteRun:
            if step == "produce":
                return f"at step {step}, {_load_left(run, began_at_us)}"
            what = "reconciling, or stopping the cluster," if step == "stop_cluster" else f"at step {step}"
            return f"{what} for {_age_s(began_at_us):.0f} s"
    return "about to end"


def _load_left(run: RunDirectory, began_at_us: int) -> str:
    """Returns, in words, how many seconds of the planned load are left, or how many seconds longer than planned it has
    taken.

    `began_at_us` is the end of the step before produce, in µs since the epoch. If the run's scenario cannot be read,
    returns how long the step has taken.
    """
    try:
        load = run.read_scenario().load
    except VerifierError:
        return f"for {_age_s(began_at_us):.0f} s"
    left_s = load.duration_s + load.recovery_s - _age_s(began_at_us)
    if left_s < 0:
        return f"for {_age_s(began_at_us):.0f} s, {-left_s:.0f} s longer than planned"
    return f"whose plan has about {left_s:.0f} s to go; the steps settle and read_topic follow"


def _age_s(moment_us: int) -> float:
    return max(0.0, time.time() - moment_us / 1e6)


def new_lock_owner(name: str, run_dir: Path | None = None) -> LockOwner:
    """Returns a lock owner for a lock that this process takes now. `name` is the id of the run, or the name of the
    command that needs the host."""
    directory = None if run_dir is None else str(run_dir.absolute())
    return LockOwner(name=name, process=myself(), since_us=time.time_ns() // 1000, run_dir=directory)


def write(stream: IO[str], lock_owner: LockOwner) -> None:
    """Writes `lock_owner` into the lock file. `stream` is the open file that holds the lock."""
    stream.seek(0)
    stream.truncate(0)
    stream.write(msgspec.json.encode(lock_owner).decode())
    stream.flush()


def read(stream: IO[str]) -> LockOwner:
    """Returns the lock owner that the lock file names. `stream` is the open lock file.

    If the content of the file cannot be read, returns a lock owner with the name "an unnamed process" and without a
    process.
    """
    stream.seek(0)
    try:
        return msgspec.json.decode(stream.read(), type=LockOwner)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return LockOwner(name="an unnamed process", process=ProcessId(0, 0), since_us=time.time_ns() // 1000)


def busy_text(lock_owner: LockOwner) -> str:
    """Returns a message for a user whose run cannot start because `lock_owner` holds the host's lock."""
    if not lock_owner.is_run:
        return f"this host is in use: {lock_owner}. Wait for it, and try again"
    return (
        f"another run is using this host: {lock_owner}. Wait for it, or end it on purpose with `kdv stop "
        f"{lock_owner.name}`"
    )
