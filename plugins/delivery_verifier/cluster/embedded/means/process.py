"""The means `process`: signals to the processes of brokers.

The option `signal` is SIGKILL, SIGTERM, SIGSTOP or SIGCONT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delivery_verifier.cluster.embedded.node_processes import NodeProcesses
from delivery_verifier.cluster.means import Facts, Means


class BrokerMeans(Means):
    """Signals to the processes of one cluster."""

    def __init__(self, agent: NodeProcesses) -> None:
        self._agent = agent

    def apply(self, nodes: list[int], options: Mapping[str, Any]) -> int:
        """Sends the signal to all `nodes`. Raises ValueError if one of them does not run."""
        return min(self._agent.send(node, options["signal"]) for node in nodes)

    def undo(self, nodes: list[int]) -> None:
        """Lets frozen nodes go on, and starts nodes that have exited. If the disk of such a node has no power, first
        switches the power on."""
        for node, status in self._agent.status().nodes.items():
            if node in nodes and status.state == "frozen":
                self._agent.send(node, "SIGCONT")
            elif node in nodes and status.state == "exited":
                self._agent.start(node)

    def is_in_force(self, nodes: list[int], options: Mapping[str, Any]) -> Facts:
        """Returns the state of each node that does not run: `frozen` or `exited`."""
        statuses = self._agent.status().nodes
        return {node: {"state": statuses[node].state} for node in nodes if statuses[node].state != "running"}
