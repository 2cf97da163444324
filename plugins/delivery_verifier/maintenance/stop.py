"""Ends a run on purpose, in an orderly way. The run's cluster agent ends the brokers. The current step of the run then
fails."""

from __future__ import annotations

import os
import time
from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.layout import AGENT_SOCKET
from delivery_verifier.cluster.lock_owner import LockOwner
from delivery_verifier.host.processes import user_of
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput, bad_input
from delivery_verifier.run_directory.run_directory import RunDirectory

BEGUN_WITHIN_S = 60.0
"""Seconds to wait for the cluster agent of a run that has only just begun."""
LISTENING_WITHIN_S = 15.0
"""Seconds to wait for a cluster agent to take requests. A cluster agent holds the host's lock a moment before it takes
requests."""
ENDED_WITHIN_S = 60.0
"""Seconds to wait for the brokers of a run to end."""


def running(name: str | None) -> LockOwner:
    """Returns the run that uses this host. `name` is the name of the run that the user means; None means any run.

    Raises BadInput if no run uses this host, or if the name of the run that uses this host differs from `name`.
    """
    lock_owner = lease.lock_owner()
    if lock_owner is None or not lock_owner.is_run:
        raise BadInput("no run uses this host: there is nothing to stop")
    if name is not None and Path(name).name != lock_owner.name:
        raise bad_input(
            "run", name, f"the run that uses this host, {lock_owner.name}", "leave the name out to see whose"
        )
    return lock_owner


def end(lock_owner: LockOwner) -> str:
    """Ends `lock_owner`, the run that uses this host. Waits until the host is free. Returns what happened, in words.

    The cluster agent ends the brokers. What happens to the run depends on how far the run has come:

    * If the run still needs the brokers, its current step fails. The error shows a text that this function writes into
      the workspace. The run then removes the workspace.
    * If the run has already read its topics, it continues to its verdict.

    Raises StepFailed if the cluster agent does not answer, and DeadlinePassed if the run does not end in time.
    """
    workspace = wait_until(lambda: _workspace(lock_owner), "the run's cluster agent to start", BEGUN_WITHIN_S)
    if not _holds(lock_owner):
        return f"run {lock_owner.name} has ended by itself"
    reason = f"`kdv stop` ended the run on purpose ({_user()}, {time.strftime('%Y-%m-%d %H:%M:%S')})"
    try:
        _wait_for_listener(workspace, lock_owner)
        (workspace / lease.STOPPED).write_text(reason)
        lease.call(workspace / AGENT_SOCKET, "finish", keep_workspace=True)
    except (OSError, lease.ClusterGone) as error:
        (workspace / lease.STOPPED).unlink(missing_ok=True)  # the run goes on: its later errors have other causes
        if not _holds(lock_owner):
            return f"run {lock_owner.name} has ended by itself"
        agent = (lease.lock_owner() or lock_owner).process.pid
        # A ClusterGone gives the reason that was just written, as if the stop had worked.
        why = "its cluster agent does not answer" if isinstance(error, lease.ClusterGone | DeadlinePassed) else error
        remedy = f"`kill -KILL {agent}` ends the cluster agent, and its brokers with it"
        raise StepFailed(f"run {lock_owner.name} cannot be ended in an orderly way ({why}); {remedy}") from None
    wait_until(lambda: not _holds(lock_owner), f"run {lock_owner.name} to end", ENDED_WITHIN_S)
    return f"ended the cluster of run {lock_owner.name}: {_outlook(lock_owner)}"


def _wait_for_listener(workspace: Path, lock_owner: LockOwner) -> None:
    """Waits until the cluster agent takes requests or the run has ended. Raises DeadlinePassed if neither happens in
    time."""
    socket = workspace / AGENT_SOCKET
    wait_until(
        lambda: socket.exists() or not _holds(lock_owner), "the cluster agent to take requests", LISTENING_WITHIN_S
    )


def _outlook(lock_owner: LockOwner) -> str:
    """Returns a text that says whether the run may still get a verdict. The run's cluster has ended."""
    if lock_owner.run_dir is None:
        return "it gets no verdict, unless its topics had been read already"
    run = RunDirectory(Path(lock_owner.run_dir))
    if (run.path / "read_topic.json").is_file():
        return "its topics had been read already, so it goes on to its verdict"
    if (run.path / "settle.json").is_file():
        return "it gets no verdict, unless it had just read the last of its topics"
    return "it gets no verdict"


def _workspace(lock_owner: LockOwner) -> Path | None:
    """Returns the run's workspace, the folder of its cluster. Returns None as long as the run's cluster agent has not
    started.

    If the run no longer uses this host, the result is meaningless.
    """
    current = lease.lock_owner()
    if current is None or current.name != lock_owner.name:
        return Path(lock_owner.workspace or ".")
    return None if current.workspace is None else Path(current.workspace)


def _holds(lock_owner: LockOwner) -> bool:
    current = lease.lock_owner()
    return current is not None and current.name == lock_owner.name


def _user() -> str:
    return f"user {user_of(os.getpid())}, pid {os.getpid()}"
