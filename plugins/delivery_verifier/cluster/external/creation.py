"""Creates the topics of a run on a cluster that somebody else runs, and checks later that they still are the same."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.check.rights import PREFIX
from delivery_verifier.cluster.external import removal, runs
from delivery_verifier.cluster.external.cluster import SharedCluster
from delivery_verifier.cluster.external.register import Register
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.external_cluster import ExternalCluster
from delivery_verifier.model.scenario import Scenario

_Outcome = Callable[[str, KafkaException | None], object]
"""Takes a topic, and why it was not created (None if it was)."""
_MAY_BE_OURS = (KafkaError.REQUEST_TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS)
"""Errors after which the topic may exist. The client or a broker may have sent the request twice, and the second one
then finds the topic of the first. With any other error the cluster refused it."""
SHOWN_S = 30.0
"""How long a new topic may take until a broker shows its id, in seconds."""


def create(scenario: Scenario, cluster: SharedCluster, register: Register, external: ExternalCluster) -> None:
    """Creates the topic that announces the run, and then all topics of the run. Each stands in `register` before it can
    exist, and with its id afterwards.

    Raises ClusterTaken if another run is there once this one has announced itself: it may have come in the same moment.
    Raises StepFailed if a topic with such a name exists, and KafkaException if one cannot be created.
    """
    client, settings = topics.admin(cluster.connection), topics.settings(scenario)
    announced = runs.announcement(scenario.run_token, scenario.run_id)
    names = [announced, *settings]
    if there := removal.ids(client, names):
        raise StepFailed(f"topics {', '.join(sorted(there))} exist, and this run has not created them")
    register.intend("topic", names)
    register.intend("group", groups(scenario))
    successful, asked = list[str](), {announced}

    def outcome(topic: str, failure: KafkaException | None) -> None:
        if failure is None:
            successful.append(topic)
        elif failure.args[0].code() > 0 and failure.args[0].code() not in _MAY_BE_OURS:
            _forget(register, [topic])

    try:
        _announce(scenario, client, announced, external, outcome)
        runs.require_alone(client, (scenario.run_token,), external.access.beside)
        asked.update(settings)
        topics.create(scenario, cluster.connection, external.brokers, outcome)
    except BaseException:
        _forget(register, [name for name in names if name not in asked])
        # The first error counts. A topic whose id is not written down is later known by its name.
        with suppress(DeadlinePassed, KafkaException):
            _write_ids(client, register, successful)
        raise
    _write_ids(client, register, successful)


def _write_ids(client: AdminClient, register: Register, names: Collection[str]) -> None:
    shown = dict[str, str]()

    def is_shown() -> bool:
        shown.update(removal.ids(client, list(names)) if names else {})
        return shown.keys() >= set(names)

    try:
        wait_until(is_shown, "the new topics to be shown with their ids", SHOWN_S, every_s=0.2)
    finally:
        for name, topic_id in shown.items():
            register.created(name, topic_id)


def _forget(register: Register, names: Collection[str]) -> None:
    for entry in register.standing():
        if entry.kind == "topic" and entry.name in names:
            register.gone(entry)


def groups(scenario: Scenario) -> list[str]:
    """Returns the groups to which members of applications of the run belong. Other readers commit nothing, so that no
    group of theirs stays."""
    return [f"{PREFIX}{scenario.run_token}-{arm.name}" for arm in scenario.loaded if arm.application]


def require_unchanged(scenario: Scenario, cluster: SharedCluster, register: Register) -> None:
    """Raises StepFailed if a topic of the run is not the one that stands in `register`, does not have a setting with
    which it was created, or has replicas on other brokers. What a fault of the run altered may differ."""
    client, settings = topics.admin(cluster.connection), topics.settings(scenario)
    ours = {entry.name: entry.topic_id for entry in register.standing() if entry.kind == "topic"}
    shown = removal.ids(client, list(settings))
    if others := [name for name in settings if not ours.get(name) or shown.get(name) != ours[name]]:
        raise StepFailed(f"somebody else removed or made anew during the run: topics {', '.join(others)}")
    altered = {str(step.options.get("setting")) for step in scenario.fault.steps if step.action == "alter_topic"}
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in settings]
    for resource, future in client.describe_configs(resources).items():
        actual = future.result(topics.TIMEOUT_S)
        for name, value in settings[resource.name].items():
            value_now = actual[name].value if name in actual else "not told"
            if name not in altered and value_now != value:
                raise StepFailed(
                    f"topic {resource.name}: {name} is {value_now}, and the run gave it {value}: somebody else, or a "
                    "policy, changed it"
                )
    _require_places(scenario, cluster, list(settings))


def _require_places(scenario: Scenario, cluster: SharedCluster, names: list[str]) -> None:
    external = scenario.cluster.external
    assert external is not None
    planned = {number: set(row) for number, row in enumerate(topics.assignment(scenario, external.brokers))}
    for topic, described in topics.admin(cluster.connection).list_topics(timeout=runs.ANSWER_S).topics.items():
        for number, partition in described.partitions.items() if topic in names else ():
            if set(partition.replicas) != planned.get(number):
                raise StepFailed(
                    f"{topic}/{number} has replicas on {sorted(partition.replicas)} now, and the run placed them on "
                    f"{sorted(planned.get(number, ()))}: somebody else moved them"
                )


def _announce(scenario: Scenario, client: AdminClient, name: str, external: ExternalCluster, outcome: _Outcome) -> None:
    """Creates the topic that announces the run. It has one partition, and gets no record."""
    settings = topics.settings(scenario)[scenario.canary.topic_name]
    replicas = topics.assignment(scenario, external.brokers)[:1]
    (future,) = client.create_topics(
        [NewTopic(name, num_partitions=1, replica_assignment=replicas, config=settings)],
        operation_timeout=topics.TIMEOUT_S,
    ).values()
    try:
        future.result(topics.TIMEOUT_S)
    except KafkaException as failure:
        outcome(name, failure)
        raise
    outcome(name, None)
