"""A backend whose clusters are in memory, for tests of code that starts clusters. It is owned and breakable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.cluster.backend import Breakable, Owned, StartRequest, Unavailability
from delivery_verifier.model.act import Capability
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import ClusterSpec
from support.fake_cluster import FakeCluster


class FakeBackend(Owned, Breakable):
    """Starts fake clusters.

    * `all_unavailable` maps a capability (proxy, network or power) to the reason why the fake host lacks the
      capability. The key None stands for the backend itself: the value says why the backend cannot run.
    * `clusters` maps a workspace to the cluster in this workspace.
    """

    def __init__(self, all_unavailable: Mapping[Capability | None, Unavailability] | None = None) -> None:
        self.all_unavailable = all_unavailable or {}
        self.clusters: dict[Path, FakeCluster] = {}

    def unavailable(self, capability: Capability | None = None) -> Unavailability | None:
        """Returns the entry of `all_unavailable` for `capability`, or None if there is no entry."""
        return self.all_unavailable.get(capability)

    def unsupported(self, spec: ClusterSpec, plan: FaultPlan | None = None) -> Unavailability | None:
        """Returns None, because a fake cluster always has what `spec` describes."""
        return None

    def means(self) -> tuple[str, ...]:
        """Returns the names of the means that the fake has."""
        return ("network", "power", "process", "proxy")

    def describe(self, spec: ClusterSpec) -> str:
        """Returns a text that says that the cluster is a fake."""
        return f"a fake cluster of {spec.brokers} brokers in memory"

    def start(self, request: StartRequest) -> FakeCluster:
        """Returns a new cluster. The spec in `request` gives the number of brokers and the capabilities."""
        workspace, spec = Path(request.workspace), request.spec
        self.clusters[workspace] = FakeCluster(range(1, spec.brokers + 1), spec.capabilities, workspace)
        return self.clusters[workspace]

    def attach(self, workspace: Path) -> FakeCluster:
        """Returns the cluster that was started in `workspace`. Raises KeyError if no cluster was started there."""
        return self.clusters[workspace]
