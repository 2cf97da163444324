"""Commands: what an operator may ask of a running cluster, and regret."""

from __future__ import annotations

from confluent_kafka import ElectionType, TopicPartition

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario

DEADLINE_S = 20.0


class ElectUnclean:
    """Asks for a leader from outside the ISR, for every partition of the subject arms that has none.

    An election that the controller refuses, or finds needless, is no error: its proof is missing.
    """

    def do(self, context: ActionContext) -> int:
        """Elects, and waits until the partitions that were to get a leader have one."""
        names = [arm.topic_name for arm in _scenario(context).subjects]
        offline = [key for key, state in context.cluster.partitions(names).items() if state.leader < 0]
        at_us = now_us()
        if offline:
            client = topics.admin(context.cluster.connection)
            chosen = [TopicPartition(topic, partition) for topic, partition in offline]
            # no timeout is given: confluent-kafka 2.16 takes none here, whatever its documentation says
            refused = client.elect_leaders(ElectionType.UNCLEAN, chosen).result(DEADLINE_S)
            if not any(refused.values()):
                wait_until(
                    lambda: all(state.leader >= 0 for state in context.cluster.partitions(names).values()),
                    "the partitions to be led again",
                    DEADLINE_S,
                )
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """The leaders of the subject arms, if every partition has one among the targets."""
        seen = context.cluster.partitions([arm.topic_name for arm in _scenario(context).subjects])
        led = {f"{topic}-{partition} leader": state.leader for (topic, partition), state in seen.items()}
        return dict(led) if led and set(led.values()) <= set(context.brokers) else {}


class AlterTopic:
    """Gives the topic of every arm that carries load another value of a setting, while the load goes on.

    Spoken raw to a broker that runs: another may stand still, and be the one that a client library happens to ask.
    """

    def do(self, context: ActionContext) -> int:
        """Alters. Raises OSError where it is refused, DeadlinePassed if the broker does not tell the new value."""
        names, setting, value = _wanted(context)
        at_us = now_us()
        context.cluster.alter_topics(names, setting, value)
        wait_until(
            lambda: set(_told(context).values()) == {value}, f"{setting} to be {value}", DEADLINE_S, every_s=0.005
        )
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """What a broker tells of the setting, if it is as wanted and no arm's topic was made with it."""
        _, setting, value = _wanted(context)
        made_so = [
            arm.name for arm in _scenario(context).loaded if topics.text(arm.profile.topic.get(setting, "")) == value
        ]
        told = _told(context)
        return dict(told) if set(told.values()) == {value} and not made_so else {}


def _wanted(context: ActionContext) -> tuple[list[str], str, str]:
    """The topics, the setting, and its new value."""
    names = [arm.topic_name for arm in _scenario(context).loaded]
    return names, str(context.options["setting"]), topics.text(context.options["value"])


def _told(context: ActionContext) -> dict[str, str]:
    names, setting, _ = _wanted(context)
    return context.cluster.topic_setting(names, setting)


def _scenario(context: ActionContext) -> Scenario:
    if context.scenario is None:
        raise ValueError("a command needs the topics of a scenario")
    return context.scenario


States = dict[tuple[str, int], PartitionState]


class ElectPreferred:
    """Moves every partition that the targets lead to its next replica, which becomes the preferred leader.

    An election that the controller refuses, or finds needless, is no error: its proof is missing.
    """

    def do(self, context: ActionContext) -> int:
        """Reorders the replicas, elects, and waits until every running broker knows the new leaders."""
        led = {key: state for key, state in _seen(context).items() if state.leader in context.brokers}
        context.cluster.assign_replicas({key: rotated(state) for key, state in led.items()})
        client = topics.admin(context.cluster.connection)
        chosen = [TopicPartition(topic, partition) for topic, partition in led]
        at_us = now_us()
        # confluent-kafka 2.16 takes none of the timeouts that elect_leaders documents (SystemError)
        refused = client.elect_leaders(ElectionType.PREFERRED, chosen).result(DEADLINE_S)
        if not any(refused.values()):
            wait_until(
                lambda: all(_preferred(_seen(context, broker), led) for broker in context.cluster.running()),
                "every broker to know the leaders that were elected",
                DEADLINE_S,
                every_s=0.02,
            )
        return at_us

    def proof(self, context: ActionContext) -> dict[str, object]:
        """The replicas of the partitions that are led by their preferred one."""
        return {
            f"{topic}-{partition} replicas": list(state.replicas)
            for (topic, partition), state in _seen(context).items()
            if state.replicas[0] == state.leader
        }


def rotated(state: PartitionState) -> list[int]:
    """The replicas of a partition in such an order that the one behind its leader is preferred."""
    place = state.replicas.index(state.leader) + 1
    return [*state.replicas[place:], *state.replicas[:place]]


def _preferred(seen: States, wanted: States) -> bool:
    return all(key in seen and seen[key].leader == rotated(state)[0] for key, state in wanted.items())


def _seen(context: ActionContext, via: int | None = None) -> States:
    if context.scenario is None:
        raise ValueError("an election needs the topics of a scenario")
    return context.cluster.partitions([arm.topic_name for arm in context.scenario.arms], via)
