"""The layout of an embedded cluster: the ports at which its nodes listen, and its workspace.

The module also defines the names of the files in a workspace, which is the folder of one cluster.
"""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.model.scenario import ClusterSpec

CONTROLLER = 100
"""Node id of the controller."""
HOST = "127.0.0.1"
AGENT_SPEC = "agent.json"
"""The file with the inputs of the cluster agent. It is the first file of a workspace, and is empty at first. It marks a
folder as a workspace, even if the start of the cluster was interrupted."""
AGENT_SOCKET, PROXY_SOCKET = "agent.sock", "proxy.sock"
"""Names of Unix sockets in the workspace. The cluster agent takes requests at the first socket, the proxy at the
second."""


class ClusterLayout(Struct, frozen=True, kw_only=True):
    """The ports and the workspace of one embedded cluster. The keys of all mappings are broker ids."""

    workspace: str
    spec: ClusterSpec
    controller_port: int
    client_ports: dict[int, int]
    replication_ports: dict[int, int]
    proxied_ports: dict[int, int] = {}
    """For each broker, the port at which the broker accepts the proxy's connections. The mapping is empty if there is
    no proxy."""
    proxy_ports: dict[int, int] = {}
    """For each broker, a port of the proxy. A client that wants to reach the broker connects to this port. The mapping
    is empty if there is no proxy."""

    @property
    def brokers(self) -> list[int]:
        """The broker ids, in ascending order."""
        return sorted(self.client_ports)

    @property
    def connection(self) -> Connection:
        """The brokers' addresses for the verifier's own clients. These clients never use the proxy."""
        return _connection(self.client_ports)

    @property
    def load_connection(self) -> Connection:
        """The addresses for the producers under test. If the cluster has a proxy, these are the addresses of the
        proxy."""
        return _connection(self.proxy_ports or self.client_ports)

    def listeners(self, broker: int) -> dict[str, tuple[int, int]]:
        """Returns two ports for each listener of a broker: the port that the broker binds, and the port that the broker
        advertises.

        The keys are the names of the listeners. The two ports differ only for the listener PROXIED, for which the
        broker advertises the proxy's port.
        """
        client, replication = self.client_ports[broker], self.replication_ports[broker]
        ports = {"CLIENT": (client, client), "REPL": (replication, replication)}
        if self.proxy_ports:
            ports["PROXIED"] = (self.proxied_ports[broker], self.proxy_ports[broker])
        return ports


def _connection(ports: dict[int, int]) -> Connection:
    return Connection({broker: Address(HOST, port) for broker, port in ports.items()})
