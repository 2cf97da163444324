"""The layout: where the nodes of an embedded cluster listen and keep their data."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.model.scenario import ClusterSpec

CONTROLLER = 100


class ClusterLayout(Struct, frozen=True, kw_only=True):
    """Where the nodes of one embedded cluster listen and live. Ports by node id."""

    workspace: str
    spec: ClusterSpec
    controller_port: int
    client_ports: dict[int, int]
    replication_ports: dict[int, int]
    proxied_ports: dict[int, int] = {}
    """Where brokers listen for what comes through the proxy; empty without one."""
    proxy_ports: dict[int, int] = {}
    """Where the proxy listens before each broker."""

    @property
    def brokers(self) -> list[int]:
        """Broker ids."""
        return sorted(self.client_ports)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses for clients."""
        return _addresses(self.client_ports)

    @property
    def load_bootstrap_servers(self) -> str:
        """Addresses for the producers under test: the proxy's, where there is one."""
        return _addresses(self.proxy_ports or self.client_ports)

    def listeners(self, broker: int) -> dict[str, tuple[int, int]]:
        """Per listener of a broker the port that it binds, and the one that it advertises."""
        ports = {"CLIENT": (self.client_ports[broker],) * 2, "REPL": (self.replication_ports[broker],) * 2}
        return ports | ({"PROXIED": (self.proxied_ports[broker], self.proxy_ports[broker])} if self.proxy_ports else {})


def _addresses(ports: dict[int, int]) -> str:
    return ",".join(f"127.0.0.1:{ports[broker]}" for broker in sorted(ports))


PROXY_SOCKET = "proxy.sock"
