"""The backend `external`: a cluster that somebody else runs.

The run's folder has the file `external.json` with the way to the cluster, and with what was found there, but no
secret. Each process of the run reads the user's own file with the connection again. Brokers are only observed. What the
run creates has names that begin with `kdv-` and the run's random token, and stands in the register before it exists.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.backend import Shared, StartRequest, Unavailability, actions_on_brokers
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.external import creation, removal, runs
from delivery_verifier.cluster.external.cluster import SharedCluster
from delivery_verifier.cluster.external.register import Head, Register, all_registers
from delivery_verifier.cluster.layout import AGENT_SOCKET
from delivery_verifier.host.processes import identify
from delivery_verifier.model.act import Capability
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import ClusterSpec, Scenario

_WAY = "external.json"
_NAME_IT = "name it in kdv run: --bootstrap-server, --command-config, or --cluster"


class _Way(Struct, frozen=True, kw_only=True):
    """The file `external.json`."""

    run: str
    external: ExternalCluster
    addresses: tuple[tuple[int, str, int], ...]

    def cluster(self) -> SharedCluster:
        known = {number: Address(host, port) for number, host, port in self.addresses}
        return SharedCluster(self.external.access, self.external.cluster_id, known, self.external.brokers)


class ExternalBackend(Shared):
    """Gives access to the cluster that `ClusterSpec.external` names."""

    def unavailable(self, capability: Capability | None = None) -> Unavailability | None:
        """Returns why nothing can be done to the brokers, or None if no capability is asked for."""
        return None if capability is None else Unavailability("the brokers are somebody else's: they are only observed")

    def unsupported(self, spec: ClusterSpec, plan: FaultPlan | None = None) -> Unavailability | None:
        """Returns why a run cannot have its cluster: none is named, or the plan does something to brokers for which the
        operator has given no command."""
        if spec.external is None:
            return Unavailability(f"the run names no cluster that somebody else runs; {_NAME_IT}")
        ordered = spec.external.commands.actions if spec.external.commands else ()
        asked = [] if plan is None else [each for each in actions_on_brokers(plan) if each not in ordered]
        if plan is not None and (actions := list(dict.fromkeys(asked))):
            why = f"the fault {plan.name} does {', '.join(actions)} to brokers, and these are somebody else's"
            return Unavailability(f"{why}: choose --fault none or observe, or a fault of producers or applications")
        return None

    def describe(self, spec: ClusterSpec) -> str:
        """Describes the cluster in words."""
        if spec.external is None:
            return f"a cluster that somebody else runs: {_NAME_IT}"
        brokers = ", ".join(map(str, sorted(spec.external.brokers)))
        return f"the cluster {spec.external.cluster_id}, which somebody else runs; replicas on the brokers {brokers}"

    def attach(self, workspace: Path) -> SharedCluster:
        """Returns the cluster of the run. Raises ClusterGone if the run's folder is gone."""
        return _way(workspace).cluster()

    def require_alone(self, access: ClusterAccess, cluster_id: str) -> None:
        """Raises ClusterTaken if topics of another run stand on the cluster. Those of dead runs of this home do not
        count: the run removes them before it begins."""
        ours = [register.path.stem for register in _dead(cluster_id)]
        client = topics.admin(SharedCluster(access, cluster_id, {}).connection)
        runs.require_alone(client, ours, access.beside, _elsewhere(cluster_id))

    def prepare(self, request: StartRequest) -> None:
        """Removes what dead runs of this home left on the cluster, and makes sure that no other run is there. Then
        writes the way to the cluster, and begins the register.

        Raises ClusterTaken, StepFailed if something cannot be removed, and Unreachable.
        """
        external, workspace = request.spec.external, Path(request.workspace)
        assert external is not None, "unsupported refuses a run that names no cluster"
        cluster = SharedCluster(external.access, external.cluster_id, {}, external.brokers)
        addresses = tuple((number, *address) for number, address in cluster.connection.brokers.items())
        dead = _dead(external.cluster_id)
        for register in dead:
            removal.remove(register, cluster)  # by the way that works now: that of the dead run may be closed
        removed = [register.path.stem for register in dead]  # a broker may show them for a moment
        client = topics.admin(cluster.connection)
        runs.require_alone(client, removed, external.access.beside, _elsewhere(external.cluster_id))
        Register.of_run(external.cluster_id, workspace.name).begin(
            Head(
                run=request.run_id,
                token=workspace.name,
                cluster_id=external.cluster_id,
                host=socket.gethostname(),
                access=external.access,
                addresses=addresses,
                workspace=str(workspace),
                began_us=now_us(),
            )
        )
        way = _Way(run=request.run_id, external=external, addresses=addresses)
        with os.fdopen(os.open(workspace / _WAY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(way))

    def create_topics(self, scenario: Scenario, workspace: Path) -> None:
        """Creates the topics of the run, after the topic that announces it (see `creation.create`)."""
        way = _way(workspace)
        register = Register.of_run(way.external.cluster_id, workspace.name)
        creation.create(scenario, way.cluster(), register, way.external)

    def require_unchanged(self, scenario: Scenario, workspace: Path) -> None:
        """Raises StepFailed if a topic of the run is another one now (see `creation.require_unchanged`)."""
        way = _way(workspace)
        register = Register.of_run(way.external.cluster_id, workspace.name)
        creation.require_unchanged(scenario, way.cluster(), register)

    def remove(self, token: str) -> list[str]:
        """Removes what the run created (see `removal.remove`)."""
        removed = list[str]()
        for register in all_registers():
            if register.path.stem == token:
                with suppress(FileNotFoundError):  # another process has removed all, and then the register
                    head = register.head()
                    removed += removal.remove(register, _cluster_of(head))
        return removed

    def dead_runs(self) -> list[str]:
        """Returns the tokens of the runs of this home that left something. A run whose register cannot be read is one
        of them: `remove` then says why, and what to do."""
        tokens = list[str]()
        for register in all_registers():
            try:
                dead = _is_dead(register)
            except StepFailed:
                dead = True
            tokens += [register.path.stem] if dead else []
        return tokens


def _way(workspace: Path) -> _Way:
    try:
        return msgspec.json.decode((workspace / _WAY).read_bytes(), type=_Way)
    except FileNotFoundError:
        raise lease.ClusterGone(f"the workspace {workspace} is gone: this run has ended") from None


def _cluster_of(head: Head) -> SharedCluster:
    known = {number: Address(host, port) for number, host, port in head.addresses}
    return SharedCluster(head.access, head.cluster_id, known)


def _dead(cluster_id: str) -> list[Register]:
    """Returns the registers, for this cluster, of runs of this host whose agent does not answer. Before it removes
    anything, the caller takes the host's lock, which a living agent holds.

    Raises StepFailed if such a register cannot be read. Those for other clusters are not read."""
    return [each for each in all_registers() if each.cluster_id == cluster_id and _is_dead(each)]


def _is_dead(register: Register) -> bool:
    """Nobody can say here whether a run of another host lives, which has the same home."""
    try:
        head = register.head()
    except FileNotFoundError:  # another process has removed all, and then the register
        return False
    return head.host == socket.gethostname() and not _is_alive(Path(head.workspace))


def _elsewhere(cluster_id: str) -> dict[str, str]:
    """Maps the token of each run of this home, but of another host, to a text about its register."""
    texts = dict[str, str]()
    for register in (each for each in all_registers() if each.cluster_id == cluster_id):
        with suppress(FileNotFoundError):  # the other host has removed all meanwhile
            if (host := register.head().host) != socket.gethostname():
                texts[register.path.stem] = f"{register.path}, from the host {host}"
    return texts


def _is_alive(workspace: Path) -> bool:
    try:
        agent = int(lease.call(workspace / AGENT_SOCKET, "status", timeout_s=5)["pid"])
    except lease.ClusterGone:
        return False
    return identify(agent) is not None


BACKEND = ExternalBackend()
