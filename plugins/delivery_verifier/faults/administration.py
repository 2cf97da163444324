"""Administration: what an operator may do to a running cluster: hold elections, and alter a setting of topics.

No broker is harmed, and nothing is left to heal. The elections concern the topics of the scenario.
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import ElectionType, TopicPartition

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.action import ActionContext, ActionProof
from delivery_verifier.faults.open_injection import partition_name
from delivery_verifier.faults.proofs import PartitionStates
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.data import setting_text
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Arm, Scenario

DEADLINE_S = 20.0


class ElectPreferred:
    """Moves every partition that the targets lead to its next replica, which becomes the preferred leader.

    Proof: partitions are led by their preferred replica. The effect `re_elected` proves that their leaders are new. An
    election that the controller refuses, or finds needless, is no error: its proof is missing. The action is momentary,
    and nothing needs healing.
    """

    def do(self, context: ActionContext) -> int:
        """Reorders the replicas, elects, and waits until every running broker knows the new leaders.

        Raises OSError where the order is refused, DeadlinePassed.
        """
        arms = _scenario(context).arms
        led = {key: state for key, state in _partitions(context, arms).items() if state.leader in context.brokers}
        context.cluster.assign_replicas({key: rotated_replicas(state) for key, state in led.items()})
        at_us = now_us()
        if _elect(context, ElectionType.PREFERRED, led):
            wait_until(
                lambda: all(
                    _next_replicas_lead(_partitions(context, arms, broker), led) for broker in context.cluster.running()
                ),
                "every broker to know the leaders that were elected",
                DEADLINE_S,
                every_s=0.02,
            )
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """The replicas of the partitions that are led by their preferred one."""
        return {
            f"{partition_name(*key)} replicas": list(state.replicas)
            for key, state in _partitions(context, _scenario(context).arms).items()
            if state.replicas[0] == state.leader
        }


class ElectUnclean:
    """Asks for a leader from outside the ISR, for every partition of the subject arms that has none.

    Proof: every partition of the subject arms is led by a target. An election that the controller refuses, or finds
    needless, is no error: its proof is missing. The action is momentary, and nothing needs healing.
    """

    def do(self, context: ActionContext) -> int:
        """Elects, and waits until every partition of the subject arms has a leader. Raises DeadlinePassed."""
        arms = _scenario(context).subjects
        offline = [key for key, state in _partitions(context, arms).items() if state.leader < 0]
        at_us = now_us()
        if offline and _elect(context, ElectionType.UNCLEAN, offline):
            wait_until(
                lambda: all(state.leader >= 0 for state in _partitions(context, arms).values()),
                "the partitions to be led again",
                DEADLINE_S,
            )
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """The leaders of the subject arms, if every partition has one among the targets."""
        states = _partitions(context, _scenario(context).subjects)
        leaders = {f"{partition_name(*key)} leader": state.leader for key, state in states.items()}
        return leaders if set(leaders.values()) <= set(context.brokers) else {}


class AlterTopic:
    """Gives the topic of every arm that carries load another value of a setting, while the load goes on.

    The request goes to a broker that runs, in Kafka's protocol: a client library might ask a broker that stands still.
    Proof: a broker reports the new value, and no arm's topic was created with that value. The action is momentary, and
    nothing needs healing.
    """

    def do(self, context: ActionContext) -> int:
        """Alters the setting. Raises OSError where that is refused, DeadlinePassed if no broker reports the new
        value."""
        setting, value = _setting(context)
        at_us = now_us()
        context.cluster.alter_topics(_loaded_topics(context), setting, value)
        wait_until(
            lambda: set(_values(context).values()) == {value}, f"{setting} to be {value}", DEADLINE_S, every_s=0.005
        )
        return at_us

    def proof(self, context: ActionContext) -> ActionProof:
        """The values that a broker reports, if they are the new value and no arm's topic was created with it."""
        setting, value = _setting(context)
        unchanged = any(setting_text(arm.profile.topic.get(setting, "")) == value for arm in _scenario(context).loaded)
        values = _values(context)
        return dict(values) if set(values.values()) == {value} and not unchanged else {}


def rotated_replicas(state: PartitionState) -> list[int]:
    """The replicas of a partition in a new order: first the replica that stands behind its leader."""
    index = state.replicas.index(state.leader) + 1
    return [*state.replicas[index:], *state.replicas[:index]]


def _next_replicas_lead(states: PartitionStates, before: PartitionStates) -> bool:
    """Whether every partition of `before` is led by the replica that was next to lead it."""
    return all(key in states and states[key].leader == rotated_replicas(state)[0] for key, state in before.items())


def _elect(context: ActionContext, election: ElectionType, partitions: Iterable[tuple[str, int]]) -> bool:
    """Asks the controller for an election. Returns whether it was granted for all of `partitions`."""
    client = topics.admin(context.cluster.connection)
    elected = [TopicPartition(topic, partition) for topic, partition in partitions]
    # confluent-kafka 2.16 accepts none of the timeouts that elect_leaders documents (SystemError)
    errors = client.elect_leaders(election, elected).result(DEADLINE_S)
    return not any(errors.values())


def _partitions(context: ActionContext, arms: Iterable[Arm], via: int | None = None) -> PartitionStates:
    """The partitions of `arms`, as the broker `via` knows them; without `via` the newest state that any broker
    knows."""
    return context.cluster.partitions([arm.topic_name for arm in arms], via)


def _setting(context: ActionContext) -> tuple[str, str]:
    """The topic setting that the step names, and its new value."""
    return str(context.options["setting"]), setting_text(context.options["value"])


def _values(context: ActionContext) -> dict[str, str]:
    """The value of the setting per topic that carries load, as a broker reports it."""
    return context.cluster.topic_setting(_loaded_topics(context), _setting(context)[0])


def _loaded_topics(context: ActionContext) -> list[str]:
    return [arm.topic_name for arm in _scenario(context).loaded]


def _scenario(context: ActionContext) -> Scenario:
    if context.scenario is None:
        raise ValueError("an administrative action needs the topics of a scenario")
    return context.scenario
