"""A Spark Connect server that shows all it can, as a user's own does: with its UI and its event log.

As a program: `serve PORT UI_PORT EVENTS` is the server. `read URL RUN_DIR WORKSPACE NAME...` reads a topic of a run
from the cluster with each NAME, then reconciles the run as Airflow's task does. `plant URL FILE TEXT` sends a query
that has TEXT as an option. A process of its own is needed, because PySpark can use either a server or a Spark of the
same process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.security import command_config, spark_options
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import settings, spark_server
from delivery_verifier.run_directory.run_directory import RunDirectory
from support.connect import listens
from support.patience import PATIENCE_S

SHOWN = {
    "spark.ui.enabled": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""The properties with which Spark shows all that it can."""


class Stand(Cluster):
    """A cluster of which only the connection and the workspace are known."""

    def __init__(self, name: str, workspace: Path) -> None:
        access = command_config.read(cluster=name)
        self.connection, self.workspace = Connection(dict(enumerate(access.servers)), access.security), workspace


class ShownServer:
    """A server that runs: `ui` is the address of its pages, `events` the folder of its event log."""

    def __init__(self, port: int, ui: str, events: Path) -> None:
        self.url, self.ui, self.events = spark_server.url(port), ui, events


@contextmanager
def shown_server(home: Path) -> Iterator[ShownServer]:
    """Starts a server whose token, log and event log are in `home`, and yields it once it listens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDV_HOME", str(home))
        settings.airflow_home().mkdir(parents=True)
        settings.spark_token()
        (port, ui), events, log = free_ports(2), home / "events", home / "spark.log"
        events.mkdir()
        with log.open("wb") as stream:
            process = _start(["serve", str(port), str(ui), str(events)], stream.fileno())
        try:
            wait_until(lambda: listens(port), "the server listens", PATIENCE_S, detail=log.read_text)
            yield ShownServer(port, f"http://127.0.0.1:{ui}", events)
        finally:
            jvms = psutil.Process(process.pid).children()
            process.kill()
            process.wait()
            assert psutil.wait_procs(jvms, PATIENCE_S)[1] == [], "the JVM ends with its parent"


def ask(*words: str) -> str:
    """Runs this module as a program with `words`, and returns what it printed."""
    process = _start(list(words), subprocess.PIPE)
    said = process.communicate(timeout=PATIENCE_S)[0].decode()
    assert process.returncode == 0, said[-4000:]
    return said


def _start(words: list[str], output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__, *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )


def _serve(port: str, ui: str, events: str) -> int:
    from delivery_verifier.pipeline.local_spark import prepare_spark
    from spark_jobs.session.classic import serve

    prepare_spark()
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = settings.spark_token()
    shown = SHOWN | {"spark.ui.port": ui, "spark.eventLog.dir": Path(events).as_uri()}
    return serve(spark_server.properties(int(port)) | shown)


def _read(url: str, run_dir: str, workspace: str, *names: str) -> None:
    from delivery_verifier.orchestration.tasks.server_job import ServerJob
    from spark_jobs.session.connect import connect_session

    run, folder = RunDirectory(run_dir), Path(workspace)
    topic = run.read_scenario().subjects[0].topic_name
    for name in names:
        with (
            connect_session(url) as session,
            spark_options.granted(Stand(name, folder).connection, folder) as options,
        ):
            reader = session.read.format("kafka").options(**options).option("subscribe", topic)
            print(name, reader.load().count(), flush=True)
    ServerJob(run, url, Stand(names[0], folder)).reconcile()


def _plant(url: str, file: str, text: str) -> None:
    from spark_jobs.session.connect import connect_session

    with connect_session(url) as session:
        print(session.read.format("text").option("kafka.sasl.jaas.config", text).load(file).count())


if __name__ == "__main__":
    word, *rest = sys.argv[1:]
    sys.exit({"serve": _serve, "read": _read, "plant": _plant}[word](*rest))
