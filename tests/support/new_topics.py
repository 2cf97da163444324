"""Topics for tests on real brokers, beside those that the arms of a scenario get (`cluster.topics.create`)."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from delivery_verifier.host.waiting import wait_until

DEADLINE_S = 180.0
"""How long the creation of a topic may take, in seconds. It took more than 30 s beside two other lanes of tests on a
slow host."""


def create_topics(client: Mapping[str, str], *wanted: NewTopic) -> None:
    """Creates topics, and waits until they exist. `client`: properties of a client, e.g. its brokers.

    A busy host may starve a broker until the controller fences it. So an error about too few brokers only means to ask
    again. Raises KafkaException with the broker's reason if a topic cannot be created, and DeadlinePassed if there
    were too few brokers for DEADLINE_S.
    """
    admin = AdminClient(dict(client))  # must live until its futures are done
    for new in wanted:
        wait_until(lambda new=new: _is_created(admin, new), f"brokers for the replicas of {new.topic}", DEADLINE_S)


def _is_created(admin: AdminClient, new: NewTopic) -> bool:
    """Asks for a topic. Returns False if there are too few brokers for the topic's replicas."""
    try:
        admin.create_topics([new], request_timeout=DEADLINE_S)[new.topic].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR:
            return False
        raise
    return True
