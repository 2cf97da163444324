"""The lease, the requests to the cluster agent, and the host's lock.

The cluster agent is the process in charge of a cluster. The steps of a run renew the lease. When the lease runs out,
the cluster agent ends the cluster. The host's lock is a locked file. It lets only one run at a time have a cluster on
this host.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec.structs import replace

from delivery_verifier.cluster import lock_owner as lock_owners
from delivery_verifier.cluster.lock_owner import LockOwner
from delivery_verifier.host import variables
from delivery_verifier.host.processes import myself
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.errors import StepFailed, VerifierError

LEASE_S = 60.0
"""Seconds that a cluster lives after the last renewal of its lease. The time is long, because no process renews the
lease while Airflow starts the next task, and such a start is slow on a loaded host. If the run has an owner (see
StartRequest), the cluster agent also ends the cluster when the owner ends."""
RENEW_EVERY_S = 2.0
PATIENCE_S = 1.0
"""Seconds to wait for the host's lock. A process that only asks who holds the lock also takes a free lock for a moment.
So one failed try does not prove that a run holds the lock."""
ANSWER_S = 5.0
"""Seconds that the cluster agent waits for the text of a request after a client has connected."""


class ClusterGone(VerifierError, RuntimeError):
    """The run's cluster has ended: the cluster agent or the proxy does not answer, or the workspace is gone."""


STOPPED = "STOPPED"
"""The name of a file in a workspace. The command `kdv stop` writes into this file who ended the run on purpose."""


class HostBusy(VerifierError, RuntimeError):
    """Another process holds the host's lock, so this host cannot be used now."""

    exit_code = 75


def lock_file() -> Path:
    """Returns the path of the host's lock. The environment variable KDV_LOCK holds the path. If KDV_LOCK is unset, the
    lock is a file in the system's temporary folder.

    There is one lock per host and user, even if the host has several copies of the project, because two clusters at the
    same time would falsify each other's timing.
    """
    return variables.path("KDV_LOCK") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}.lock"


def acquire_host(name: str, run_dir: Path | None = None) -> IO[str]:
    """Takes the host's lock. Returns the open file that holds the lock.

    `name` is the id of the run, or the command that needs the host. `run_dir` is the directory of the run. The lock
    lasts until this process, and every child that inherited the file, has closed the file. Raises HostBusy if another
    process holds the lock. The error names the lock owner.
    """
    lock_file().parent.mkdir(parents=True, exist_ok=True)
    stream = lock_file().open("a+")
    try:
        wait_until(lambda: _lock(stream), "the host's lock", PATIENCE_S)
    except DeadlinePassed:
        with stream:
            raise HostBusy(lock_owners.busy_text(lock_owners.read(stream))) from None
    lock_owners.write(stream, lock_owners.new_lock_owner(name, run_dir))
    return stream


def hand_over(stream: IO[str], workspace: Path) -> None:
    """Writes into the lock file that this process, the cluster agent of `workspace`, holds the lock from now on.

    Keeps the other entries of the file, e.g. the id of the run. `stream` is the open file that holds the lock.
    """
    lock_owners.write(stream, replace(lock_owners.read(stream), process=myself(), workspace=str(workspace)))


def require_free_host() -> None:
    """Raises HostBusy if a process holds the host's lock. The error names the lock owner."""
    if (busy := lock_owner()) is not None:
        raise HostBusy(lock_owners.busy_text(busy))


def _lock(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_owner() -> LockOwner | None:
    """Returns the lock owner of the host's lock, or None if the lock is free."""
    if not lock_file().exists():
        return None
    with lock_file().open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock_owners.read(stream)
    return None


def listening(socket_path: Path) -> socket.socket:
    """Returns a Unix socket that listens at `socket_path`.

    The file appears only when the socket listens. So the connection of a client that sees the file is never refused.
    """
    listener, partial = socket.socket(socket.AF_UNIX), socket_path.with_suffix(".new")
    listener.bind(str(partial))
    listener.listen(16)
    partial.rename(socket_path)
    return listener


def answer(
    listener: socket.socket,
    carry_out: Callable[[str, Mapping[str, Any]], object],
    server: str,
    timeout_s: float = ANSWER_S,
) -> None:
    """Accepts one connection, and answers the request that arrives on this connection.

    * `carry_out`: a function that takes the name and the arguments of an operation, and returns a result that msgspec
      can encode. If the function raises an error, the client gets the text of this error as the answer.
    * `server`: the name of this process in its log.
    * `timeout_s`: the number of seconds to wait for the text of the request.
    """
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(timeout_s)
        try:
            with connection.makefile("r") as stream:
                request = json.loads(stream.readline())
            reply: dict[str, object] = {"result": carry_out(request.pop("operation"), request)}
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        try:
            connection.sendall(msgspec.json.encode(reply) + b"\n")
        except OSError:
            print(f"{server}: the caller hung up before the answer", flush=True)


def call(socket_path: Path, operation: str, timeout_s: float = 15.0, server: str = "agent", **arguments: object) -> Any:
    """Sends a request to the process that listens at `socket_path`. Returns the result in the types of JSON.

    `server` is the name of that process in error messages. `arguments` are the arguments of the operation. Raises
    ClusterGone if the process does not answer, and RuntimeError with the reason if the process refuses the request.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(socket_path))
            connection.sendall(json.dumps({"operation": operation, **arguments}).encode() + b"\n")
            with connection.makefile("r") as stream:
                line = stream.readline()
    except OSError as error:
        message = f"the {server} at {socket_path} does not answer ({error}): the run's cluster is gone"
        raise cluster_gone(message, socket_path) from None
    if not line:
        raise cluster_gone(f"the {server} at {socket_path} ended in the middle of {operation}", socket_path)
    reply = json.loads(line)
    if "error" in reply:
        raise StepFailed(f"{server}: {operation}: {reply['error']}")
    if "result" not in reply:
        raise StepFailed(f"{server}: {operation}: it answered as another version does; wait until its run has ended")
    return reply["result"]


def cluster_gone(message: str, socket_path: Path) -> ClusterGone:
    """Returns a ClusterGone with the text `message`. If a user ended the run with `kdv stop`, the error has the text of
    the file STOPPED instead.

    `socket_path` is a socket in the cluster's workspace.
    """
    with suppress(OSError):
        return ClusterGone((socket_path.parent / STOPPED).read_text())
    return ClusterGone(message)


@contextmanager
def renewed(socket_path: Path, when_gone: Callable[[], None] | None = None) -> Iterator[threading.Event]:
    """Renews the lease while the block of the `with` statement runs. If the cluster agent is gone already, raises
    ClusterGone before the block begins.

    Yields an event, which is set when the cluster agent is gone or refuses a renewal. A block that waits must check
    this event. If the block cannot check the event, the caller passes the function `when_gone`. Another thread calls
    `when_gone` once the event is set. `when_gone` must make the block fail.

    If the block raises an error after the event was set, or after `kdv stop`, the end of the cluster caused the error.
    So raises ClusterGone instead of this error.
    """
    done, gone = threading.Event(), threading.Event()

    def renew() -> None:
        while not done.is_set():
            try:
                call(socket_path, "renew")
            # the cluster agent is gone, or its answers cannot be relied on
            except (RuntimeError, ValueError, KeyError):
                gone.set()
                if when_gone is not None:
                    when_gone()
                return
            done.wait(RENEW_EVERY_S)

    call(socket_path, "renew")
    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield gone
    except Exception as error:
        # A run that was ended on purpose fails because of that, even while the cluster agent still answers.
        is_over = gone.is_set() or (socket_path.parent / STOPPED).exists()
        if is_over and not isinstance(error, ClusterGone):
            cause = f"({type(error).__name__}: {error})"
            message = f"the cluster agent of this run's cluster is gone, and its brokers with it {cause}"
            raise cluster_gone(message, socket_path) from error
        raise
    finally:
        done.set()
        with suppress(RuntimeError):
            thread.join(timeout=RENEW_EVERY_S)
