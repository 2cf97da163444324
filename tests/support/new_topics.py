"""Topics for tests on real brokers, beside those that the arms of a scenario get (`cluster.topics.create`)."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

DEADLINE_S = 180.0
"""How long the creation of a topic may take, in seconds. It took more than 30 s beside two other lanes of tests on a
slow host."""


def create_topics(client: Mapping[str, str], *wanted: NewTopic) -> None:
    """Creates topics, and waits until they exist. `client`: properties of a client, e.g. its brokers.

    Raises KafkaException with the broker's reason if a topic cannot be created.
    """
    admin = AdminClient(dict(client))  # must live until its futures are done
    for future in admin.create_topics(list(wanted), request_timeout=DEADLINE_S).values():
        future.result()
