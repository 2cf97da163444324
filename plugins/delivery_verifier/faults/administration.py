"""Administration: what an operator does to a running cluster. These actions elect leaders, alter a topic setting, or
add partitions to topics.

The actions harm no broker, and end at once, so nothing has to be healed. The elections concern the topics of the
scenario.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import ElectionType, KafkaException, TopicPartition

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done
from delivery_verifier.faults.open_injection import partition_name
from delivery_verifier.faults.proofs import PartitionStates
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.data import setting_text
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.history import now_us
from delivery_verifier.model.partition_growth import first_partitions
from delivery_verifier.model.scenario import Arm, Scenario

DEADLINE_S = 20.0


@dataclass(frozen=True)
class ElectPreferred:
    """Gives a new leader to every partition that a target broker leads.

    The new leader is the replica that follows the present leader in the partition's list of replicas. The action moves
    this replica to the head of the list, which makes it the preferred leader. Then the action asks for the election of
    the preferred leader.

    Proof: at least one partition is led by its preferred leader. This does not show that the leader is new. Only the
    effect `re_elected` shows that (see act.Proof). If the controller refuses the election, or answers that none is
    needed, the action raises no error, and the effect `re_elected` is not seen.
    """

    def do(self, context: ActionContext) -> Done:
        """Puts the replicas into a new order, and asks for the election.

        If the controller grants the election, waits until every running broker knows the new leaders. Raises OSError if
        the controller refuses the new order. Raises DeadlinePassed if a running broker does not know the new leaders in
        time.
        """
        arms = _scenario(context).arms
        led = {key: state for key, state in _partitions(context, arms).items() if state.leader in context.brokers}
        context.cluster.requests.assign_replicas(
            context.cluster.running()[0], {key: rotated_replicas(state) for key, state in led.items()}
        )
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
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Maps each partition that is led by its preferred leader to the partition's replicas.

        The preferred leader is the first in the list of replicas. The result is empty if there is no such partition.
        """
        return {
            f"{partition_name(*key)} replicas": list(state.replicas)
            for key, state in _partitions(context, _scenario(context).arms).items()
            if state.replicas[0] == state.leader
        }


@dataclass(frozen=True)
class ElectUnclean:
    """Elects a leader from outside the ISR for every partition of the subject arms that has no leader.

    Proof: target brokers lead all partitions of the subject arms. The proof does not show whether this action made them
    leaders. If the controller refuses the election, or answers that none is needed, the action raises no error. The
    proof is then usually empty.
    """

    def do(self, context: ActionContext) -> Done:
        """Asks for the election if a partition has no leader.

        If the controller grants the election, waits until every partition of the subject arms has a leader. Raises
        DeadlinePassed.
        """
        arms = _scenario(context).subjects
        offline = [key for key, state in _partitions(context, arms).items() if state.leader < 0]
        at_us = now_us()
        if offline and _elect(context, ElectionType.UNCLEAN, offline):
            wait_until(
                lambda: all(state.leader >= 0 for state in _partitions(context, arms).values()),
                "the partitions to be led again",
                DEADLINE_S,
            )
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Maps each partition of the subject arms to its leader.

        If one of these leaders is not a target broker, the result is empty.
        """
        states = _partitions(context, _scenario(context).subjects)
        leaders = {f"{partition_name(*key)} leader": state.leader for key, state in states.items()}
        return leaders if set(leaders.values()) <= set(context.brokers) else {}


@dataclass(frozen=True)
class AlterTopic:
    """Changes the value of a topic setting while the load goes on. Does this to the topics of all arms that carry load.

    The option `setting` of the fault plan's step names the setting, and the option `value` is the new value. The
    verifier sends the request itself, to a broker that runs, because a client library might send it to a frozen broker.
    Proof: a broker reports the new value for every topic, and no arm's topic was created with that value.
    """

    def do(self, context: ActionContext) -> Done:
        """Alters the setting, and waits until a broker reports the new value.

        Raises OSError if the change is refused, and DeadlinePassed if no broker reports the new value.
        """
        setting, value = _setting(context)
        at_us = now_us()
        context.cluster.requests.alter_topics(context.cluster.running()[0], _loaded_topics(context), setting, value)
        wait_until(
            lambda: set(_values(context).values()) == {value}, f"{setting} to be {value}", DEADLINE_S, every_s=0.005
        )
        return Done(at_us)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Maps each topic to the value of the altered setting, as a broker reports it.

        The result is empty if a topic does not have the new value, or if an arm's topic was created with the new value.
        """
        setting, value = _setting(context)
        unchanged = any(setting_text(arm.profile.topic.get(setting, "")) == value for arm in _scenario(context).loaded)
        values = _values(context)
        return dict(values) if set(values.values()) == {value} and not unchanged else {}


@dataclass(frozen=True)
class AddPartitions:
    """Adds partitions to the topics of all arms that carry load, until they have as many as the load is planned for.

    Proof: every running broker shows the planned number of partitions of every topic, each with a leader, and showed
    another number before.
    """

    def do(self, context: ActionContext) -> Done:
        """Adds the partitions to topics that lack them, and waits until every running broker shows them.

        Raises OSError if the controller refuses, and DeadlinePassed if a broker does not show them in time.
        """
        scenario, cluster = _scenario(context), context.cluster
        planned, new = scenario.load.partitions, topics.assignment(scenario, cluster.brokers)
        before, at_us = _least_partitions(context), now_us()
        if lacking := [topic for topic, count in before.items() if count < planned]:
            added = new[first_partitions(scenario) :]
            cluster.requests.create_partitions(cluster.running()[0], lacking, planned, added)
        wait_until(
            lambda: set(_least_partitions(context).values()) == {planned},
            f"every broker to show {planned} partitions of every topic",
            DEADLINE_S,
            every_s=0.005,
        )
        return Done(at_us, before)

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Maps each topic to its number of partitions. The result is empty if a topic has not the planned number, or
        had it before."""
        now, planned = _least_partitions(context), _scenario(context).load.partitions
        has_grown = set(now.values()) == {planned} and planned not in done.facts.values()
        return dict(now) if has_grown else {}


def rotated_replicas(state: PartitionState) -> list[int]:
    """Returns the replicas of a partition in a rotated order: the replica after the current leader comes first."""
    index = state.replicas.index(state.leader) + 1
    return [*state.replicas[index:], *state.replicas[:index]]


def _next_replicas_lead(states: PartitionStates, before: PartitionStates) -> bool:
    """Returns whether the election has given every partition of `before` its new leader.

    `before` holds the states before the election, `states` the states now. The new leader of a partition is the first
    of its `rotated_replicas`.
    """
    return all(key in states and states[key].leader == rotated_replicas(state)[0] for key, state in before.items())


def _elect(context: ActionContext, election: ElectionType, partitions: Iterable[tuple[str, int]]) -> bool:
    """Asks the controller for an election. Returns whether the controller granted the election for all of `partitions`.

    Raises StepFailed if the controller refuses the request as a whole, or gives no answer.
    """
    client = topics.admin(context.cluster.connection)
    elected = [TopicPartition(topic, partition) for topic, partition in partitions]
    # No timeout is passed: confluent-kafka 2.16 raises SystemError for each timeout that elect_leaders documents.
    try:
        errors = client.elect_leaders(election, elected).result(DEADLINE_S)
    except (KafkaException, TimeoutError) as error:
        reason = str(error) or f"no answer within {DEADLINE_S:g} s"
        names = ", ".join(partition_name(part.topic, part.partition) for part in elected)
        raise StepFailed(f"the controller elected no leaders ({election.name}) of {names}: {reason}") from error
    return not any(errors.values())


def _partitions(context: ActionContext, arms: Iterable[Arm], via: int | None = None) -> PartitionStates:
    """Returns the states of the partitions of `arms`, as the broker `via` reports them.

    If `via` is None, asks all running brokers, and returns the newest state of each partition (see
    `Cluster.partitions`).
    """
    return context.cluster.partitions([arm.topic_name for arm in arms], via)


def _setting(context: ActionContext) -> tuple[str, str]:
    return str(context.options["setting"]), setting_text(context.options["value"])


def _values(context: ActionContext) -> dict[str, str]:
    """Maps each topic that carries load to the value that a broker reports for the topic setting (see `_setting`)."""
    return context.cluster.requests.topic_setting(
        context.cluster.running()[0], _loaded_topics(context), _setting(context)[0]
    )


def _least_partitions(context: ActionContext) -> dict[str, int]:
    """Maps each topic that carries load to the smallest number of partitions with a leader that a running broker
    shows."""
    names, running = _loaded_topics(context), context.cluster.running()
    views = [context.cluster.partitions(names, broker) for broker in running]
    return {
        name: min(
            (sum(topic == name and state.leader >= 0 for (topic, _), state in v.items()) for v in views), default=0
        )
        for name in names
    }


def _loaded_topics(context: ActionContext) -> list[str]:
    return [arm.topic_name for arm in _scenario(context).loaded]


def _scenario(context: ActionContext) -> Scenario:
    if context.scenario is None:
        raise ValueError("an administrative action needs the topics of a scenario")
    return context.scenario


ACTIONS: dict[str, Action] = subset(
    "the actions of an operator; faults.actions has all",
    {
        "elect_preferred": ElectPreferred(),
        "elect_unclean": ElectUnclean(),
        "alter_topic": AlterTopic(),
        "add_partitions": AddPartitions(),
    },
)
