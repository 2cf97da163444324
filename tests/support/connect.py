"""A Spark Connect server as the local Airflow has it, and clients of it, each in a process of its own.

As a program: `python -m support.connect URL RUN_DIR` reconciles a run on a server, from its log/. A process of its own
is needed, because PySpark can use either a server or a Spark of the same process. SIGTERM ends its session, and nothing
else.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import settings, spark_server
from delivery_verifier.run_directory.run_directory import RunDirectory
from support.patience import PATIENCE_S

ISOLATION = ("spark.sql.artifact.isolation.enabled", "spark.sql.artifact.isolation.alwaysApplyClassloader")
"""If one of these properties is true, each session has a class loader of its own, and so no compiled code of others."""


def listens(port: int) -> bool:
    """Returns whether a process listens on `port` of the loopback interface."""
    try:
        socket.create_connection((settings.SPARK_ADDRESS, port), timeout=5).close()
    except OSError:
        return False
    return True


class Server:
    """A server that the same code keeps alive as in the local Airflow."""

    def __init__(self) -> None:
        self.port = free_ports(1)[0]
        self.processes: list[subprocess.Popen[bytes]] = []
        self._kept = spark_server.SparkServer(self.port, self._start)

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        self.processes.append(spark_server.start(port))
        return self.processes[-1]

    def await_listening(self) -> None:
        """Starts the server if it does not live, and waits until it listens."""
        wait_until(self._listens, "the server listens", PATIENCE_S, detail=self.log)

    def _listens(self) -> bool:
        self._kept.keep()
        return listens(self.port)

    def url(self) -> str:
        return spark_server.url(self.port)

    def log(self) -> str:
        return (settings.airflow_home() / "spark.log").read_text(errors="replace")[-3000:]

    @contextmanager
    def client(self, run: RunDirectory, token: str = "") -> Iterator[subprocess.Popen[str]]:
        """Starts a client that reconciles `run`, and yields its process. Kills it when the block ends.

        `token`: what the client sends instead of the server's token.
        """
        token = token or settings.spark_token()
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, self.url().replace(settings.spark_token(), token), str(run.path)],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(sys.path)}
            | {"http_proxy": "http://127.0.0.1:9", "no_grpc_proxy": settings.SPARK_HOST},  # as in the local Airflow
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def reconcile(self, run: RunDirectory) -> str:
        """Reconciles `run` with a client, and returns what the client printed."""
        with self.client(run) as client:
            said, _ = client.communicate(timeout=PATIENCE_S)
        assert client.returncode == 0, said[-3000:]
        return said


@contextmanager
def server(home: Path) -> Iterator[Server]:
    """Starts a server whose log and token are in `home`, and yields it once it listens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDV_HOME", str(home))
        settings.airflow_home().mkdir(parents=True)
        started = Server()
        try:
            started.await_listening()
            yield started
        finally:
            jvms = psutil.Process(started.processes[-1].pid).children()
            started.processes[-1].kill()  # it cannot tell its JVM
            started.processes[-1].wait(PATIENCE_S)
            assert jvms and psutil.wait_procs(jvms, PATIENCE_S)[1] == [], "the JVM ends with its parent"


def is_at_work(run: RunDirectory) -> bool:
    """Whether a reconciliation has begun to write the tables of `run`."""
    return any(run.path.glob(".reconcile.*.partial"))


if __name__ == "__main__":
    from spark_jobs.reconcile import reconcile
    from spark_jobs.session import progress
    from spark_jobs.session.connect import client_of, connect_session

    progress.EVERY_S = 0.05

    with connect_session(sys.argv[1]) as session:
        end = threading.Thread(target=client_of(session).release_session)
        signal.signal(signal.SIGTERM, lambda number, frame: end.start())
        with progress.shown(RunDirectory(sys.argv[2]), session):
            reconcile(Path(sys.argv[2]), True, session)
        print({name: session.conf.get(name) for name in ISOLATION}, flush=True)
