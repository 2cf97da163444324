"""Topics for tests on real brokers, beside those that the arms of a scenario get (`cluster.topics.create`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from delivery_verifier.host.waiting import wait_until
from support.patience import PATIENCE_S

ASKS_AGAIN_AFTER_S = 30.0
"""How long one request waits for a broker that may be fenced, in seconds. Each request has a new client. A client whose
broker was fenced once found no controller for 300 s."""
FENCED = (KafkaError.INVALID_REPLICATION_FACTOR, KafkaError._TIMED_OUT)
"""The errors with which a request ends while the only broker is fenced: too few brokers, or no controller."""


def create_topics(client: Mapping[str, str], *wanted: NewTopic, may_be_fenced: bool = False) -> None:
    """Creates topics, and waits until they exist. `client`: properties of a client, e.g. its brokers.

    A busy host may starve a broker until the controller fences it. With `may_be_fenced`, this function asks again for
    PATIENCE_S if a request ends with an error of FENCED, and then raises DeadlinePassed. Otherwise it raises
    KafkaException with the broker's reason if a topic cannot be created.
    """
    reasons: list[str] = []

    def ask(new: NewTopic) -> bool:
        admin = AdminClient(dict(client))  # must live until its futures are done
        try:
            within_s = ASKS_AGAIN_AFTER_S if may_be_fenced else PATIENCE_S
            admin.create_topics([new], request_timeout=within_s)[new.topic].result()
        except KafkaException as error:
            code = error.args[0].code()
            if reasons and code == KafkaError.TOPIC_ALREADY_EXISTS:  # a request that timed out was carried out
                return True
            if not may_be_fenced or code not in FENCED:
                raise
            reasons.append(str(error))
            return False
        return True

    for new in wanted:
        reasons.clear()
        wait_until(partial(ask, new), f"the topic {new.topic}", PATIENCE_S, detail=lambda: reasons[-1])
