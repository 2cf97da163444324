"""Access to the composed cluster (brokers that Docker Compose runs) of one run, for any process of the run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.agent_client import agent_at
from delivery_verifier.cluster.backend import CapabilityMissing
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.layout import AGENT_SOCKET, AGENT_SPEC
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.model.act import Capability
from delivery_verifier.model.scenario import ClusterSpec


class DockerLayout(Struct, frozen=True, kw_only=True):
    """The nodes of a composed cluster, whose brokers run in containers of Docker Compose.

    * `spec`: the cluster that the run's scenario asks for.
    * `containers`: the name of the container of each broker and each controller, by node id.
    * `addresses`: host and port of each broker, by node id.
    """

    spec: ClusterSpec
    containers: dict[int, str]
    addresses: dict[int, tuple[str, int]]

    @property
    def brokers(self) -> list[int]:
        """The broker ids, in ascending order."""
        return sorted(self.addresses)

    @property
    def controllers(self) -> list[int]:
        """The ids of the nodes that are controllers but not brokers, in ascending order."""
        return sorted(self.containers.keys() - self.addresses.keys())

    @property
    def connection(self) -> Connection:
        """The addresses of the brokers, for all clients."""
        return Connection({broker: Address(*address) for broker, address in self.addresses.items()})


class DockerCluster:
    """A composed cluster, whose brokers run in containers of Docker Compose.

    The constructor reads the cluster's nodes from `workspace`. It raises ClusterGone if the workspace is gone.
    """

    def __init__(self, workspace: Path) -> None:
        spec_file = workspace / AGENT_SPEC
        if not spec_file.is_file():
            raise lease.ClusterGone(f"the workspace {workspace} is gone: this run's cluster has ended")
        self.layout = msgspec.convert(json.loads(spec_file.read_text())["layout"], DockerLayout, strict=False)
        self.workspace, self.socket = workspace, workspace / AGENT_SOCKET
        self.brokers, self.controllers = self.layout.brokers, self.layout.controllers
        self.connection = self.load_connection = self.layout.connection
        self.agent = agent_at(self.socket)
        self.requests = BrokerRequests(self.connection)

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """The capabilities that the run's scenario requires. The backend has all of them, because otherwise the run
        would not have started."""
        return self.layout.spec.capabilities

    def proxy_listens(self) -> bool:
        """Returns True, because there is no proxy to wait for."""
        return True

    def sync(self, brokers: Sequence[int]) -> None:
        """Raises CapabilityMissing, because the power of a container's disk cannot be cut."""
        raise CapabilityMissing("power")

    def last_log(self, node: int) -> str:
        """Returns the shell command that shows the node's log, because the fault gateway does not show logs."""
        return f"see: docker logs {self.layout.containers[node]}"

    def release(self) -> None:
        """Removes the socket of a killed cluster agent. Heals no container, because the fault gateway does that when
        the cluster agent's lease ends."""
        self.socket.unlink(missing_ok=True)
