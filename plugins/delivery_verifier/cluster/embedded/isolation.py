"""Isolation: cuts brokers off from the controller, from other brokers or from clients, by dropping packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from delivery_verifier.cluster.embedded.packet_filter import GROUPS, Chain, FilterError, FilterRule
from delivery_verifier.cluster.layout import ClusterLayout
from delivery_verifier.model.act import Link


def rules(layout: ClusterLayout, broker: int, links: Iterable[Link]) -> list[FilterRule]:
    """Returns the rules with which the packet filter cuts `broker` off from the peers that `links` names.

    The rules stop the broker's requests to these peers, and the peers' requests to the broker. The rules of each link
    drop these packets:

    * `controller`: the packets that the broker sends to the controller's port. The controller itself sends no requests
      to brokers.
    * `replication`: the packets that the broker sends to the replication ports of other brokers, and all packets to and
      from the broker's own replication port. At this port, the broker receives the requests of other brokers.
    * `client`: all packets to and from the ports at which the broker serves clients.
    """
    from_broker = f"-m owner --gid-owner {GROUPS + broker} -m tcp --dport"
    other_brokers = [other for other in layout.brokers if other != broker]
    client_ports = [ports[broker] for ports in (layout.client_ports, layout.proxied_ports) if ports]
    own_ports = {"replication": [layout.replication_ports[broker]], "client": client_ports}
    remote_ports = {
        "controller": [layout.controller_port],
        "replication": [layout.replication_ports[other] for other in other_brokers],
    }
    filter_rules = []
    for link in links:
        name = f"{broker}.{link}"
        filter_rules += [FilterRule(name, f"{from_broker} {port}") for port in remote_ports.get(link, [])]
        for port in own_ports.get(link, []):
            filter_rules += [FilterRule(name, f"-m tcp --dport {port}"), FilterRule(name, f"-m tcp --sport {port}")]
    return filter_rules


class Isolation:
    """Cuts brokers of one cluster off, and remembers which brokers are cut off.

    All rules go into one chain of the packet filter. `token` has up to eight characters, and becomes part of the
    chain's name.
    """

    def __init__(self, layout: ClusterLayout, token: str) -> None:
        self._layout, self._chain = layout, Chain.own(token)
        self._rules: dict[int, list[FilterRule]] = {}
        self._used = False

    def cut(self, broker: int, links: Iterable[Link]) -> None:
        """Cuts `broker` off from the peers that `links` names.

        Raises ValueError if the broker is cut off already, and FilterError if the packet filter cannot be changed.
        """
        if broker in self._rules:
            raise ValueError(f"broker {broker} is cut off already")
        self._used = True
        self._rules[broker] = rules(self._layout, broker, links)
        self._chain.add(self._rules[broker])

    def restore(self, broker: int) -> None:
        """Lets the packets of `broker` through again. Does nothing if `broker` is not cut off.

        Raises FilterError if the packet filter still drops packets of `broker` afterwards.
        """
        self._chain.remove(self._rules.get(broker, []))
        if remaining := [name for name, _ in self._read() if name.startswith(f"{broker}.")]:
            raise FilterError(f"broker {broker} is still cut off: {', '.join(remaining)}")
        self._rules.pop(broker, None)

    def dropped(self) -> dict[int, dict[str, int]]:
        """Returns how many packets were dropped on each cut link so far: {broker id: {link: packets}}.

        Leaves out a link if one of the link's rules is missing in the kernel.
        """
        counters, packets_of = self._read(), dict[int, dict[str, int]]()
        for broker, filter_rules in self._rules.items():
            packets_of[broker] = {}
            expected = Counter(rule.name for rule in filter_rules)
            for name, rules_expected in expected.items():
                packets = [count for rule_name, count in counters if rule_name == name]
                if len(packets) == rules_expected:
                    packets_of[broker][name.split(".")[1]] = sum(packets)
        return packets_of

    def end(self) -> None:
        """Removes this process's chain from the packet filter, with all rules of the chain."""
        if self._used:  # the chain stays when the last broker is fixed
            self._chain.destroy()

    def _read(self) -> list[tuple[str, int]]:
        """Returns the name and the number of dropped packets of every rule that the kernel has in this process's chain.

        The result is empty if no broker is cut off.
        """
        return self._chain.dropped() if self._rules else []
