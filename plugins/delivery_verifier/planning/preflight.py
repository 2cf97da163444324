"""Preflight: checks, before a run, whether a host has what the run needs.

The checks get the facts about a host as plain data, so that a test can describe any host.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from pathlib import Path

import httpx
import psutil
from msgspec import Struct

from delivery_verifier.cluster import workspaces
from delivery_verifier.cluster.backends import backend_of, default_backend
from delivery_verifier.host import folders as home
from delivery_verifier.host.java import jars
from delivery_verifier.model.act import CAPABILITIES
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.planning import arm_clients

GB = 1e9
MEMORY_GB, RUN_MEMORY_GB = 4.0, 2.0
"""Available memory in GB. MEMORY_GB is recommended for a run. With less than RUN_MEMORY_GB, no run begins."""
DISK_GB = 5.0
FIXED_BYTES = {"workspace": 500e6, "runs": 100e6}
"""Bytes that a run writes to each of two folders, without the bytes for the records of the load. `workspace`:
formatted storage, internal topics and logs. `runs`: the report, and all other files that the steps of a run write."""
RECORD_OVERHEAD, LEDGER_ROW, LOG_ROW = 25, 20, 30
"""Bytes per record, measured and rounded up. RECORD_OVERHEAD: in a broker's log, in addition to the payload.
LEDGER_ROW: in the run directory's folder ledger/. LOG_ROW: in its folder log/."""
FILES_FIXED, FILES_PER_REPLICA = 1024, 6
"""Open files that a run needs: FILES_FIXED, and FILES_PER_REPLICA more for each replica of a partition."""


class Unfit(VerifierError, RuntimeError):
    """The host cannot do the run. The message says what the host lacks, and gives a remedy if there is one."""


class Unavailable(Unfit):
    """The host can never inject the scenario's faults, or can never run the scenario's cluster."""

    exit_code = 69


class Check(Struct, frozen=True, kw_only=True):
    """The result of one check of the host: whether the host passed, what was found, and a remedy if the host failed."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


class FolderSpace(Struct, frozen=True, kw_only=True):
    """The space of a folder. `device`: the number of its file system. `free`: how many bytes are free on this file
    system."""

    path: str
    device: int
    free: float


class Host(Struct, frozen=True, kw_only=True):
    """The facts about a host.

    `memory`: available bytes. `open_files`: how many files the operating system lets one process open. `unwritable`:
    the folders that a run must write to, but that this process cannot write to. `missing_bytes`: the total size of all
    jars that this host lacks. `mirror`: why these jars cannot be fetched; empty if they can be fetched.
    """

    runs: FolderSpace
    workspace: FolderSpace
    cache: FolderSpace
    memory: float
    open_files: int
    unwritable: list[str] = []
    missing_bytes: float = 0
    mirror: str = ""


def look() -> Host:
    """Returns the facts about this host. Asks the network only if jars are missing."""
    missing = jars.missing_bytes()
    return Host(
        runs=_folder_space(home.runs_dir()),
        workspace=_folder_space(workspaces.folder()),
        cache=_folder_space(jars.cache_dir()),
        memory=float(psutil.virtual_memory().available),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        unwritable=[
            folder for folder in ("/dev/shm", tempfile.gettempdir()) if not os.access(folder, os.W_OK | os.X_OK)
        ],
        missing_bytes=missing,
        mirror=_why_unreachable(jars.mirror()) if missing else "",
    )


def general(host: Host) -> list[Check]:
    """Checks whether `host` has what a run of usual size needs, whatever the scenario is. Returns the results."""
    free = min(folder.free for folder in (host.runs, host.workspace, host.cache)) / GB
    folders = "KDV_RUNS, KDV_WORKSPACES and KDV_CACHE"
    remedy = f"free some space, or name folders with space in {folders} ({DISK_GB:g} GB are enough)"
    return [
        Check(name="disk", ok=free >= DISK_GB, found=f"{free:.1f} GB free", remedy=remedy),
        _memory(host, MEMORY_GB),
        _files(host, FILES_FIXED),
        _temporary(host),
        _jars(host),
    ]


def capabilities() -> list[Check]:
    """Returns one result for each capability that some faults need (see act.Capability).

    Every result is ok, even if the capability is missing: a host without the capability can still run other scenarios.
    """
    all_unavailable = {name: default_backend().unavailable(name) for name in CAPABILITIES}
    return [
        Check(name=name, ok=True, found=f"not available: {unavailable.why}" if unavailable else "available")
        for name, unavailable in all_unavailable.items()
    ]


def run_checks(host: Host, scenario: Scenario) -> list[Check]:
    """Checks whether `host` has what a run of `scenario` needs. Returns the results.

    The checks are about memory, open files, writable temporary folders, jars, and disk space for the load and the jars.
    """
    replicas = len(scenario.arms) * scenario.load.partitions * scenario.load.replication_factor
    return [
        *_disks(host, needed_bytes(scenario)),
        _memory(host, RUN_MEMORY_GB),
        _files(host, FILES_FIXED + FILES_PER_REPLICA * replicas),
        _temporary(host),
        _jars(host),
    ]


def require(scenario: Scenario, host: Host | None = None) -> None:
    """Raises Unfit if the host cannot do the run now, and Unavailable if the host can never do the run.

    A host can never do the run in three cases: it lacks a capability that the faults need, it cannot run the backend
    (the software that runs the cluster), or the cluster of the backend is not as the scenario asks. `host`: the facts
    about the host. If it is None, the function looks up the facts about this host. Raises BadInput for an unknown
    backend, and what `arm_clients.require_on_host` raises: nothing may start before each client of the run is here.
    """
    backend = backend_of(scenario.cluster)
    if unavailable := backend.unavailable():
        needed = f"the backend {scenario.cluster.backend}"
        raise Unavailable(f"{scenario.name} is UNAVAILABLE on this host: it needs {needed}: {unavailable.why}")
    if unsupported := backend.unsupported(scenario.cluster, scenario.fault):
        if unsupported.failed:
            raise Unfit(f"{scenario.name} cannot be run now: {unsupported.why}")
        raise Unavailable(f"{scenario.name} is UNAVAILABLE on this host: {unsupported.why}")
    for needed in scenario.cluster.capabilities:
        if unavailable := backend.unavailable(needed):
            raise Unavailable(f"{scenario.name} is UNAVAILABLE on this host: it needs {needed}: {unavailable.why}")
    lacking = [check for check in run_checks(host or look(), scenario) if not check.ok]
    if lacking:
        raise Unfit("; ".join(f"{check.name}: {check.found}; remedy: {check.remedy}" for check in lacking))
    arm_clients.require_on_host(scenario)


def needed_bytes(scenario: Scenario) -> dict[str, float]:
    """Returns how many bytes the run will write to each of two folders.

    `workspace` gets, for each record and replica, the payload and RECORD_OVERHEAD. `runs` gets the rows of the records
    in ledger/ and log/. To each of the two numbers, the function adds the constant part in FIXED_BYTES.
    """
    load = scenario.load
    records = sum(max(arm.records, (load.rate or 0) * load.duration_s) for arm in scenario.loaded)
    return {
        "workspace": FIXED_BYTES["workspace"]
        + records * (load.payload_bytes + RECORD_OVERHEAD) * load.replication_factor,
        "runs": FIXED_BYTES["runs"] + records * (LEDGER_ROW + LOG_ROW),
    }


def _disks(host: Host, needed: dict[str, float]) -> list[Check]:
    """Checks each file system that the run writes to. It must have enough free space for all folders of the run on it.

    `needed`: the result of `needed_bytes`.
    """
    needs = [
        (host.workspace, needed["workspace"], "KDV_WORKSPACES"),
        (host.runs, needed["runs"], "KDV_RUNS"),
        (host.cache, host.missing_bytes, "KDV_CACHE"),
    ]
    checks = []
    for device in dict.fromkeys(folder.device for folder, _, _ in needs):
        folders = [(folder, size, name) for folder, size, name in needs if folder.device == device and size]
        if not folders:
            continue
        total, free = sum(size for _, size, _ in folders), min(folder.free for folder, _, _ in folders)
        names = " and ".join(name for _, _, name in folders)
        paths = ", ".join(folder.path for folder, _, _ in folders)
        remedy = f"lower --records or --payload-bytes, free some space, or name a folder with space in {names}"
        finding = f"{free / GB:.1f} GB free in {paths}, {total / GB:.1f} GB needed"
        checks.append(Check(name="disk", ok=free >= total, found=finding, remedy=remedy))
    return checks


def _memory(host: Host, least_gb: float) -> Check:
    finding = f"{host.memory / GB:.1f} GB available"
    remedy = f"stop something: brokers, Spark and Airflow together want {MEMORY_GB:g} GB, and need {RUN_MEMORY_GB:g}"
    return Check(name="memory", ok=host.memory >= least_gb * GB, found=finding, remedy=remedy)


def _files(host: Host, least: int) -> Check:
    unlimited = host.open_files == resource.RLIM_INFINITY
    finding = f"{'any number' if unlimited else host.open_files} of open files allowed, {least} needed"
    remedy = f"raise the limit (ulimit -Hn {least}, or LimitNOFILE of the service), or lower --partitions"
    return Check(name="files", ok=unlimited or host.open_files >= least, found=finding, remedy=remedy)


def _temporary(host: Host) -> Check:
    finding = (
        f"cannot be written: {', '.join(host.unwritable)}"
        if host.unwritable
        else "/dev/shm and the like can be written"
    )
    remedy = "mount them writable (mode 1777): semaphores and sockets live there"
    return Check(name="temporary", ok=not host.unwritable, found=finding, remedy=remedy)


def _jars(host: Host) -> Check:
    finding = f"{host.missing_bytes / 1e6:.0f} MB to be fetched once" if host.missing_bytes else "complete"
    finding += f", and {host.mirror}" if host.mirror else ""
    return Check(
        name="jars", ok=not host.mirror, found=finding, remedy="check the network, or name a mirror in KDV_MAVEN_MIRROR"
    )


def _folder_space(folder: Path) -> FolderSpace:
    """Returns the space of `folder`. If the folder is missing, returns the space of its nearest existing parent."""
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return FolderSpace(path=str(folder), device=nearest.stat().st_dev, free=float(shutil.disk_usage(nearest).free))


def _why_unreachable(mirror: str) -> str:
    """Returns the reason why `mirror` cannot be reached; an empty text if `mirror` answers."""
    try:
        httpx.head(mirror + "/", timeout=5, follow_redirects=True)
    except httpx.HTTPError as error:
        return f"{mirror} does not answer ({error})"
    return ""
