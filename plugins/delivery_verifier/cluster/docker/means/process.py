"""The means `process`: signals to the containers of brokers.

The option `signal` is SIGKILL, SIGTERM, SIGSTOP or SIGCONT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from delivery_verifier.cluster.means import Facts, Means

if TYPE_CHECKING:
    from delivery_verifier.cluster.docker.agent import Agent


class BrokerMeans(Means):
    """Signals to the containers of one cluster."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def apply(self, nodes: list[int], options: Mapping[str, Any]) -> int:
        """Sends the signal to all `nodes` (see `Agent.send`)."""
        return min(self._agent.send(node, options["signal"]) for node in nodes)

    def undo(self, nodes: list[int]) -> None:
        """Resumes frozen containers, and starts containers that have exited."""
        for node, container in self._agent.look().items():
            if node in nodes and container.state == "frozen":
                self._agent.send(node, "SIGCONT")
            elif node in nodes and container.state == "exited":
                self._agent.start(node)

    def is_in_force(self, nodes: list[int], options: Mapping[str, Any]) -> Facts:
        """Returns the state of each node that does not run: `frozen` or `exited`."""
        current = self._agent.look()
        return {node: {"state": current[node].state} for node in nodes if current[node].state != "running"}
