"""The doctor: whether this host can run the verifier, and how to mend what a broken run left behind."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from delivery_verifier import home
from delivery_verifier.cluster import jars, java, lease, workspaces
from delivery_verifier.waiting import wait_until

DISK_GB, MEMORY_GB = 5, 4
HEALED_WITHIN_S = 45.0


class Check(Struct, frozen=True, kw_only=True):
    """One thing looked at: what was found and, if it will not do, what to do."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def examine() -> list[Check]:
    """Looks at everything a run needs."""
    return [look() for look in (_system, _java, _disk, _memory, _jars, _port, _lock, _leftovers)]


def heal() -> Iterator[str]:
    """Ends runs whose keeper still answers, and removes workspaces that nobody serves. Yields what it did."""
    for workspace in workspaces.every():
        try:
            lease.call(workspace / "keeper.sock", "finish")
            yield f"ended the run in {workspace}"
        except (lease.ClusterGone, RuntimeError):
            continue
    wait_until(lambda: lease.holder() is None, "the run that holds this host to end", HEALED_WITHIN_S)
    with lease.acquire_host("kdv doctor --heal"):
        for workspace in workspaces.sweep():
            yield f"removed {workspace}"


def _system() -> Check:
    found = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    ok = sys.platform == "linux" and sys.version_info[:2] == (3, 11)
    return Check(name="system", ok=ok, found=found, remedy="use Linux with Python 3.11")


def _java() -> Check:
    try:
        where = java.java_home()
    except java.JavaError as error:
        return Check(name="java", ok=False, found="none", remedy=str(error))
    return Check(name="java", ok=True, found=f"Java {java.version(where)} in {where}")


def _disk() -> Check:
    home.runs_dir().mkdir(parents=True, exist_ok=True)
    free = min(shutil.disk_usage(folder).free for folder in (home.runs_dir(), "/tmp")) / 1e9
    remedy = f"free some space, or name folders with space in KDV_RUNS and KDV_WORKSPACES ({DISK_GB} GB are enough)"
    return Check(name="disk", ok=free >= DISK_GB, found=f"{free:.0f} GB free", remedy=remedy)


def _memory() -> Check:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    with Path("/proc/meminfo").open() as stream:
        for line in stream:
            if line.startswith("MemAvailable"):
                free = int(line.split()[1]) / 1e6
    remedy = f"stop something: brokers, Spark and Airflow together want {MEMORY_GB} GB"
    return Check(name="memory", ok=free >= MEMORY_GB, found=f"{free:.0f} GB available", remedy=remedy)


def _jars() -> Check:
    try:
        count = len(jars.kafka_jars("4.3.1")) + len(jars.spark_jars())
    except jars.JarError as error:
        return Check(name="jars", ok=False, found="incomplete", remedy=str(error))
    return Check(name="jars", ok=True, found=f"{count} jars in {jars.cache_dir()}")


def _port() -> Check:
    from delivery_verifier.orchestration import local
    from delivery_verifier.orchestration.settings import port

    status = local.status()
    if status.running:
        return Check(name="airflow", ok=status.ready, found=f"{status.url}: {status.detail}", remedy="kdv down; kdv up")
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", port(None))) == 0
    return Check(
        name="airflow", ok=not taken, found=f"not running; port {port(None)} is {'taken' if taken else 'free'}",
        remedy="name another port in KDV_PORT",
    )  # fmt: skip


def _lock() -> Check:
    holder = lease.holder()
    return Check(name="lock", ok=True, found=f"held by {holder}" if holder else "free")


def _leftovers() -> Check:
    found = [one.name for one in workspaces.every() if not (one / workspaces.KEPT).exists()]
    idle = found if lease.holder() is None else []
    return Check(
        name="leftovers", ok=not idle, found=", ".join(idle) or "none", remedy="kdv doctor --heal removes them"
    )

