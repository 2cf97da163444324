"""The host of chaos: a home, a lock and workspaces that no other run shares, its processes by kind, and what is left on
it."""

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
from delivery_verifier.model import steps
from delivery_verifier.orchestration.local import lifecycle, supervisor

MARK = "KDV_TEST_CHAOS"
"""Environment variable that everything started here inherits, however often it is reparented."""
STEPS = tuple(step.name for step in steps.DECLARED if step.name not in ("inject_fault", "stop_cluster"))
"""The manifests of a run in the order of their writing; the first that is missing names the step at work."""
_WITH_CLUSTER = STEPS[2:7]
_AIRFLOW, _BOTH = ("airflow",), ("airflow", "direct")


@dataclass(frozen=True)
class Kind:
    """A kind of process: its command line as a regular expression, the steps during which it lives, and in which modes.

    Without a `command` it is looked up: the kdv command itself, or a process that the supervisor of Airflow names.
    """

    command: str | None = None
    steps: tuple[str, ...] = STEPS
    modes: tuple[str, ...] = _AIRFLOW


KINDS: dict[str, Kind] = {
    **{name: Kind() for name in supervisor.COMMANDS},
    "supervisor": Kind(),
    "task": Kind(r"^airflow worker -- (?!LocalExecutor: <idle>)"),
    "kdv": Kind(modes=_BOTH),
    "keeper": Kind(r"embedded\.keeper ", ("start_cluster", *_WITH_CLUSTER), _BOTH),
    "broker": Kind(r"kafka\.Kafka .*/conf/\d\.properties", _WITH_CLUSTER, _BOTH),
    "controller": Kind(r"kafka\.Kafka .*/conf/100\.properties", _WITH_CLUSTER, _BOTH),
    "producer": Kind(r"load\.producer ", ("produce",), _BOTH),
    "spark-jvm": Kind(r"java.*SparkSubmit", ("read_topic", "reconcile"), _BOTH),
    "spark-driver": Kind(r"^\S*python\S* \S*spark_jobs/reconcile\.py", ("read_topic", "reconcile")),
}
_OF_A_RUN = re.compile("|".join(kind.command for kind in KINDS.values() if kind.command))


@contextmanager
def own_host(port: int) -> Iterator[Path]:
    """Inside, this process and its children act on a host of their own, below the short-named folder that is
    yielded."""
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
    """Command lines, by pid, of what was started on this host and still runs, whoever its parent is; not this
    process."""
    found = {}
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE and _is_ours(process, line):
                found[process.pid] = line
        except psutil.Error:
            continue
    return {pid: line for pid, line in found.items() if re.search(command, line)}


def _is_ours(process: psutil.Process, line: str) -> bool:
    """By the mark in its environment; or, where a process title was written over that, by its folder."""
    folder = os.environ[MARK]
    return process.environ().get(MARK) == folder or (line.startswith("airflow ") and process.cwd().startswith(folder))


def of_kind(name: str, command: int) -> list[int]:
    """Pids of the processes of a kind; `command` is that of the kdv command."""
    if name == "kdv":
        return [command]
    if (pattern := KINDS[name].command) is not None:
        return sorted(processes(pattern))
    state = supervisor.read_state()
    if state is None:
        return []
    process = state.supervisor if name == "supervisor" else state.children[name]
    return [process.pid] if process.alive else []


def left_behind() -> list[str]:
    """What should be gone once a run has ended: processes, workspaces, the lock, packet filter rules.

    An Airflow whose supervisor lives may stay, but no task of it; without its supervisor nothing may.
    """
    alive = processes() if supervisor.read_state() is None else processes(_OF_A_RUN.pattern)
    found = [f"process {pid}: {short(line)}" for pid, line in alive.items()]
    found += [
        f"workspace {folder.name}" for folder in workspaces.all_workspaces() if not (folder / workspaces.KEPT).exists()
    ]
    found += [f"lock held by {holder}" for holder in [lease.holder()] if holder]
    return found + [f"rule {rule}" for rule in _rules()]


def discard_kept() -> None:
    """Removes workspaces that were kept as evidence of a violation."""
    for folder in workspaces.all_workspaces():
        if (folder / workspaces.KEPT).exists():
            shutil.rmtree(folder)


def _rules() -> list[str]:
    """Rules of the packet filter that name this project."""
    if shutil.which("iptables-save") is None:
        return []
    saved = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False).stdout
    return [line for line in saved.splitlines() if "kdv" in line]


def short(line: str) -> str:
    """A command line without the folders of this machine."""
    return re.sub(r"(?:/[^\s:/]+)+/", "", line)[-120:]
