"""The embedded backend: runs Apache Kafka as processes on this host. Every cluster has a cluster agent of its own,
which is the parent process of the cluster's other processes."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import means
from delivery_verifier.cluster.agent import AgentSpec, start_agent
from delivery_verifier.cluster.backend import Breakable, Owned, StartRequest, Unavailability
from delivery_verifier.cluster.embedded import capabilities, disks, nodes, packet_filter
from delivery_verifier.cluster.embedded.cluster import EmbeddedCluster
from delivery_verifier.cluster.layout import ClusterLayout
from delivery_verifier.model.act import Capability
from delivery_verifier.model.scenario import ClusterSpec


class EmbeddedAgentSpec(AgentSpec, frozen=True, kw_only=True):
    """The inputs of an embedded cluster's agent, which is the parent process of the brokers."""

    layout: ClusterLayout


class EmbeddedBackend(Owned, Breakable):
    """A backend that runs clusters as processes of this host."""

    def unavailable(self, capability: Capability | None = None) -> Unavailability | None:
        """Returns why this host lacks `capability`, or None if the host has it. Tries each capability only once per
        process.

        Without `capability` the result is always None, because every host that passes `kdv doctor` can run a cluster
        without capabilities.
        """
        return None if capability is None else capabilities.tried(capability)

    def means(self) -> tuple[str, ...]:
        """Returns the names of the means."""
        return means.names(capabilities.PACKAGE)

    def describe(self, spec: ClusterSpec) -> str:
        """Describes, in words, the cluster that a run with `spec` gets."""
        return (
            f"a fresh embedded Apache Kafka {spec.kafka_version} on this host: 1 controller, {spec.brokers} brokers, "
            "on loopback; nothing else is touched"
        )

    def start(self, request: StartRequest) -> EmbeddedCluster:
        """Fills the workspace with configurations and data folders, and starts the cluster agent. Returns the cluster
        once the cluster agent answers.

        If the cluster agent ends before it answers, raises StepFailed with the last line of the cluster agent's log. If
        the cluster agent does not answer in time, raises DeadlinePassed.
        """
        workspace = Path(request.workspace)
        spec = EmbeddedAgentSpec(
            run_id=request.run_id,
            workspace=request.workspace,
            deadline_s=request.deadline_s,
            layout=nodes.lay_out(workspace, request.spec),
            owner=request.owner,
            lock_descriptor=request.lock_descriptor,
        )
        start_agent("delivery_verifier.cluster.embedded.agent", spec)
        return EmbeddedCluster(workspace)

    def attach(self, workspace: Path) -> EmbeddedCluster:
        """Returns the cluster in `workspace`. Raises ClusterGone if the workspace is gone."""
        return EmbeddedCluster(workspace)

    def is_mounted(self, workspace: Path) -> bool:
        """Returns whether a disk is mounted in the folder `workspace`."""
        return bool(disks.mounts(workspace))

    def release(self, workspace: Path) -> None:
        """Unmounts the disks of the workspace. Keeps the image files, which hold the disks' data. Raises DeadlinePassed
        if a disk stays in use."""
        disks.release(workspace)

    def leftovers(self) -> list[str]:
        """Returns the names of all things that killed processes left on this host.

        They are chains of rules in the packet filter, and temporary folders in which processes tried the capability
        `power` (see `capabilities.abandoned`).
        """
        return [chain.name for chain in packet_filter.abandoned()] + [
            folder.name for folder in capabilities.abandoned()
        ]

    def sweep(self) -> list[str]:
        """Removes the chains and folders that `leftovers` names. Returns what was removed, in words."""
        chains = [f"the packet filter's chain {chain}" for chain in packet_filter.sweep()]
        return chains + [str(folder) for folder in capabilities.sweep()]


BACKEND = EmbeddedBackend()
