"""Targets: the names by which fault plans refer to brokers. Each name is resolved to broker ids once per cycle.

A cycle is one pass through the steps of a plan.
"""

from __future__ import annotations

from collections.abc import Callable

from delivery_verifier.cluster import coordinators
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.act import Act
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.fault_actions import ADD_PARTITIONS
from delivery_verifier.model.partition_growth import first_partitions
from delivery_verifier.model.scenario import Scenario


class Unresolved(VerifierError, RuntimeError):
    """The name of a target stands for no broker at this moment."""


class Targets:
    """The targets of one cycle. A name means the same brokers during the whole cycle, even if leaders move."""

    def __init__(self, cluster: Cluster, scenario: Scenario, cycle: int) -> None:
        self._cluster, self._scenario, self._cycle = cluster, scenario, cycle
        self._resolved: dict[str, list[int]] = {}

    def resolve(self, name: str) -> list[int]:
        """Returns the brokers for which `name` stands.

        Raises Unresolved if `name` stands for no broker now, and KeyError for an unknown name.
        """
        if name not in self._resolved:
            self._resolved[name] = _KINDS[name](self)
        return self._resolved[name]

    def leader(self) -> list[int]:
        """Returns the leader of partition 0 of the first subject arm.

        Every topic has the same replica assignment. So this broker leads the same partitions in every topic, except if
        leaders have moved in only some of the topics. Raises Unresolved if the partition has no leader.
        """
        topic = self._scenario.subjects[0].topic_name
        state = self._cluster.partitions([topic]).get((topic, 0))
        if state is None or state.leader < 0:
            raise Unresolved(f"{topic}, partition 0, has no leader")
        return [state.leader]

    def followers(self) -> list[int]:
        """Returns all brokers except the target `leader`. On a cluster that somebody else runs, only those that have a
        replica of partition 0: the run may have a place on more brokers than a partition has replicas.

        The order is by ascending id, and begins with the broker after the leader. After the highest id comes the
        lowest.
        """
        (leader,) = self.resolve("leader")
        brokers = self.all()
        index = brokers.index(leader)
        others = [*brokers[index + 1 :], *brokers[:index]]
        if self._cluster.owned is not None:
            return others
        topic = self._scenario.subjects[0].topic_name
        state = self._cluster.partitions([topic]).get((topic, 0))
        return [broker for broker in others if state is not None and broker in state.replicas]

    def all(self) -> list[int]:
        """Returns every broker."""
        return list(self._cluster.brokers)

    def transaction_coordinator(self) -> list[int]:
        """Returns the broker that coordinates the transactions of the first producer with a transactional.id.

        Raises Unresolved if there is no such producer, or if no broker now coordinates the transactions of this
        producer.
        """
        ids = self._scenario.transactional_ids[:1]
        states = coordinators.states(self._cluster, ids)
        leaders = [state.leader for state in states.values() if state.leader >= 0]
        if not leaders:
            raise Unresolved(f"the transactional.id {', '.join(ids) or '(there is none)'} has no coordinator")
        return leaders

    def next(self) -> list[int]:
        """Returns one broker. In each cycle, this is the broker that comes after the previous cycle's broker in the
        list of all brokers. After the last broker comes the first."""
        return [self.nth(0)]

    def nth(self, index: int) -> int:
        """Returns the broker at `index` in a rotated list of all brokers.

        In the first cycle, the list is rotated by `Scenario.seed` places. In each later cycle, it is rotated by one
        place more.
        """
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
"""Maps each target name to the function that finds its brokers. A test checks that `TARGETS` has the same names."""


def touched_partitions(act: Act, cluster: Cluster, scenario: Scenario, brokers: list[int]) -> dict[str, list[int]]:
    """Maps each topic to the partitions that the action `act` touches if it is done to `brokers`.

    * An action on brokers touches the partitions that these brokers lead now. If they lead none, it touches the
      partitions that have a replica on these brokers.
    * An action on producers, or an action that alters topics, touches every partition that carries load.
    * An action that adds partitions touches those that it adds.
    """
    if act.name == ADD_PARTITIONS:
        added = list(range(first_partitions(scenario), scenario.load.partitions))
        return {arm.topic_name: added for arm in scenario.loaded}
    if act.all_partitions:
        return {arm.topic_name: list(range(scenario.load.partitions)) for arm in scenario.loaded}
    states = sorted(cluster.partitions([arm.topic_name for arm in scenario.arms]).items())
    led = [key for key, state in states if state.leader in brokers]
    held = [key for key, state in states if set(state.replicas) & set(brokers)]
    partitions: dict[str, list[int]] = {}
    for topic, partition in led or held:
        partitions.setdefault(topic, []).append(partition)
    return partitions
