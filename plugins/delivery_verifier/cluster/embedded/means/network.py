"""The means `network`: rules of the packet filter, which cut brokers off link by link.

The option `links` is a list of the links to cut (see `act.LINKS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from delivery_verifier.cluster.backend import Unavailability
from delivery_verifier.cluster.embedded import capabilities, packet_filter
from delivery_verifier.cluster.embedded.isolation import Isolation
from delivery_verifier.cluster.embedded.node_processes import NodeProcesses
from delivery_verifier.cluster.means import Facts, Means
from delivery_verifier.model.history import now_us


class BrokerMeans(Means):
    """The rules that cut off brokers of one cluster."""

    def __init__(self, agent: NodeProcesses) -> None:
        self._isolation = Isolation(agent.layout, agent.workspace.name[:8])

    def apply(self, nodes: list[int], options: Mapping[str, Any]) -> int:
        """Drops packets between `nodes` and the peers that `links` names. Raises ValueError if a broker is isolated
        already, and FilterError if the packet filter cannot be changed."""
        at_us = now_us()
        for node in nodes:
            self._isolation.cut(node, options["links"])
        return at_us

    def undo(self, nodes: list[int]) -> None:
        """Lets the packets of `nodes` through again. Raises FilterError if a broker stays cut off."""
        for node in nodes:
            self._isolation.restore(node)

    def is_in_force(self, nodes: list[int], options: Mapping[str, Any]) -> Facts:
        """Returns how many packets were dropped on each link that was cut: {broker id: {link: packets}}. Leaves out a
        link if one of the link's rules is missing in the packet filter."""
        return {node: dict(links) for node, links in self._isolation.dropped().items() if node in nodes}

    def end(self) -> None:
        """Removes the cluster's rules from the packet filter."""
        self._isolation.end()


def unavailable() -> Unavailability | None:
    """Adds a rule to the packet filter, and reads the rule back. Returns why that failed, or None if it succeeded.

    If the rule is missing but no tool reported an error, `Unavailability.failed` is True.
    """
    if reason := capabilities.missing_programs("iptables", "iptables", "iptables-save", "iptables-restore"):
        return Unavailability(reason)
    chain = packet_filter.Chain.own("trial")
    rule = packet_filter.FilterRule("trial", f"-m owner --gid-owner {packet_filter.GROUPS} -m tcp --dport 1")
    try:
        chain.add([rule])
        works = chain.dropped() == [("trial", 0)]
    except packet_filter.FilterError as error:
        remedy = "run as root with CAP_NET_ADMIN, and iptables' owner match"
        return capabilities.refusal("the packet filter cannot be changed", error, remedy)
    finally:
        chain.destroy()
    message = "a rule that was added to the packet filter is not there: use an iptables that the kernel knows"
    return None if works else Unavailability(message, failed=True)
