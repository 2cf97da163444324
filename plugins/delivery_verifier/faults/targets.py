"""Targets: names in a fault plan, resolved once per cycle to broker ids."""

from __future__ import annotations

from collections.abc import Callable

from delivery_verifier.cluster import coordinators
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.fault_actions import Act
from delivery_verifier.model.scenario import Scenario


class Unresolved(RuntimeError):
    """A target stands for no broker at this moment."""


class Targets:
    """The targets of one cycle. A name keeps its brokers for the whole cycle, wherever leadership goes."""

    def __init__(self, cluster: Cluster, scenario: Scenario, cycle: int) -> None:
        self._cluster, self._scenario, self._cycle = cluster, scenario, cycle
        self._known: dict[str, list[int]] = {}

    def resolve(self, name: str) -> list[int]:
        """The brokers that `name` stands for. Raises Unresolved; KeyError for an unknown name."""
        if name not in self._known:
            self._known[name] = _KINDS[name](self)
        return self._known[name]

    def leader(self) -> list[int]:
        """The leader of partition 0 of the first subject; the arms share one assignment, so it leads the same of
        all."""
        topic = self._scenario.subjects[0].topic_name
        state = self._cluster.partitions([topic]).get((topic, 0))
        if state is None or state.leader < 0:
            raise Unresolved(f"{topic}, partition 0, has no leader")
        return [state.leader]

    def followers(self) -> list[int]:
        """All but the cycle's leader, in the order of the assignment."""
        (leader,) = self.resolve("leader")
        brokers = self.all()
        index = brokers.index(leader)
        return [*brokers[index + 1 :], *brokers[:index]]

    def all(self) -> list[int]:
        """Every broker."""
        return list(self._cluster.brokers)

    def transaction_coordinator(self) -> list[int]:
        """Who keeps the transactions of the producer that has any."""
        ids = self._scenario.transactional_ids[:1]
        found = [state.leader for state in coordinators.states(self._cluster, ids).values() if state.leader >= 0]
        if not found:
            raise Unresolved(f"the transactional.id {', '.join(ids) or '(there is none)'} has no coordinator")
        return found

    def next(self) -> list[int]:
        """Another broker in every cycle, round and round."""
        return [self.nth(0)]

    def nth(self, place: int) -> int:
        """The broker at `place` of a round through all of them, which begins at another one in every cycle."""
        return self.all()[(self._scenario.seed + self._cycle + place) % len(self.all())]


_KINDS: dict[str, Callable[[Targets], list[int]]] = {
    "leader": Targets.leader,
    "new_leader": Targets.leader,
    "followers": Targets.followers,
    "follower": lambda it: it.resolve("followers")[:1],
    "other_follower": lambda it: it.resolve("followers")[1:2],
    "leader_and_follower": lambda it: [*it.resolve("leader"), *it.resolve("follower")],
    "next": Targets.next,
    "second": lambda it: [it.nth(1)],
    "third": lambda it: [it.nth(2)],
    "transaction_coordinator": Targets.transaction_coordinator,
    "all": Targets.all,
    "none": lambda it: [],
}
"""Every target by its name; a test holds them equal to `vocabulary.TARGETS`."""


def touched(act: Act, cluster: Cluster, scenario: Scenario, brokers: list[int]) -> dict[str, list[int]]:
    """The partitions per topic that `act`, done to `brokers`, touches: those they lead now, or, if they lead none, of
    which they hold a replica; every one that carries load, where it is done to clients or topics and not to brokers."""
    if act.all_partitions:
        return {arm.topic_name: list(range(scenario.load.partitions)) for arm in scenario.loaded}
    states = sorted(cluster.partitions([arm.topic_name for arm in scenario.arms]).items())
    led = [key for key, state in states if state.leader in brokers]
    held = [key for key, state in states if set(state.replicas) & set(brokers)]
    found: dict[str, list[int]] = {}
    for topic, partition in led or held:
        found.setdefault(topic, []).append(partition)
    return found
