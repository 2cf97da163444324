"""The cluster agent of an embedded cluster: the parent process of the brokers (see `cluster.agent`).

When the cluster ends, the cluster agent kills its child processes. If the proxy ends, the cluster agent ends the
cluster, too. If the cluster agent itself is killed, the kernel kills the cluster agent's child processes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from delivery_verifier.cluster import agent
from delivery_verifier.cluster.embedded import disks
from delivery_verifier.cluster.embedded.backend import EmbeddedAgentSpec
from delivery_verifier.cluster.embedded.capabilities import PACKAGE
from delivery_verifier.cluster.embedded.node_processes import NodeProcesses
from delivery_verifier.cluster.layout import CONTROLLER
from delivery_verifier.cluster.observer import OBSERVATIONS, Observer
from delivery_verifier.cluster.protocol.requests import RepeatedRequests


class Agent(NodeProcesses, agent.Agent):
    """The cluster agent of one embedded cluster."""

    package = PACKAGE

    def __init__(self, spec: EmbeddedAgentSpec) -> None:
        workspace, layout = Path(spec.workspace), spec.layout
        observer = Observer(RepeatedRequests(layout.connection), layout.brokers, workspace / OBSERVATIONS)
        agent.Agent.__init__(self, spec, observer)
        NodeProcesses.__init__(self, workspace, layout, observer)
        self.capabilities = layout.spec.capabilities

    def begin(self) -> None:
        """Starts the controller and the brokers. Starts the proxy, too, if the cluster has one."""
        for node in (CONTROLLER, *self.layout.brokers):
            self.start(node)
        if self.layout.proxy_ports:
            self.start_proxy()

    def failure(self) -> str:
        """Returns, in words, how the proxy ended. Returns an empty text if the proxy runs, or if the cluster has no
        proxy."""
        ended = self.proxy_ended()
        return f"the proxy exited unexpectedly with {ended}" if ended else ""

    def end_cluster(self) -> None:
        """Kills the cluster agent's child processes, and unmounts the brokers' disks.

        If a request `finish` ends the cluster, first calls `keep_class_archive` while the brokers still run.
        """
        if self.end_reason == "finished":
            self.keep_class_archive()
        self.kill_all()
        disks.release(self.workspace)


def main() -> None:
    """Runs a cluster agent: `python -m delivery_verifier.cluster.embedded.agent SPEC`. SPEC is a JSON file with an
    EmbeddedAgentSpec."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=EmbeddedAgentSpec)
    agent.keep(spec, lambda: Agent(spec))


if __name__ == "__main__":
    main()
