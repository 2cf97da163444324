"""The host of the chaos trials: gives the trials their own home, lock and workspaces, finds the processes of a trial by
their kind, and finds what a run has left behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.local_airflow import lifecycle, spark_server, supervisor
from delivery_verifier.model import steps

MARK = "KDV_TEST_CHAOS"
"""An environment variable that all processes of the trials inherit, so that they can be found. A process keeps it even
if its parent dies."""
STEPS = tuple(step.name for step in steps.DECLARED if step.name not in ("inject_fault", "stop_cluster"))
"""The steps of a run, in the order in which their manifests are written. The current step is the first step without a
manifest."""
_WITH_CLUSTER = STEPS[2:7]
_AIRFLOW, _BOTH = ("airflow",), ("airflow", "direct")


@dataclass(frozen=True)
class Kind:
    """A kind of process. `command` is a regular expression for the command line of such a process.

    `steps` and `modes` are the steps and the modes in which such a process lives. If `command` is None, the process is
    the kdv command itself, or a process that the supervisor of Airflow names.
    """

    command: str | None = None
    steps: tuple[str, ...] = STEPS
    modes: tuple[str, ...] = _AIRFLOW


KINDS: dict[str, Kind] = {
    **{name: Kind() for name in supervisor.COMMANDS},
    "supervisor": Kind(),
    "task": Kind(r"^airflow worker -- (?!LocalExecutor: <idle>)"),
    "kdv": Kind(modes=_BOTH),
    "agent": Kind(r"embedded\.agent ", ("start_cluster", *_WITH_CLUSTER), _BOTH),
    "broker": Kind(r"kafka\.Kafka .*/conf/\d\.properties", _WITH_CLUSTER, _BOTH),
    "controller": Kind(r"kafka\.Kafka .*/conf/100\.properties", _WITH_CLUSTER, _BOTH),
    "producer": Kind(r"load\.producer ", ("produce",), _BOTH),
    "spark-jvm": Kind(r"java.*SparkSubmit", ("read_topic", "reconcile"), _BOTH),
}
_RUN_PROCESSES = re.compile("|".join(kind.command for kind in KINDS.values() if kind.command))


@contextmanager
def own_host(port: int) -> Iterator[Path]:
    """Gives this process and its children their own home, lock and workspaces inside the block. Yields their folder.

    The name of the folder is short, because the length of a socket's path is limited.
    """
    folder = Path(tempfile.mkdtemp(prefix="kdv-c-"))
    os.environ |= {
        MARK: str(folder),
        "KDV_HOME": str(folder / "home"),
        "KDV_LOCK": str(folder / "lock"),
        "KDV_WORKSPACES": str(folder / "ws"),
        "KDV_PORT": str(port),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    os.environ.pop("KDV_RUNS", None)
    (folder / "home").mkdir()
    try:
        yield folder
    finally:
        lifecycle.down()
        shutil.rmtree(folder, ignore_errors=True)


def processes(command: str = "") -> dict[int, str]:
    """Returns the command lines, by pid, of the processes that were started on this host and still run.

    `command` is a regular expression that a command line must match. This process is left out.
    """
    lines = {}
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE and _is_ours(process, line):
                lines[process.pid] = line
        except psutil.Error:
            continue
    return {pid: line for pid, line in lines.items() if re.search(command, line)}


def _is_ours(process: psutil.Process, line: str) -> bool:
    """Returns whether the process was started by the trials: its environment holds MARK.

    The title of an Airflow process may have overwritten its environment. Such a process is recognized by its folder.
    """
    folder = os.environ[MARK]
    return process.environ().get(MARK) == folder or (line.startswith("airflow ") and process.cwd().startswith(folder))


def pids_of_kind(name: str, command: int) -> list[int]:
    """Returns the pids of the processes of the kind `name`. `command` is the pid of the kdv command."""
    if name == "kdv":
        return [command]
    if (pattern := KINDS[name].command) is not None:
        return sorted(processes(pattern))
    state = supervisor.read_state()
    if state is None:
        return []
    process = state.supervisor if name == "supervisor" else state.children[name]
    return [process.pid] if process.alive else []


def leftovers() -> list[str]:
    """Returns what a run should not have left behind: processes, workspaces, the lock, packet filter rules.

    If the supervisor of Airflow lives, Airflow may stay with its Spark, but its tasks may not. Otherwise no process may
    stay.
    """
    has_airflow = supervisor.read_state() is not None
    alive = processes(_RUN_PROCESSES.pattern if has_airflow else "")
    remains = [
        f"process {pid}: {short(line)}"
        for pid, line in alive.items()
        if not (has_airflow and spark_server.PLUGIN in line)
    ]
    remains += [
        f"workspace {folder.name}" for folder in workspaces.all_workspaces() if not (folder / workspaces.KEPT).exists()
    ]
    lock_owner = lease.lock_owner()
    if lock_owner:
        remains.append(f"lock held by {lock_owner}")
    return remains + [f"rule {rule}" for rule in _rules()]


def discard_kept_workspaces() -> None:
    """Removes workspaces that were kept as evidence of a violation."""
    for folder in workspaces.all_workspaces():
        if (folder / workspaces.KEPT).exists():
            shutil.rmtree(folder)


def _rules() -> list[str]:
    """Returns the rules of the packet filter that name this project."""
    if shutil.which("iptables-save") is None:
        return []
    saved = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False).stdout
    return [line for line in saved.splitlines() if "kdv" in line]


def short(line: str) -> str:
    """Returns the end of a command line, without the folders of this machine."""
    return re.sub(r"(?:/[^\s:/]+)+/", "", line)[-120:]
