"""The promises: for each anomaly, the reason why the anomaly is forbidden if no rule permits it."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.anomalies import KINDS, Anomaly, column, subset


@dataclass(frozen=True, slots=True)
class Promise:
    """The reason why an anomaly is forbidden if no rule permits it.

    `id` takes the place of a rule's id, e.g. `lost.never`. `sentence` is the promise in words. `source` names who gives
    the promise.
    """

    id: str
    sentence: str
    source: str


PROMISES: dict[Anomaly, Promise] = {
    anomaly: Promise(f"{column(anomaly)}.never", kind.promise, kind.promised_by) for anomaly, kind in KINDS.items()
}
"""Maps each anomaly to the promise that forbids it if no rule permits it."""


_NOT_TAKEN = (
    "No disturbance that was seen can have taken it: it was acknowledged on another partition, at another time, below "
    "the end that the log of each new leader had, or by the new leader itself."
)
_COPIES = subset(
    "only these are permitted because a client sent a request again",
    {
        Anomaly.DUPLICATED: "No retry can have written it: a copy was appended before the record was sent, long after "
        "it was acknowledged, or to another partition.",
        Anomaly.REORDERED: "No retry can have written it there: it was appended before it was sent, or long after it "
        "was acknowledged.",
    },
)


def unexplained(anomaly: Anomaly) -> Promise:
    """Returns the reason why one case of `anomaly` is forbidden although the contract permits the anomaly in general:
    nothing that was seen can explain this case."""
    reason, promise = _COPIES.get(anomaly, _NOT_TAKEN), PROMISES[anomaly]
    return Promise(f"{column(anomaly)}.unexplained", f"{reason} {promise.sentence}", f"{promise.source}; KIP-101")


LATE = Promise(
    "reordered.late",
    "An idempotent producer that lives on cannot get a record appended behind a later record of its own. That "
    "includes a record of which it never learned the outcome. "
    "The broker refuses a sequence that is not the next one. Once the "
    "producer has given records up and bumped its epoch, the broker also refuses everything of the older epoch.",
    "KIP-98 (sequence numbers); KIP-360 (epoch bump); Kafka: ProducerAppendInfo.checkSequence, checkProducerEpoch; "
    "librdkafka: rd_kafka_idemp_drain_epoch_bump",
)
"""The promise about records that arrive late. It holds for an idempotent producer that was not killed.

Brokers append no record of such a producer behind a later record of the same producer. So if the record of an attempt
stands behind the record of a later attempt, this is REORDERED, even if the earlier attempt is INDETERMINATE.
"""
