"""A backend whose clusters are in memory, for tests of code that starts clusters. It satisfies `backend.Backend`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.cluster.backend import Lack, StartRequest
from delivery_verifier.cluster.fake import FakeCluster
from delivery_verifier.model.act import Capability


class FakeBackend:
    """Starts fake clusters. `lacks`: the lack of each capability; the key None stands for the backend itself."""

    def __init__(self, lacks: Mapping[Capability | None, Lack] | None = None) -> None:
        self.lacks = lacks or {}
        self.clusters: dict[Path, FakeCluster] = {}

    def lack(self, capability: Capability | None = None) -> Lack | None:
        """The entry of `lacks`."""
        return self.lacks.get(capability)

    def start(self, request: StartRequest) -> FakeCluster:
        """A cluster with the brokers and capabilities of the request."""
        workspace, spec = Path(request.workspace), request.spec
        self.clusters[workspace] = FakeCluster(range(1, spec.brokers + 1), spec.equipment, workspace)
        return self.clusters[workspace]

    def attach(self, workspace: Path) -> FakeCluster:
        """The cluster that was started in `workspace`."""
        return self.clusters[workspace]

    def is_mounted(self, workspace: Path) -> bool:
        """Always false."""
        return False

    def release(self, workspace: Path) -> None:
        """Nothing is bound to a workspace."""

    def leftovers(self) -> list[str]:
        """Always empty."""
        return []

    def sweep(self) -> list[str]:
        """Nothing is left behind."""
        return []
