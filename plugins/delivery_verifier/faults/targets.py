"""Targets: the names that fault plans give to brokers, resolved once per cycle to broker ids."""

from __future__ import annotations

from collections.abc import Callable

from delivery_verifier.cluster import coordinators
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.act import Act
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import Scenario


class Unresolved(VerifierError, RuntimeError):
    """A target stands for no broker at this moment."""


class Targets:
    """The targets of one cycle. A name keeps its brokers for the whole cycle, wherever leadership goes."""

    def __init__(self, cluster: Cluster, scenario: Scenario, cycle: int) -> None:
        self._cluster, self._scenario, self._cycle = cluster, scenario, cycle
        self._resolved: dict[str, list[int]] = {}

    def resolve(self, name: str) -> list[int]:
        """The brokers that `name` stands for. Raises Unresolved; KeyError for an unknown name."""
        if name not in self._resolved:
            self._resolved[name] = _KINDS[name](self)
        return self._resolved[name]

    def leader(self) -> list[int]:
        """The leader of partition 0 of the first subject arm. The arms share one assignment, so that in every topic it
        leads the same partitions."""
        topic = self._scenario.subjects[0].topic_name
        state = self._cluster.partitions([topic]).get((topic, 0))
        if state is None or state.leader < 0:
            raise Unresolved(f"{topic}, partition 0, has no leader")
        return [state.leader]

    def followers(self) -> list[int]:
        """All brokers but the cycle's leader, in the order of the assignment."""
        (leader,) = self.resolve("leader")
        brokers = self.all()
        index = brokers.index(leader)
        return [*brokers[index + 1 :], *brokers[:index]]

    def all(self) -> list[int]:
        """Every broker."""
        return list(self._cluster.brokers)

    def transaction_coordinator(self) -> list[int]:
        """The broker that coordinates the transactions of the first producer with a transactional.id."""
        ids = self._scenario.transactional_ids[:1]
        states = coordinators.states(self._cluster, ids)
        leaders = [state.leader for state in states.values() if state.leader >= 0]
        if not leaders:
            raise Unresolved(f"the transactional.id {', '.join(ids) or '(there is none)'} has no coordinator")
        return leaders

    def next(self) -> list[int]:
        """Another broker in every cycle, in turn."""
        return [self.nth(0)]

    def nth(self, index: int) -> int:
        """The broker at `index` of a round through all brokers. In every cycle the round begins at the next one."""
        return self.all()[(self._scenario.seed + self._cycle + index) % len(self.all())]


_KINDS: dict[str, Callable[[Targets], list[int]]] = {
    "leader": Targets.leader,
    "new_leader": Targets.leader,
    "followers": Targets.followers,
    "follower": lambda targets: targets.resolve("followers")[:1],
    "other_follower": lambda targets: targets.resolve("followers")[1:2],
    "leader_and_follower": lambda targets: [*targets.resolve("leader"), *targets.resolve("follower")],
    "next": Targets.next,
    "second": lambda targets: [targets.nth(1)],
    "third": lambda targets: [targets.nth(2)],
    "transaction_coordinator": Targets.transaction_coordinator,
    "all": Targets.all,
    "none": lambda targets: [],
}
"""Every target by its name. A test holds the names equal to those of `fault_targets.TARGETS`."""


def touched_partitions(act: Act, cluster: Cluster, scenario: Scenario, brokers: list[int]) -> dict[str, list[int]]:
    """The partitions per topic that `act`, done to `brokers`, touches.

    An act on brokers touches the partitions that they lead now or, if they lead none, those of which they hold a
    replica. An act on clients or topics touches every partition that carries load.
    """
    if act.all_partitions:
        return {arm.topic_name: list(range(scenario.load.partitions)) for arm in scenario.loaded}
    states = sorted(cluster.partitions([arm.topic_name for arm in scenario.arms]).items())
    led = [key for key, state in states if state.leader in brokers]
    held = [key for key, state in states if set(state.replicas) & set(brokers)]
    partitions: dict[str, list[int]] = {}
    for topic, partition in led or held:
        partitions.setdefault(topic, []).append(partition)
    return partitions
