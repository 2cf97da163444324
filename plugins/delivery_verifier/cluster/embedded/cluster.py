"""Access to one embedded cluster (brokers that run as processes on this host), for any process of the cluster's run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.agent_client import agent_at
from delivery_verifier.cluster.backend import CapabilityMissing
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.embedded import disks, packet_filter
from delivery_verifier.cluster.embedded.disks import Disk
from delivery_verifier.cluster.layout import AGENT_SOCKET, AGENT_SPEC, CONTROLLER, PROXY_SOCKET, ClusterLayout
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.model.act import Capability


class EmbeddedCluster:
    """A cluster that runs as processes on this host.

    The constructor reads the cluster's ports and capabilities from `workspace`. It raises ClusterGone if the workspace
    is gone.
    """

    def __init__(self, workspace: Path) -> None:
        spec_file = workspace / AGENT_SPEC
        if not spec_file.is_file():
            raise lease.ClusterGone(f"the workspace {workspace} is gone: this run's cluster has ended")
        self.layout = msgspec.convert(json.loads(spec_file.read_text())["layout"], ClusterLayout, strict=False)
        self.workspace, self.socket = workspace, workspace / AGENT_SOCKET
        self.brokers, self.controllers = self.layout.brokers, [CONTROLLER]
        self.agent = agent_at(self.socket)
        self.requests = BrokerRequests(self.connection)

    @property
    def capabilities(self) -> tuple[Capability, ...]:
        """The capabilities that this cluster was started with."""
        return self.layout.spec.capabilities

    @property
    def connection(self) -> Connection:
        """The brokers' addresses for the verifier's own clients. These clients never use the proxy."""
        return self.layout.connection

    @property
    def load_connection(self) -> Connection:
        """The addresses for the producers under test. If the cluster has a proxy, these are the addresses of the
        proxy."""
        return self.layout.load_connection

    def proxy_listens(self) -> bool:
        """Returns whether the proxy takes requests yet. Returns True if the cluster has no proxy."""
        return "proxy" not in self.capabilities or (self.workspace / PROXY_SOCKET).exists()

    def sync(self, brokers: Sequence[int]) -> None:
        """Flushes the disks of `brokers`. A later power cut then loses nothing that was written before this call.

        Raises OSError if a disk cannot be flushed, and CapabilityMissing if the cluster was started without the
        capability `power`.
        """
        if "power" not in self.capabilities:
            raise CapabilityMissing("power")
        for broker in brokers:
            Disk.of_broker(self.workspace, broker).sync()

    def last_log(self, node: int) -> str:
        """Returns the last three error lines of a node's log. If the log has no error line, returns its last three
        lines.

        An error line contains ERROR or Exception.
        """
        lines = (self.workspace / f"logs/{node}.log").read_text(errors="replace").splitlines()
        return " | ".join([line for line in lines if "ERROR" in line or "Exception" in line][-3:] or lines[-3:])

    def release(self) -> None:
        """Removes what a killed cluster agent left on the host: its rules in the packet filter, the mounts of the
        brokers' disks, and the sockets of the cluster agent and the proxy. Keeps the logs, and the image files with the
        brokers' data.

        Also removes the packet filter's rules that other killed processes left behind.
        """
        packet_filter.sweep()
        disks.release(self.workspace)
        for socket in (self.socket, self.workspace / PROXY_SOCKET):
            socket.unlink(missing_ok=True)
