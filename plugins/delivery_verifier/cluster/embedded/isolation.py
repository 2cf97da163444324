"""Isolation: brokers cut off from the controller, from other brokers or from clients, by dropping their packets."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.cluster.embedded.packet_filter import GROUPS, Chain, FilterError, FilterRule
from delivery_verifier.cluster.layout import ClusterLayout
from delivery_verifier.model.step_options import Link


def rules(layout: ClusterLayout, broker: int, links: Iterable[Link]) -> list[FilterRule]:
    """The packets of `broker` on `links`, in both directions.

    What the controller sends a broker only ever answers it; what others ask of a broker goes to its own ports.
    """
    own, others = (
        f"-m owner --gid-owner {GROUPS + broker} -m tcp --dport",
        [one for one in layout.brokers if one != broker],
    )
    clients = [ports[broker] for ports in (layout.client_ports, layout.proxied_ports) if ports]
    listening = {"replication": [layout.replication_ports[broker]], "client": clients}
    asked = {
        "controller": [layout.controller_port],
        "replication": [layout.replication_ports[other] for other in others],
    }
    found = []
    for link in links:
        name = f"{broker}.{link}"
        found += [FilterRule(name, f"{own} {port}") for port in asked.get(link, [])]
        found += [FilterRule(name, f"-m tcp --{end}port {port}") for port in listening.get(link, []) for end in "ds"]
    return found


class Isolation:
    """The brokers of one cluster that are cut off now, by this process."""

    def __init__(self, layout: ClusterLayout, token: str) -> None:
        self._layout, self._chain = layout, Chain.own(token)
        self._set: dict[int, list[FilterRule]] = {}
        self._used = False

    def cut(self, broker: int, links: Iterable[Link]) -> None:
        """Cuts `broker` off. Raises ValueError if it is cut off already, FilterError."""
        if broker in self._set:
            raise ValueError(f"broker {broker} is cut off already")
        self._used = True
        self._set[broker] = rules(self._layout, broker, links)
        self._chain.add(self._set[broker])

    def mend(self, broker: int) -> None:
        """Lets its packets through again; harmless if they go through. Raises FilterError if the kernel still drops
        any."""
        self._chain.remove(self._set.get(broker, []))
        if left := [name for name, _ in self._read() if name.startswith(f"{broker}.")]:
            raise FilterError(f"broker {broker} is still cut off: {', '.join(left)}")
        self._set.pop(broker, None)

    def dropped(self) -> dict[int, dict[str, int]]:
        """Per broker that was cut off and link the packets dropped so far; without the links of which a rule is
        missing."""
        there, found = self._read(), dict[int, dict[str, int]]()
        for broker, wanted in self._set.items():
            names = {rule.name: sum(other.name == rule.name for other in wanted) for rule in wanted}
            counts = {name: [packets for known, packets in there if known == name] for name in names}
            found[broker] = {
                name.split(".")[1]: sum(counts[name]) for name in names if len(counts[name]) == names[name]
            }
        return found

    def end(self) -> None:
        """Takes everything away."""
        if self._used:  # also after all was mended: the chain itself is still there
            self._chain.destroy()

    def _read(self) -> list[tuple[str, int]]:
        return self._chain.dropped() if self._set else []
