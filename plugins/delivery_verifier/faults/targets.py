"""Targets: names in a fault plan, resolved once per cycle to broker ids."""

from __future__ import annotations

from collections.abc import Callable

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.scenario import Scenario


class Unresolved(RuntimeError):
    """A target stands for no broker at this moment."""


def _leader(cluster: Cluster, scenario: Scenario) -> list[int]:
    """The leader of partition 0 of the first subject; the arms share one assignment, so it leads the same of all."""
    topic = scenario.subjects[0].topic_name
    state = cluster.partitions([topic]).get((topic, 0))
    if state is None or state.leader < 0:
        raise Unresolved(f"{topic}, partition 0, has no leader")
    return [state.leader]


def _followers(cluster: Cluster, scenario: Scenario) -> list[int]:
    leader = _leader(cluster, scenario)
    return [broker for broker in cluster.brokers if broker not in leader]


TARGETS: dict[str, Callable[[Cluster, Scenario], list[int]]] = {
    "leader": _leader,
    "followers": _followers,
    "all": lambda cluster, scenario: list(cluster.brokers),
}
"""Every target by its name in a fault plan; `same` is that of the step before."""


def led_by(cluster: Cluster, topics: list[str], brokers: list[int]) -> dict[str, list[int]]:
    """The partitions per topic that `brokers` lead now: what an injection on them hits."""
    led: dict[str, list[int]] = {}
    for (topic, partition), state in sorted(cluster.partitions(topics).items()):
        if state.leader in brokers:
            led.setdefault(topic, []).append(partition)
    return led
