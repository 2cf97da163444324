"""The means `network`: brokers whose containers are off the network of the brokers and controllers.

The option `links` must name the links LINKS_OF_THE_NETWORK, because a container loses them together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from delivery_verifier.cluster.means import Facts, Means
from delivery_verifier.model.act import Link
from delivery_verifier.model.history import now_us

if TYPE_CHECKING:
    from delivery_verifier.cluster.docker.agent import Agent

LINKS_OF_THE_NETWORK: tuple[Link, ...] = ("controller", "replication")
"""The links that a broker loses, all at the same time, when it is disconnected from the network of the brokers and
controllers."""
FENCED_WITHIN_S = 3.0
"""Seconds in which the other brokers must learn that a broker was fenced. The controller fences a broker when the
broker's session ends."""


class BrokerMeans(Means):
    """The network of one cluster's containers."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def apply(self, nodes: list[int], options: Mapping[str, Any]) -> int:
        """Disconnects `nodes` from the network of the brokers and controllers. Clients still reach these brokers.

        Raises ValueError if `links` differs from LINKS_OF_THE_NETWORK, or if a broker is isolated already.
        """
        if set(options["links"]) != set(LINKS_OF_THE_NETWORK):
            raise ValueError(f"docker cuts the links {' and '.join(LINKS_OF_THE_NETWORK)} together, and no others")
        current = self._agent.look()
        if isolated := [node for node in nodes if current[node].cut or not current[node].connected]:
            raise ValueError(f"brokers {isolated} are cut off already")
        at_us = now_us()
        for node in nodes:
            for network in current[node].connected:
                self._agent.carry_out(node, "disconnect", network=network)
        return at_us

    def undo(self, nodes: list[int]) -> None:
        """Connects `nodes` to their networks again."""
        current = self._agent.look()
        for node in nodes:
            for network in current[node].cut:
                self._agent.carry_out(node, "connect", network=network)

    def is_in_force(self, nodes: list[int], options: Mapping[str, Any]) -> Facts:
        """Returns, for each isolated broker, how often the agent has seen that the broker is disconnected: {broker id:
        {link: number}}.

        The number is 0 if the broker has another way to the controller. The agent concludes this if the broker was
        disconnected for longer than its session, and no other broker reports it as fenced. (The controller fences a
        broker whose session has ended.)
        """
        self._agent.look()
        session_s = self._agent.layout.spec.session_timeout_ms / 1000 + FENCED_WITHIN_S
        late = {node for node, since_s in self._agent.cut_since_s.items() if time.monotonic() > since_s + session_s}
        unproven = late - self._fenced() if late else late
        looks = {node: 0 if node in unproven else number for node, number in self._agent.looks.items()}
        return {node: dict.fromkeys(LINKS_OF_THE_NETWORK, number) for node, number in looks.items() if node in nodes}

    def _fenced(self) -> set[int]:
        """Returns the brokers that are fenced, as one running broker that is not cut off reports them. The result is
        empty if no such broker answers."""
        brokers = self._agent.layout.brokers
        for broker in brokers:
            if self._agent.nodes[broker].is_whole:
                with suppress(OSError):
                    return set(brokers) - self._agent.requests.live_brokers(broker)
        return set()
