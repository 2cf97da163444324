"""The layout: where the nodes of an embedded cluster listen and keep their data, and the names of a workspace's
files."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.model.scenario import ClusterSpec

CONTROLLER = 100
"""Node id of the controller."""
HOST = "127.0.0.1"
KEEPER_SPEC = "keeper.json"
"""The keeper's spec. It is written into a workspace before anything else."""
KEEPER_SOCKET, PROXY_SOCKET = "keeper.sock", "proxy.sock"
"""Where keeper and proxy take requests."""


class ClusterLayout(Struct, frozen=True, kw_only=True):
    """Where the nodes of one embedded cluster listen and live. Ports by node id."""

    workspace: str
    spec: ClusterSpec
    controller_port: int
    client_ports: dict[int, int]
    replication_ports: dict[int, int]
    proxied_ports: dict[int, int] = {}
    """Where brokers listen for what comes through the proxy; empty without a proxy."""
    proxy_ports: dict[int, int] = {}
    """Where the proxy listens, per broker that it stands before; empty without a proxy."""

    @property
    def brokers(self) -> list[int]:
        """Broker ids."""
        return sorted(self.client_ports)

    @property
    def connection(self) -> Connection:
        """How the verifier's own clients reach the brokers."""
        return _connection(self.client_ports)

    @property
    def load_connection(self) -> Connection:
        """How the producers under test reach the brokers: through the proxy, where there is one."""
        return _connection(self.proxy_ports or self.client_ports)

    def listeners(self, broker: int) -> dict[str, tuple[int, int]]:
        """Per listener of a broker the port that it binds, and the port that it advertises."""
        client, replication = self.client_ports[broker], self.replication_ports[broker]
        ports = {"CLIENT": (client, client), "REPL": (replication, replication)}
        if self.proxy_ports:
            ports["PROXIED"] = (self.proxied_ports[broker], self.proxy_ports[broker])
        return ports


def _connection(ports: dict[int, int]) -> Connection:
    return Connection({broker: Address(HOST, port) for broker, port in ports.items()})
