"""Topics for tests on real brokers, beside those that the arms of a scenario get (`cluster.topics.create`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from delivery_verifier.host.waiting import wait_until
from support.patience import PATIENCE_S


def create_topics(client: Mapping[str, str], *wanted: NewTopic, may_be_fenced: bool = False) -> None:
    """Creates topics, and waits until they exist. `client`: properties of a client, e.g. its brokers.

    A busy host may starve a broker until the controller fences it. With `may_be_fenced`, this function asks again for
    PATIENCE_S if the broker says that there are too few brokers, and then raises DeadlinePassed. Otherwise it raises
    KafkaException with the broker's reason if a topic cannot be created.
    """
    admin = AdminClient(dict(client))  # must live until its futures are done
    reasons: list[str] = []

    def ask(new: NewTopic) -> bool:
        try:
            admin.create_topics([new], request_timeout=PATIENCE_S)[new.topic].result()
        except KafkaException as error:
            if not may_be_fenced or error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            reasons.append(str(error))
            return False
        return True

    for new in wanted:
        wait_until(partial(ask, new), f"the topic {new.topic}", PATIENCE_S, detail=lambda: reasons[-1])
