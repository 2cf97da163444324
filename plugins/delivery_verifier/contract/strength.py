"""The order of settings: which of two are at least as strong for an anomaly, hence never permit it where the other does
not.

Declared as data, one sentence each; a test holds the contract to it on random settings and disturbances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import KINDS, Anomaly

LOSSES = tuple(anomaly for anomaly, kind in KINDS.items() if kind.permitted_with == "losses")
"""What is permitted where records may be lost."""
COPIES = tuple(anomaly for anomaly, kind in KINDS.items() if kind.permitted_with == "retries")
"""What is permitted where the client may write again."""


@dataclass(frozen=True, slots=True)
class Order:
    """How one setting, a field of Settings, orders settings that differ in nothing else.

    `strength` of a value: what is greater is at least as strong. `shown`: from weak to strong, for people.
    """

    anomalies: tuple[Anomaly, ...]
    field: str
    strength: Callable[[Settings], int]
    shown: str
    sentence: str


STRENGTH_ORDERS: tuple[Order, ...] = (
    Order(
        LOSSES,
        "acks",
        lambda it: ("0", "1", "all").index(it.acks),
        "acks=0 < 1 < all",
        "The more replicas must have a record before it is acknowledged, the less can be lost of what was.",
    ),
    Order(
        COPIES,
        "acks",
        lambda it: it.acks == "0",
        "acks=1 = all < 0",
        "What nobody acknowledges is never sent again, hence never written twice nor late: acks=0 is the stronger "
        "here.",
    ),
    Order(
        LOSSES,
        "min_insync_replicas",
        lambda it: it.min_insync_replicas,
        "min.insync.replicas=1 < 2 < 3",
        "More replicas that must be in sync are more that must fail at once. The price is availability.",
    ),
    Order(
        LOSSES,
        "unclean_leader_election",
        lambda it: not it.unclean_leader_election,
        "unclean.leader.election.enable=true < false",
        "A partition that waits for a replica that has everything loses nothing; it is offline until then.",
    ),
    Order(
        LOSSES,
        "elr",
        lambda it: it.elr,
        "no eligible leader replicas < eligible leader replicas",
        "A replica that left the ISR in an orderly way, and still has everything, may lead before one that lost its "
        "power.",
    ),
    Order(
        LOSSES,
        "flush_messages",
        lambda it: it.flush_messages == 1,
        "flush.messages > 1 < flush.messages=1",
        "Only what is on disk before it is acknowledged survives the power of all replicas; anything rarer promises "
        "nothing.",
    ),
    Order(
        LOSSES,
        "replication_factor",
        lambda it: it.replication_factor,
        "replication.factor=1 < 2 < 3",
        "The same disturbances hurt no more with more replicas; what changes is how easily they come about.",
    ),
    Order(
        tuple(Anomaly),
        "enable_idempotence",
        lambda it: it.enable_idempotence,
        "enable.idempotence=false < true",
        "The broker discards what a retry sends twice, and refuses what comes too early. Nothing gets worse.",
    ),
    Order(
        COPIES,
        "retries",
        lambda it: -min(it.retries, 1),
        "retries > 0 < retries=0",
        "More retries permit more duplicates and another order. The price of none is what fails.",
    ),
    Order(
        COPIES,
        "max_in_flight",
        lambda it: -min(it.max_in_flight, 2),
        "max.in.flight > 1 < max.in.flight=1",
        "What is not in flight cannot overtake. With librdkafka one in flight is less than a guarantee of order.",
    ),
)
"""Every declared order. Settings that differ in a field that no order of the anomaly names must be equal in it, except
those of `WITHOUT_EFFECT`."""

WITHOUT_EFFECT: dict[str, str] = {
    "delivery_timeout_ms": "decides how long a record is tried, hence whether it fails or is INDETERMINATE, never "
    "what is permitted",
    "request_timeout_ms": "decides how long brokers wait for replicas; a request that times out may have been written",
    "socket_timeout_ms": "decides how soon the client tries again: how often, not whether, a retry may write twice",
    "isolation_level": "decides which view is read; what is lost or written twice is in both",
}
"""Fields of Settings that no rule looks at, with the reason."""


def of(anomaly: Anomaly) -> list[Order]:
    """The orders that count for `anomaly`."""
    return [order for order in STRENGTH_ORDERS if anomaly in order.anomalies]


def at_least_as_strong(anomaly: Anomaly, one: Settings, other: Settings) -> bool:
    """Whether `one` must not permit `anomaly` where `other` forbids it. Two settings may be incomparable."""
    orders = of(anomaly)
    free = {*WITHOUT_EFFECT, *(order.field for order in orders)}
    equal = all(getattr(one, it.name) == getattr(other, it.name) for it in fields(Settings) if it.name not in free)
    return equal and all(order.strength(one) >= order.strength(other) for order in orders)
