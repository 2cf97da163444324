"""The rules that permit DUPLICATED, REORDERED and RESENT: the client or the application sends a record again."""

from __future__ import annotations

from delivery_verifier.contract.rules.rule import ELECTIONS, MEASURED, PRODUCER_DOCS, ContractRule
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly


def _retries_unchecked(settings: Settings) -> bool:
    """Whether the client retries, and the broker cannot recognise the retries."""
    return settings.acks != "0" and not settings.enable_idempotence and settings.retries > 0


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
    ),
    ContractRule(
        id="reordered.one_in_flight",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries > 0, max.in.flight = 1",
        applies=lambda settings: _retries_unchecked(settings) and settings.max_in_flight == 1,
        kinds=(*ELECTIONS, "isr_shrink"),
        sentence="One request in flight is no guarantee of order: the limit is per connection, so that a new leader "
        "receives new records before the old one's are retried, and librdkafka's next request is already built "
        "when a refused one waits for its retry.",
        source=f"librdkafka issue 1092; {MEASURED} (the documentation promises order, we follow behaviour)",
    ),
)


def _requeues_unchecked(settings: Settings) -> bool:
    """Whether retries are forbidden (retries=0), and the broker cannot recognise a request that is sent again.

    This matters because librdkafka sends some refused requests again, even with retries=0.
    """
    return settings.acks != "0" and not settings.enable_idempotence and settings.retries == 0


_REQUEUED = (
    "librdkafka: rd_kafka_handle_Produce_error (a refused request is sent again without being counted as a retry)"
)
REQUEUES: tuple[ContractRule, ...] = (
    ContractRule(
        id="duplicated.requeued",
        anomaly=Anomaly.DUPLICATED,
        condition="acks=1 or all, enable.idempotence=false, retries=0",
        applies=_requeues_unchecked,
        kinds=ELECTIONS,
        sentence="retries=0 does not keep librdkafka from sending again what a broker refused because it no longer "
        "leads; that broker may have written it before.",
        source=_REQUEUED,
    ),
    ContractRule(
        id="reordered.requeued",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries=0",
        applies=_requeues_unchecked,
        kinds=ELECTIONS,
        sentence="What is sent again to a new leader can be overtaken by what was sent to it first.",
        source=_REQUEUED,
    ),
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
