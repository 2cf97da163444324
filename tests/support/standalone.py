"""A Spark standalone cluster on this host: a master and workers, each a process on the loopback interface."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyspark

from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.processes import dies_with_parent
from delivery_verifier.host.waiting import wait_until
from spark_jobs.session.classic import class_archive
from support.patience import PATIENCE_S

SPARK_HOME = Path(pyspark.__file__).parent
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options with which a JVM that lives for seconds costs least."""
MARK = "KDV_TEST_STANDALONE"
"""The environment variable that marks all processes of a cluster, also the executors. Its value is the folder."""


class Worker:
    """A worker and the executor that it started. Both are in the process group of the worker, so they end together, as
    if their host was lost."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the worker and to its executor."""
        os.killpg(self.process.pid, number)

    @property
    def executor(self) -> str | None:
        """The id of the worker's executor in Spark's status API; None while the worker has no executor."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # a helper of the worker that has ended, perhaps as a zombie
                words = child.cmdline()
                if "--executor-id" in words:
                    return words[words.index("--executor-id") + 1]
        return None


class Standalone:
    """A cluster that runs: `url` is what `spark-submit --master` takes, `workers` are in the order of their start."""

    def __init__(self, folder: Path, url: str, ui: str, workers: list[Worker]) -> None:
        self.folder, self.url, self.ui, self.workers = folder, url, ui, workers

    def states(self) -> list[str]:
        """Returns the states of all workers as the master sees them, sorted: ALIVE or DEAD."""
        return sorted(worker["state"] for worker in _get(f"{self.ui}/json/")["workers"])

    @contextmanager
    def submitted(self, script: Path, arguments: list[str], settings: Mapping[str, str]) -> Iterator[Job]:
        """Submits a Python script with one executor per worker, and yields the job. Kills the job if it still runs when
        the block ends."""
        (port,) = free_ports(1)
        conf = dict(settings) | {
            "spark.driver.extraJavaOptions": _quick(),
            "spark.executor.extraJavaOptions": _quick(),
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.folder.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        command = ["spark-submit", "--master", self.url, *options, str(script), *arguments]
        process = _start(self.folder, "driver", command)
        try:
            yield Job(process, f"http://127.0.0.1:{port}/api/v1/applications", self.folder)
        finally:
            _kill(process)


class Job:
    """A submitted job. `api` is the address of the status API of its driver."""

    def __init__(self, process: subprocess.Popen[bytes], api: str, folder: Path) -> None:
        self.process, self.api, self.folder = process, api, folder

    def busy(self) -> dict[str, tuple[int, int]]:
        """Returns the number of tasks that run and of all tasks so far, by the id of the executor. Leaves out the
        driver. Empty as long as the driver does not answer. Raises AssertionError if the job has ended."""
        assert self.process.poll() is None, f"the job has ended: {self.said()[-3000:]}"
        try:
            applications = _get(self.api)
            rows = _get(f"{self.api}/{applications[0]['id']}/executors") if applications else []
        except (httpx.HTTPError, json.JSONDecodeError):
            return {}
        return {row["id"]: (row["activeTasks"], row["totalTasks"]) for row in rows if row["id"] != "driver"}

    def said(self) -> str:
        """Returns everything that the job has printed."""
        return (self.folder / "driver.log").read_text(errors="replace")

    def events(self) -> list[dict[str, Any]]:
        """Returns the events of a job that has ended, in their order, from Spark's event log."""
        (file,) = self.folder.glob("app-*")
        return [json.loads(line) for line in file.read_text().splitlines()]


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Standalone]:
    """Starts a cluster with `workers` workers of one core each, and yields it once the master knows all of them.

    Kills all of its processes when the block ends. Logs and work are in `folder`.
    """
    master = ["spark-class", "org.apache.spark.deploy.master.Master", "--port", "0", "--webui-port", "0"]
    running = [_start(folder, "master", [*master, "--host", "127.0.0.1"])]
    try:
        url = _logged(folder / "master.log", r"Starting Spark master at (spark://\S+)")
        ui = _logged(folder / "master.log", r"MasterWebUI to .* started at (http://\S+)")
        for number in range(workers):
            options = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            command = ["spark-class", "org.apache.spark.deploy.worker.Worker", *options]
            command += ["--work-dir", str(folder / f"work-{number}"), url]
            running.append(_start(folder, f"worker-{number}", command))
        cluster = Standalone(folder, url, ui, [Worker(process) for process in running[1:]])
        wait_until(lambda: cluster.states() == ["ALIVE"] * workers, "all workers are with the master", PATIENCE_S)
        yield cluster
    finally:
        for process in running:
            _kill(process)


def left(folder: Path) -> list[int]:
    """Returns the pids of all living processes of the cluster in `folder`, and of the jobs that it was given."""
    return [process.pid for process in psutil.process_iter() if _is_marked(process, folder)]


def _is_marked(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False  # the process is gone, or belongs to another user


def _quick() -> str:
    """Returns QUICK and, if this environment has the class data archive of Spark, the options that map the archive."""
    return f"{QUICK} {shlex.join(class_archive().options())}".rstrip()


def _start(folder: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    """Starts a command of Spark as the leader of a process group of its own, with its output in `<name>.log`."""
    environment = os.environ | {
        MARK: str(folder),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _quick(),
        "SPARK_LAUNCHER_OPTS": QUICK,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / command[0]), *command[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=dies_with_parent(),
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its whole group, and waits for the process."""
    with suppress(ProcessLookupError):  # the whole group has ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _logged(file: Path, pattern: str) -> str:
    """Waits until the log has a line that ends with `pattern`. Returns the first group of `pattern`."""
    line = re.compile(pattern + "\n")
    return wait_until(lambda: line.search(file.read_text(errors="replace")), f"{pattern} in {file}", PATIENCE_S)[1]


def _get(url: str) -> Any:
    return httpx.get(url, timeout=PATIENCE_S, trust_env=False).json()
