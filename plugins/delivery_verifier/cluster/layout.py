"""The layout: where the nodes of an embedded cluster listen and keep their data. The module also names the files of a
workspace."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.model.scenario import ClusterSpec

CONTROLLER = 100
"""Node id of the controller."""
HOST = "127.0.0.1"
KEEPER_SPEC = "keeper.json"
"""The file with the inputs of the keeper. It is the first file of a workspace, and at first it is empty: its name shows
that the folder is a workspace, even if the start of the cluster is interrupted."""
KEEPER_SOCKET, PROXY_SOCKET = "keeper.sock", "proxy.sock"
"""The Unix sockets at which keeper and proxy take requests."""


class ClusterLayout(Struct, frozen=True, kw_only=True):
    """The ports and the workspace of one embedded cluster. Ports are by node id."""

    workspace: str
    spec: ClusterSpec
    controller_port: int
    client_ports: dict[int, int]
    replication_ports: dict[int, int]
    proxied_ports: dict[int, int] = {}
    """The ports at which brokers listen for the proxy's connections. Empty without a proxy."""
    proxy_ports: dict[int, int] = {}
    """The ports at which the proxy listens, by the broker to which the proxy forwards. Empty without a proxy."""

    @property
    def brokers(self) -> list[int]:
        """Broker ids, in ascending order."""
        return sorted(self.client_ports)

    @property
    def connection(self) -> Connection:
        """The brokers' addresses for the verifier's own clients. These clients never use the proxy."""
        return _connection(self.client_ports)

    @property
    def load_connection(self) -> Connection:
        """The addresses for the producers under test: those of the proxy, if there is a proxy, or of the brokers."""
        return _connection(self.proxy_ports or self.client_ports)

    def listeners(self, broker: int) -> dict[str, tuple[int, int]]:
        """Returns, for each listener of a broker, the port that the broker binds and the port that the broker
        advertises."""
        client, replication = self.client_ports[broker], self.replication_ports[broker]
        ports = {"CLIENT": (client, client), "REPL": (replication, replication)}
        if self.proxy_ports:
            ports["PROXIED"] = (self.proxied_ports[broker], self.proxy_ports[broker])
        return ports


def _connection(ports: dict[int, int]) -> Connection:
    return Connection({broker: Address(HOST, port) for broker, port in ports.items()})
