"""The lease: a run's claim to its cluster, which every working step renews; requests to the keeper; the host's lock."""

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

from delivery_verifier.host import variables
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.errors import StepFailed, VerifierError

LEASE_S = 60.0
"""Seconds that a cluster outlives its last renewal. No process renews the lease while Airflow starts the next task,
which is slow on a loaded host. The end of a killed run is noticed much sooner: its owner ends, or Airflow's
supervisor."""
RENEW_EVERY_S = 2.0
PATIENCE_S = 1.0
"""Seconds to wait for the host's lock, which `holder` takes for a moment."""
ANSWER_S = 5.0
"""Seconds that a server waits for the text of a request after the client has connected."""


class ClusterGone(VerifierError, RuntimeError):
    """The keeper of this run's cluster is gone."""


class HostBusy(VerifierError, RuntimeError):
    """Another run holds this host."""

    exit_code = 75


def lock_file() -> Path:
    """The file of the host's lock (KDV_LOCK). There is one lock per host and user, whatever folder the project is in:
    two clusters at once would falsify each other's timing."""
    return variables.path("KDV_LOCK") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}.lock"


def acquire_host(run_id: str) -> IO[str]:
    """Takes the host's lock, and returns the open file that holds it.

    The lock lasts until the file is closed, in this process and in every child that inherited it. Raises HostBusy,
    which names the holder.
    """
    stream = lock_file().open("a+")
    try:
        wait_until(lambda: _lock(stream), "the host's lock", PATIENCE_S)
    except DeadlinePassed:
        stream.seek(0)
        holder = stream.read().strip() or "an unnamed run"
        stream.close()
        raise HostBusy(
            f"another run is using this host: {holder}. Wait for it, or stop it with `kdv doctor --heal`"
        ) from None
    sign(stream, f"run {run_id}, pid {os.getpid()}")
    return stream


def sign(stream: IO[str], name: str) -> None:
    """Writes the name of the lock's holder into the lock file. `stream` is the open file that holds the lock."""
    stream.truncate(0)
    stream.write(name)
    stream.flush()


def _lock(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder() -> str | None:
    """The name of the process that holds the host's lock; None if the lock is free."""
    if not lock_file().exists():
        return None
    with lock_file().open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return stream.read().strip() or "an unnamed run"
    return None


def listening(socket_path: Path) -> socket.socket:
    """A Unix socket that listens at `socket_path`. The file appears only once the socket listens, so that no client
    that sees the file is refused."""
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
    """Accepts one connection and answers its request.

    `carry_out` takes the operation and its arguments, and returns what msgspec can encode. An error that `carry_out`
    raises becomes the answer. `server`: the name of this process, for its log.
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


def call(
    socket_path: Path, operation: str, timeout_s: float = 15.0, server: str = "keeper", **arguments: object
) -> Any:
    """Sends one request to the keeper, or to another `server`, and returns its result as JSON.

    Raises ClusterGone if the server is not there, RuntimeError with what the server refused.
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
        raise ClusterGone(message) from None
    if not line:
        raise ClusterGone(f"the {server} at {socket_path} ended in the middle of {operation}")
    reply = json.loads(line)
    if "error" in reply:
        raise StepFailed(f"{server}: {operation}: {reply['error']}")
    if "result" not in reply:
        raise StepFailed(f"{server}: {operation}: it answered as another version does; wait until its run has ended")
    return reply["result"]


@contextmanager
def renewed(socket_path: Path, when_gone: Callable[[], None] | None = None) -> Iterator[threading.Event]:
    """Renews the lease while the block runs. The event is set when the keeper is gone: a block that waits checks the
    event.

    A block that cannot check the event passes `when_gone`, which is called in another thread and has to make the block
    fail. If the block raises anything once the keeper is gone, ClusterGone is raised instead, because that is the
    cause.
    """
    done, gone = threading.Event(), threading.Event()

    def renew() -> None:
        while not done.is_set():
            try:
                call(socket_path, "renew")
            except (RuntimeError, ValueError, KeyError):  # the keeper is gone, or its answers cannot be relied on
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
        if gone.is_set() and not isinstance(error, ClusterGone):
            cause = f"({type(error).__name__}: {error})"
            raise ClusterGone(f"the keeper of this run's cluster is gone, and its brokers with it {cause}") from error
        raise
    finally:
        done.set()
        with suppress(RuntimeError):
            thread.join(timeout=RENEW_EVERY_S)
