"""Elections: leadership that moves at an operator's word, while every broker runs."""

from __future__ import annotations

from confluent_kafka import ElectionType, TopicPartition

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.action import Moment
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.store.run_directory import now_us

DEADLINE_S = 20.0
States = dict[tuple[str, int], PartitionState]


class ElectPreferred:
    """Moves every partition that the targets lead to its next replica, which becomes the preferred leader.

    An election that the controller refuses, or finds needless, is no error: its proof is missing.
    """

    def do(self, now: Moment) -> int:
        """Reorders the replicas, elects, and waits until every running broker knows the new leaders."""
        led = {key: state for key, state in _seen(now).items() if state.leader in now.brokers}
        now.cluster.assign_replicas({key: rotated(state) for key, state in led.items()})
        client = topics.admin(now.cluster.bootstrap_servers)
        chosen = [TopicPartition(topic, partition) for topic, partition in led]
        at_us = now_us()
        # confluent-kafka 2.16 takes none of the timeouts that elect_leaders documents (SystemError)
        refused = client.elect_leaders(ElectionType.PREFERRED, chosen).result(DEADLINE_S)
        if not any(refused.values()):
            wait_until(
                lambda: all(_preferred(_seen(now, broker), led) for broker in now.cluster.running()),
                "every broker to know the leaders that were elected",
                DEADLINE_S,
                every_s=0.02,
            )
        return at_us

    def proof(self, now: Moment) -> dict[str, object]:
        """The replicas of the partitions that are led by their preferred one."""
        return {
            f"{topic}-{partition} replicas": list(state.replicas)
            for (topic, partition), state in _seen(now).items()
            if state.replicas[0] == state.leader
        }


def rotated(state: PartitionState) -> list[int]:
    """The replicas of a partition in such an order that the one behind its leader is preferred."""
    place = state.replicas.index(state.leader) + 1
    return [*state.replicas[place:], *state.replicas[:place]]


def _preferred(seen: States, wanted: States) -> bool:
    return all(key in seen and seen[key].leader == rotated(state)[0] for key, state in wanted.items())


def _seen(now: Moment, via: int | None = None) -> States:
    if now.scenario is None:
        raise ValueError("an election needs the topics of a scenario")
    return now.cluster.partitions([arm.topic_name for arm in now.scenario.arms], via)
