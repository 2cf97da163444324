"""The lease: a run's claim to its cluster, renewed by whoever works on it, and the host's one lock."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from delivery_verifier.host import variables
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.errors import StepFailed, VerifierError

LEASE_S = 60.0
"""How long a cluster outlives the last sign of work on it. Nobody renews it while Airflow starts the next task, which a
loaded host can make slow; what is killed is noticed much sooner, by the owner's end or by Airflow's supervisor."""
RENEW_EVERY_S = 2.0
PATIENCE_S = 1.0
"""Whoever only asks who holds the host's lock holds it himself for a moment."""


class ClusterGone(VerifierError, RuntimeError):
    """The keeper of this run's cluster is not there any more."""


class HostBusy(VerifierError, RuntimeError):
    """Another run holds this host."""

    exit_code = 75


def lock_file() -> Path:
    """One lock per host and user, wherever the project stands: two clusters at once falsify each other's timing."""
    return variables.path("KDV_LOCK") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}.lock"


def acquire_host(run_id: str) -> IO[str]:
    """Takes the host's lock for as long as the returned file, or a copy of it in a child, stays open.

    Raises HostBusy naming the holder.
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
    """Writes into the host's lock, which `stream` holds, by what name its holder goes."""
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
    """Who holds the host's lock, or None if nobody does."""
    if not lock_file().exists():
        return None
    with lock_file().open("r+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return stream.read().strip() or "an unnamed run"
    return None


def listening(socket_path: Path) -> socket.socket:
    """A Unix socket at `socket_path`, for `call`: whoever sees it there is not refused, for it listens already."""
    listener, partial = socket.socket(socket.AF_UNIX), socket_path.with_suffix(".new")
    listener.bind(str(partial))
    listener.listen(16)
    partial.rename(socket_path)
    return listener


def call(
    socket_path: Path, operation: str, timeout_s: float = 15.0, whom: str = "keeper", **arguments: object
) -> dict[str, Any]:
    """One request to the keeper, or to `whom`. Raises ClusterGone if it is not there, RuntimeError with what it
    refused."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(socket_path))
            connection.sendall(json.dumps({"operation": operation, **arguments}).encode() + b"\n")
            with connection.makefile("r") as stream:
                line = stream.readline()
    except OSError as error:
        raise ClusterGone(f"the {whom} at {socket_path} does not answer ({error}): the run's cluster is gone") from None
    if not line:
        raise ClusterGone(f"the {whom} at {socket_path} ended in the middle of {operation}")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise StepFailed(f"{whom}: {operation}: {answer['error']}")
    return answer


@contextmanager
def renewed(socket_path: Path, when_gone: Callable[[], None] | None = None) -> Iterator[threading.Event]:
    """Renews the lease while the block runs. The event is set when the keeper is gone: look at it while waiting.

    A block that cannot look gives `when_gone`, which makes it fail; it is called in another thread. Whatever the block
    fails with once the keeper is gone, ClusterGone is raised: that is the cause.
    """
    done, gone = threading.Event(), threading.Event()

    def renew() -> None:
        while not done.is_set():
            try:
                call(socket_path, "renew")
            except (RuntimeError, ValueError):  # gone, or no keeper that one could rely on
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
            what = f"({type(error).__name__}: {error})"
            raise ClusterGone(f"the keeper of this run's cluster is gone, and its brokers with it {what}") from error
        raise
    finally:
        done.set()
        with suppress(RuntimeError):
            thread.join(timeout=RENEW_EVERY_S)
