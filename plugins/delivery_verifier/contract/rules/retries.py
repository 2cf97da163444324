"""The rules that permit DUPLICATED, REORDERED and RESENT: the client or the application sends a record again.

Some of these rules describe a client library, and not Kafka. Such a rule names its `clients`.
"""

from __future__ import annotations

from delivery_verifier.contract.rules.rule import BOTH, ELECTIONS, JAVA_SOURCE, MEASURED, PRODUCER_DOCS, ContractRule
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance


def _retries_unchecked(settings: Settings) -> bool:
    """Returns whether the client retries, and the broker cannot recognise the retries."""
    return settings.acks != "0" and not settings.enable_idempotence and settings.retries > 0


def _refuses_requests(_settings: Settings, disturbance: Disturbance) -> bool:
    """Returns whether brokers may refuse requests for a while because of the disturbance.

    An alteration of a topic has this effect only if it changes min.insync.replicas.
    """
    return disturbance.kind != "topic_altered" or disturbance.setting == "min.insync.replicas"


RETRIES: tuple[ContractRule, ...] = (
    ContractRule(
        id="duplicated.retries",
        anomaly=Anomaly.DUPLICATED,
        condition="acks=1 or all, enable.idempotence=false, retries > 0",
        applies=_retries_unchecked,
        kinds=(),
        sentence="A retry whose first try did arrive is written twice: without idempotence the broker cannot know. A "
        "lost connection is enough for a retry, and no broker need be disturbed for that.",
        source=f"{PRODUCER_DOCS}: retries, enable.idempotence; KIP-98",
        measured_with=BOTH,
    ),
    ContractRule(
        id="reordered.retries",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries > 0, max.in.flight > 1",
        applies=lambda settings: _retries_unchecked(settings) and settings.max_in_flight > 1,
        kinds=(),
        sentence="A retried batch can be overtaken by one that was in flight behind it; a lost connection is enough "
        "for a retry.",
        source=f"{PRODUCER_DOCS}: max.in.flight.requests.per.connection",
        measured_with=BOTH,
    ),
    ContractRule(
        id="reordered.one_in_flight",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries > 0, max.in.flight = 1",
        clients=("librdkafka",),
        applies=lambda settings: _retries_unchecked(settings) and settings.max_in_flight == 1,
        kinds=(*ELECTIONS, "isr_shrink", "topic_altered"),
        far_enough=_refuses_requests,
        far_enough_text="of min.insync.replicas",
        sentence="With librdkafka, one request in flight is no guarantee of order. The limit is per connection, so "
        "a new leader receives new records before the old one's are retried. And librdkafka's next request is "
        "already built when a refused one waits for its retry.",
        source=f"librdkafka issue 1092; {MEASURED} (the documentation promises order, we follow behaviour)",
        java="The Java client keeps the order. With max.in.flight=1 it sends nothing more of a partition until the "
        "request under way has its answer, whichever broker leads (KafkaProducer.newSender: guaranteeMessageOrder; "
        "Sender.sendProducerData: mutePartition; 0 reordered in one run in which librdkafka reordered).",
    ),
)


ACKS_0 = ContractRule(
    id="reordered.acks_0",
    anomaly=Anomaly.REORDERED,
    condition="acks=0",
    applies=lambda settings: settings.acks == "0",
    transactional=False,
    kinds=(),
    sentence="With acks=0 the client waits for no broker, and Kafka keeps the order of one connection alone. What "
    "is still on its way in a broken connection may be appended behind what the next one brings. A request that a "
    "socket took only in part is sent again, behind what a new leader has by then, even with retries=0 and one in "
    "flight. A broken connection is enough, and no broker need be disturbed for that.",
    source=f"librdkafka: rd_kafka_handle_Produce_error, rd_kafka_buf_was_sent; {MEASURED}, with the same leader and "
    "with a new one",
)


def _requeues_unchecked(settings: Settings) -> bool:
    """Returns whether two conditions hold: retries are off (retries=0), and the broker cannot recognise a request that
    is sent again.

    This matters because librdkafka sends some refused requests again, even with retries=0. The Java client does not.
    """
    return settings.acks != "0" and not settings.enable_idempotence and settings.retries == 0


_REQUEUED = (
    "librdkafka: rd_kafka_handle_Produce_error (a refused request is sent again without being counted as a retry)"
)
_JAVA_GIVES_UP = (
    "With retries=0 the Java client sends no refused request again (Sender.canRetry: batch.attempts() < retries; "
    f"{JAVA_SOURCE})."
)
REQUEUES: tuple[ContractRule, ...] = (
    ContractRule(
        id="duplicated.requeued",
        anomaly=Anomaly.DUPLICATED,
        condition="acks=1 or all, enable.idempotence=false, retries=0",
        clients=("librdkafka",),
        applies=_requeues_unchecked,
        kinds=ELECTIONS,
        sentence="retries=0 does not keep librdkafka from sending again what a broker refused because it no longer "
        "leads; that broker may have written it before.",
        source=_REQUEUED,
        java=_JAVA_GIVES_UP,
    ),
    ContractRule(
        id="reordered.requeued",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries=0",
        clients=("librdkafka",),
        applies=_requeues_unchecked,
        kinds=ELECTIONS,
        sentence="What librdkafka sends again to a new leader, even with retries=0, can be overtaken by what was sent "
        "to it first.",
        source=_REQUEUED,
        measured_with=(),
        java=_JAVA_GIVES_UP,
    ),
)

SPLITS = ContractRule(
    id="reordered.split",
    anomaly=Anomaly.REORDERED,
    condition="acks=1 or all, enable.idempotence=false, retries=0, max.in.flight > 1",
    clients=("java",),
    measured_with=(),
    applies=lambda settings: (
        settings.acks != "0"
        and not settings.enable_idempotence
        and settings.retries == 0
        and settings.max_in_flight > 1
    ),
    kinds=(),
    sentence="A batch that is larger than the topic's max.message.bytes is refused, and the Java client splits it and "
    "sends its parts again, even with retries=0: batches that were in flight behind it stand before them.",
    source=f"KIP-126; Sender.completeBatch: splitAndReenqueue ({JAVA_SOURCE})",
    java="The Java client alone splits batches that are too large.",
)

RESENDS = ContractRule(
    id="resent.application",
    anomaly=Anomaly.RESENT,
    condition="any settings",
    applies=lambda settings: True,
    kinds=(),
    sentence="Kafka recognises what the client retries, not what the application sends again: that is a new record.",
    source="KIP-98: the idempotent producer's guarantee covers one session and no resends by the application",
)
