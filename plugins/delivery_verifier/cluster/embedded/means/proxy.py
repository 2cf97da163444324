"""The means `proxy`: rules of the proxy, which stands between the producers under test and the brokers.

The option `rule` is a rule of the proxy (see `cluster.proxy.rules.ProxyRule`). The rule names its brokers itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.embedded.node_processes import NodeProcesses
from delivery_verifier.cluster.layout import PROXY_SOCKET
from delivery_verifier.cluster.means import Facts, Means
from delivery_verifier.model.history import now_us

ANSWER_S = 10.0
"""Seconds to wait for the proxy: fewer than those that a request to the agent may take."""


class BrokerMeans(Means):
    """The rules of one cluster's proxy."""

    def __init__(self, agent: NodeProcesses) -> None:
        self._socket = agent.workspace / PROXY_SOCKET

    def apply(self, nodes: list[int], options: Mapping[str, Any]) -> int:
        """Puts the rule in force. Raises RuntimeError with the reason if the proxy refuses."""
        at_us = now_us()
        self._call("put", rule=options["rule"])
        return at_us

    def undo(self, nodes: list[int]) -> None:
        """Ends every rule for `nodes`. The proxy then forwards all that it held back."""
        self._call("release", brokers=nodes)

    def is_in_force(self, nodes: list[int], options: Mapping[str, Any]) -> Facts:
        """Returns how often the rule acted: {broker id: {client.id: count}}. With the option `late_ends`, returns the
        delayed ends of transactions instead: {broker id: {`late_ends`: a list with the fields of each}}."""
        if not options.get("late_ends"):
            hits = self._call("hits", rule=options["rule"])
            return {int(broker): counts for broker, counts in hits.items()}
        ends = defaultdict[int, dict[str, Any]](lambda: {"late_ends": []})
        for end in self._call("late_ends", rule=options["rule"]):
            ends[end["broker"]]["late_ends"].append(end)
        return dict(ends)

    def _call(self, operation: str, **arguments: Any) -> Any:
        return lease.call(self._socket, operation, ANSWER_S, "proxy", **arguments)


def unavailable() -> None:
    """Returns None, because a proxy needs nothing of the host."""
