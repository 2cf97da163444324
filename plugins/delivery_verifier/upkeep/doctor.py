"""The doctor: checks whether this host can run the verifier, and removes what a broken run left behind."""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Iterator

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.backends import sharing_backends
from delivery_verifier.host.java import runtime as java
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.planning import preflight
from delivery_verifier.planning.preflight import Check


def examine() -> list[Check]:
    """Checks whether this host has what a run needs, and whether ended runs left anything behind.

    Returns all checks, passed and failed. Each check says what was found. A failed check also says what to do.
    """
    general = preflight.general(preflight.look())
    return [_system(), _java(), *general, *preflight.equipment(), _port(), _lock(), _leftovers()]


def heal() -> Iterator[str]:
    """Removes what ended runs left behind. Yields a line after each action.

    If a run uses this host, touches nothing, because this run may be healthy. Then yields one line, which says who uses
    the host. Does not end a run: the command for that is `kdv stop`. (A keeper ends its cluster by itself when the
    run's owner has ended, or when nobody has renewed the lease for `lease.LEASE_S` seconds.)

    A workspace is the folder with the data of one cluster. Its keeper is the process in charge of the cluster.

    * Unmounts the disks of each kept workspace whose keeper has ended.
    * Undoes changes outside workspaces, for example rules of the packet filter.
    * Removes each workspace whose keeper has ended, except those for which `workspaces.is_kept` is true.
    * If too many workspaces are marked as kept, removes the oldest of them (see `workspaces.trim`).
    * Removes the topics and groups that dead runs of this home left on clusters that somebody else runs.
    """
    try:
        host = lease.acquire_host("kdv doctor --heal")
    except lease.HostBusy as busy:
        yield f"healed nothing, and ended nothing: {busy}"
        return
    with host:
        for workspace in workspaces.unmount():
            yield f"healed: unmounted the disks of {workspace}"
        for leftover in workspaces.sweep_host():
            yield f"healed: removed {leftover}"
        for workspace in workspaces.sweep():
            yield f"healed: removed {workspace}"
        yield from _remove_from_clusters()


def _remove_from_clusters() -> Iterator[str]:
    """Removes what dead runs left on clusters that somebody else runs. Yields a line for each run, also if something
    stays there."""
    for backend in sharing_backends():
        for token in backend.dead_runs():
            try:
                removed = backend.remove(token)
            except (VerifierError, OSError, RuntimeError) as error:
                yield f"not healed: run {token}: {error}"
                continue
            yield f"healed: removed {', '.join(removed) or 'nothing'} of run {token} from its cluster"


def _system() -> Check:
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    ok = sys.platform == "linux" and sys.version_info[:2] == (3, 11)
    return Check(name="system", ok=ok, found=system, remedy="use Linux with Python 3.11")


def _java() -> Check:
    try:
        home = java.java_home()
    except java.JavaError as error:
        return Check(name="java", ok=False, found="none", remedy=str(error))
    return Check(name="java", ok=True, found=f"Java {java.version(home)} in {home}")


def _port() -> Check:
    from delivery_verifier.local_airflow import lifecycle
    from delivery_verifier.local_airflow.settings import port

    status = lifecycle.status()
    if status.running:
        return Check(name="airflow", ok=status.ready, found=f"{status.url}: {status.detail}", remedy="kdv down; kdv up")
    with socket.socket() as probe:
        taken = probe.connect_ex(("127.0.0.1", port(None))) == 0
    return Check(
        name="airflow",
        ok=not taken,
        found=f"not running; port {port(None)} is {'taken' if taken else 'free'}",
        remedy="name another port in KDV_PORT",
    )


def _lock() -> Check:
    holder = lease.holder()
    return Check(name="lock", ok=True, found=f"held by {holder}" if holder else "free")


def _leftovers() -> Check:
    abandoned = [space.name for space in workspaces.all_workspaces() if not workspaces.is_kept(space)]
    disks = [f"mounted disks of {space.name}" for space in workspaces.mounted()]
    dead = [f"topics of run {token}" for backend in sharing_backends() for token in backend.dead_runs()]
    idle = [*([*abandoned, *disks, *dead] if lease.holder() is None else []), *workspaces.host_leftovers()]
    return Check(
        name="leftovers", ok=not idle, found=", ".join(idle) or "none", remedy="kdv doctor --heal removes them"
    )
