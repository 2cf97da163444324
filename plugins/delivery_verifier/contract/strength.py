"""The order of settings by strength: which of two instances of Settings is at least as strong for an anomaly.

If settings A are at least as strong as settings B, the contract forbids the anomaly for A whenever it forbids the
anomaly for B under the same disturbances. The order is declared as data. Each part of it has a sentence that gives the
reason. A test checks the contract against this order on random settings and disturbances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delivery_verifier.contract.rules.applications import EARLY
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import KINDS, Anomaly, subset
from delivery_verifier.model.application import Discipline

LOSSES = tuple(anomaly for anomaly, kind in KINDS.items() if kind.permitted_with == "losses")
"""The anomalies that the contract permits if settings or disturbances may lose records."""
COPIES = tuple(anomaly for anomaly, kind in KINDS.items() if kind.permitted_with == "retries")
"""The anomalies that the contract permits if the client may write a record again."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order of settings that differ in one field only. `field` is the name of this field in Settings.

    The order holds for each of `anomalies`. The function `strength` maps an instance of Settings to a number. An
    instance with a greater or equal number is at least as strong. `shown` is the order as people read it, from weak to
    strong. `sentence` gives the reason.
    """

    anomalies: tuple[Anomaly, ...]
    field: str
    strength: Callable[[Settings], int]
    shown: str
    sentence: str


def _order_of_effects(settings: Settings) -> int:
    """Returns a rank of the settings. The rank is the greater, the better the discipline keeps the order of effects."""
    if settings.discipline is None:
        return 3
    return 0 if settings.discipline == "own" else 1 + (settings.discipline not in EARLY)


_AGAINST_ZOMBIES: tuple[Discipline | None, ...] = (
    "transform_assigned",
    "transform_transactional",
    "transform_fenced",
    "commit_first",
    "transform_first",
    "database_compared",
    None,
)
"""The disciplines that apply nothing twice after a crash, from weak to strong. They also apply nothing twice when a
frozen member goes on, except the first, `transform_assigned`. None stands for no application."""
_AGAINST_REWINDS: tuple[Discipline | None, ...] = ("database_together", "database_compared", None)
"""The disciplines, from weak to strong, with which no record is applied twice after a crash, or after an operator set
the group's offsets back. None stands for no application."""


def _rank(discipline: Discipline | None, strong: tuple[Discipline | None, ...]) -> int:
    """Returns the position of `discipline` in `strong`, counted from 1. Returns 0 if `discipline` is not in
    `strong`."""
    return strong.index(discipline) + 1 if discipline in strong else 0


STRENGTH_ORDERS: tuple[Order, ...] = (
    Order(
        LOSSES,
        "acks",
        lambda settings: ("0", "1", "all").index(settings.acks),
        "acks=0 < 1 < all",
        "The more replicas must have a record before it is acknowledged, the less can be lost of what was.",
    ),
    Order(
        subset("acks=0 is the weaker where order counts", (Anomaly.DUPLICATED,)),
        "acks",
        lambda settings: settings.acks == "0",
        "acks=1 = all < 0",
        "With acks=0 the client resends only if the broker cannot have received the whole request, so acks=0 never "
        "duplicates. It is stronger than acks=all in this respect.",
    ),
    Order(
        subset("acks=0 is the stronger against copies", (Anomaly.REORDERED,)),
        "acks",
        lambda settings: settings.acks != "0",
        "acks=0 < 1 = all",
        "A client that waits for no answer sends on a new connection while an old one still holds records.",
    ),
    Order(
        LOSSES,
        "min_insync_replicas",
        lambda settings: settings.min_insync_replicas,
        "min.insync.replicas=1 < 2 < 3",
        "More replicas that must be in sync are more that must fail at once. The price is availability.",
    ),
    Order(
        LOSSES,
        "unclean_leader_election",
        lambda settings: not settings.unclean_leader_election,
        "unclean.leader.election.enable=true < false",
        "A partition that waits for a replica that has everything loses nothing; it is offline until then.",
    ),
    Order(
        LOSSES,
        "elr",
        lambda settings: settings.elr,
        "no eligible leader replicas < eligible leader replicas",
        "A replica that left the ISR in an orderly way, and still has everything, may lead before one that lost its "
        "power.",
    ),
    Order(
        LOSSES,
        "flush_messages",
        lambda settings: settings.flush_messages == 1,
        "flush.messages > 1 < flush.messages=1",
        "Only what is on disk before it is acknowledged survives the power of all replicas; anything rarer promises "
        "nothing.",
    ),
    Order(
        LOSSES,
        "replication_factor",
        lambda settings: settings.replication_factor,
        "replication.factor=1 < 2 < 3",
        "The same disturbances hurt no more with more replicas; what changes is how easily they come about.",
    ),
    Order(
        tuple(Anomaly),
        "enable_idempotence",
        lambda settings: settings.enable_idempotence,
        "enable.idempotence=false < true",
        "The broker discards what a retry sends twice, and refuses what comes too early. Nothing gets worse.",
    ),
    Order(
        COPIES,
        "retries",
        lambda settings: -min(settings.retries, 1),
        "retries > 0 < retries=0",
        "More retries permit more duplicates and another order. The price of none is what fails.",
    ),
    Order(
        COPIES,
        "max_in_flight",
        lambda settings: -min(settings.max_in_flight, 2),
        "max.in.flight > 1 < max.in.flight=1",
        "What is not in flight cannot overtake. With librdkafka one in flight is less than a guarantee of order.",
    ),
    Order(
        subset("only what is let go of too early is skipped", (Anomaly.SKIPPED,)),
        "discipline",
        lambda settings: 2 if settings.discipline is None else settings.discipline not in EARLY,
        "at_handover = commit_first = transform_first < any other < no application",
        "A consumer that commits only what is applied skips nothing in a crash. The price is what is applied again.",
    ),
    Order(
        subset("only what is committed too early is overtaken; of own, it is not known", (Anomaly.OVERTAKEN,)),
        "discipline",
        _order_of_effects,
        "own < at_handover = commit_first = transform_first < any other < no application",
        "A consumer that commits only what is applied applies in order, even after a crash. Of own, it is not checked.",
    ),
    Order(
        subset("only what is committed too late is applied again", (Anomaly.REAPPLIED,)),
        "discipline",
        lambda settings: _rank(settings.discipline, _AGAINST_ZOMBIES),
        "any other < transform_assigned < transform_transactional < transform_fenced < commit_first < transform_first "
        "< database_compared < no application",
        "A consumer that commits before applying applies nothing twice in a crash or behind a zombie. "
        "The price is what is "
        "skipped, unless a database compares the offset. A transaction needs stable offsets for that.",
    ),
    Order(
        subset("only what a group gives again is applied again", (Anomaly.REAPPLIED,)),
        "discipline",
        lambda settings: _rank(settings.discipline, _AGAINST_REWINDS),
        "any other < database_together < database_compared < no application",
        "A consumer that keeps the offset in the transaction of the effects applies nothing twice "
        "in a crash, nor where an "
        "operator sets the group back.",
    ),
    Order(
        subset("a ghost needs an application, whatever its discipline", (Anomaly.GHOST,)),
        "discipline",
        lambda settings: settings.discipline is None,
        "an application < no application",
        "Without an application nothing is applied, so no ghost either.",
    ),
    Order(
        subset(
            "what is aborted can be applied, and an offset that is not stable repeated",
            (Anomaly.GHOST, Anomaly.REAPPLIED),
        ),
        "isolation_level",
        lambda settings: settings.isolation_level == "read_committed",
        "isolation.level=read_uncommitted < read_committed",
        "A consumer that never sees what is aborted cannot apply it, and one that waits for stable offsets begins "
        "at none that moves.",
    ),
    Order(
        subset("only what a group jumps over is skipped", (Anomaly.SKIPPED,)),
        "auto_offset_reset",
        lambda settings: settings.auto_offset_reset == "earliest",
        "auto.offset.reset=latest < earliest",
        "A group that starts at the beginning jumps over nothing.",
    ),
)
"""Every declared order. Two instances of Settings can be compared for an anomaly only if each field in which they
differ has an order for this anomaly, or is in `WITHOUT_EFFECT`."""

WITHOUT_EFFECT: dict[str, str] = {
    "delivery_timeout_ms": "decides how long a record is tried, so also whether it fails or is INDETERMINATE, never "
    "what is permitted",
    "request_timeout_ms": "decides how long brokers wait for replicas; a request that times out may have been written",
    "socket_timeout_ms": "decides how soon the client tries again: how often, not whether, a retry may write twice",
}
"""The fields of Settings that no rule looks at. The value for each field is the reason."""


def orders_for(anomaly: Anomaly) -> list[Order]:
    """Returns the entries of STRENGTH_ORDERS that hold for `anomaly`."""
    return [order for order in STRENGTH_ORDERS if anomaly in order.anomalies]
