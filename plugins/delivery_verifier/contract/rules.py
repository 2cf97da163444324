"""The rules of the contract: what excuses an anomaly, under which settings, and who says so.

What no rule permits is forbidden. Where behaviour was measured and differs from the documentation, the rule follows
behaviour and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import TRANSACTIONAL, Anomaly, subset
from delivery_verifier.model.history import Disturbance, DisturbanceKind

ELECTIONS: tuple[DisturbanceKind, ...] = ("leader_change", "unclean_election")


def _always(_it: Settings, _found: Disturbance) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ContractRule:
    """`anomaly` is permitted where `applies` holds and a disturbance of `kinds` was seen that `far_enough` as far as
    needed.

    Empty `kinds`: permitted on a quiet day, too. `also_required`: kinds that must have been seen as well, each of them.
    `condition` says in words what `applies` computes, `far_enough_text` what `far_enough` does.
    """

    id: str
    anomaly: Anomaly
    condition: str
    applies: Callable[[Settings], bool]
    kinds: tuple[DisturbanceKind, ...]
    sentence: str
    source: str
    also_required: tuple[DisturbanceKind, ...] = ()
    far_enough: Callable[[Settings, Disturbance], bool] = _always
    far_enough_text: str = ""


_PRODUCER_DOCS = "Apache Kafka documentation, producer configurations"
_TOPIC_DOCS = "Apache Kafka documentation, topic configurations"
_MEASURED = "measured on Kafka 4.3.1"


def _unflushed(it: Settings) -> bool:
    """Whether an acknowledged record may be in page caches only."""
    return it.acks != "0" and it.flush_messages > 1


_LOSSES: tuple[ContractRule, ...] = (
    ContractRule(
        id="lost.acks_0",
        anomaly=Anomaly.LOST,
        condition="acks=0",
        applies=lambda it: it.acks == "0",
        kinds=(),
        sentence="With acks=0 nobody confirms that a record arrived: it may be lost at any time, without any fault.",
        source=f"{_PRODUCER_DOCS}: acks",
    ),
    ContractRule(
        id="lost.acks_1",
        anomaly=Anomaly.LOST,
        condition="acks=1",
        applies=lambda it: it.acks == "1",
        kinds=ELECTIONS,
        sentence="With acks=1 the leader alone confirms: what its successor had not yet copied is cut off when the "
        "leader changes, in a graceful rolling restart and in a preferred leader election, too. A leader "
        "that is cut off from the others goes on confirming until it learns of its successor.",
        source=f"{_PRODUCER_DOCS}: acks; {_MEASURED} (the documentation speaks of failures only)",
    ),
    ContractRule(
        id="lost.unclean",
        anomaly=Anomaly.LOST,
        condition="acks=all, unclean.leader.election.enable=true",
        applies=lambda it: it.acks == "all" and it.unclean_leader_election,
        kinds=("unclean_election",),
        sentence="A leader elected from outside the ISR does not have all acknowledged records, and the others "
        "follow it.",
        source=f"{_TOPIC_DOCS}: unclean.leader.election.enable; KIP-106",
    ),
    ContractRule(
        id="lost.unclean_request",
        anomaly=Anomaly.LOST,
        condition="acks=all",
        applies=lambda it: it.acks == "all",
        kinds=("unclean_election",),
        also_required=("unclean_request",),
        sentence="An operator who asks for an unclean election gets it, whatever the topic says of unclean elections "
        "and of min.insync.replicas: acknowledged records that only the absent replicas have are given up.",
        source=f"KIP-460 (ElectLeaders, UNCLEAN); {_MEASURED}",
    ),
    ContractRule(
        id="lost.min_isr_1",
        anomaly=Anomaly.LOST,
        condition="acks=1 or all, min.insync.replicas=1, flush.messages > 1",
        applies=lambda it: _unflushed(it) and it.min_insync_replicas < 2,
        kinds=("isr_power_loss",),
        sentence="With min.insync.replicas=1 a single broker may confirm on behalf of all, and what it has not "
        "flushed goes with its power.",
        source=f"{_TOPIC_DOCS}: min.insync.replicas, flush.messages; KIP-966",
    ),
    ContractRule(
        id="lost.power_of_all",
        anomaly=Anomaly.LOST,
        condition="acks=1 or all, flush.messages > 1",
        applies=_unflushed,
        kinds=("isr_power_loss",),
        far_enough=lambda it, found: found.replicas >= it.min_insync_replicas,
        far_enough_text="of at least min.insync.replicas that were in sync together",
        sentence="An acknowledged record is in the memory of all in-sync replicas and on no disk yet: when all of "
        "them lose power, it is gone. While one of them keeps its power, nothing is lost.",
        source=f"Apache Kafka documentation, operations: application vs. OS flush management; {_MEASURED}",
    ),
    ContractRule(
        id="lost.power_of_last",
        anomaly=Anomaly.LOST,
        condition="acks=1 or all, flush.messages > 1, no eligible leader replicas (before Kafka 4.1, or switched off)",
        applies=lambda it: _unflushed(it) and not it.elr,
        kinds=("isr_power_loss",),
        sentence="The last replica standing is elected again though it lost power, and the others cut off what it no "
        "longer has. Eligible leader replicas prevent that.",
        source=f"KIP-966; {_MEASURED}",
    ),
)


_WEAK_ACKS = ("lost.acks_0", "lost.acks_1")  # no loss of a transactional producer: it is idempotent, hence acks=all


def _misplaced(loss: ContractRule) -> ContractRule:
    """The same excuse for MISPLACED: the acknowledged copy of a retry is cut off while an earlier one survives."""
    return replace(
        loss,
        id=loss.id.replace("lost.", "misplaced."),
        anomaly=Anomaly.MISPLACED,
        sentence="Where a record may be lost, the copy that was acknowledged may be, while another copy survives.",
        source=f"follows from {loss.id}",
    )


def _in_transactions(loss: ContractRule, anomaly: Anomaly) -> ContractRule:
    """The same excuse for what transactions promise: their markers are records of the log, and are lost with others."""
    return replace(
        loss,
        id=loss.id.replace("lost.", f"{anomaly.value.lower()}."),
        anomaly=anomaly,
        condition=f"transactional.id, {loss.condition}",
        applies=lambda it: bool(it.transactional_id) and loss.applies(it),
        sentence=_WITHOUT[anomaly],
        source=f"follows from {loss.id}",
    )


_WITHOUT = subset(
    "only transactions lose markers: these are the transactional kinds",
    {
        Anomaly.TORN: "Where a record may be lost, one of a committed transaction may be, or the marker that committed "
        "it.",
        Anomaly.ABORTED_VISIBLE: "Where a record may be lost, the marker that aborted a transaction may be: what "
        "remains of it is then committed with the producer's next transaction.",
    },
)


def _retries_unchecked(it: Settings) -> bool:
    return it.acks != "0" and not it.enable_idempotence and it.retries > 0


_RETRIES: tuple[ContractRule, ...] = (
    ContractRule(
        id="duplicated.retries",
        anomaly=Anomaly.DUPLICATED,
        condition="acks=1 or all, enable.idempotence=false, retries > 0",
        applies=_retries_unchecked,
        kinds=(),
        sentence="A retry whose first try did arrive is written twice: without idempotence the broker cannot know. A "
        "lost connection is enough for a retry, and no broker need be disturbed for that.",
        source=f"{_PRODUCER_DOCS}: retries, enable.idempotence; KIP-98",
    ),
    ContractRule(
        id="reordered.retries",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries > 0, max.in.flight > 1",
        applies=lambda it: _retries_unchecked(it) and it.max_in_flight > 1,
        kinds=(),
        sentence="A retried batch can be overtaken by one that was in flight behind it; a lost connection is enough "
        "for a retry.",
        source=f"{_PRODUCER_DOCS}: max.in.flight.requests.per.connection",
    ),
    ContractRule(
        id="reordered.one_in_flight",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries > 0, max.in.flight = 1",
        applies=lambda it: _retries_unchecked(it) and it.max_in_flight == 1,
        kinds=(*ELECTIONS, "isr_shrink"),
        sentence="One request in flight is no guarantee of order: the limit is per connection, so that a new leader "
        "receives new records before the old one's are retried, and librdkafka's next request is already built "
        "when a refused one waits for its retry.",
        source=f"librdkafka issue 1092; {_MEASURED} (the documentation promises order, we follow behaviour)",
    ),
)


def _resent_uncounted(it: Settings) -> bool:
    return it.acks != "0" and not it.enable_idempotence and it.retries == 0


_REQUEUED = (
    "librdkafka: rd_kafka_handle_Produce_error (a refused request is sent again without being counted as a retry)"
)
_WITHOUT_RETRIES: tuple[ContractRule, ...] = (
    ContractRule(
        id="duplicated.requeued",
        anomaly=Anomaly.DUPLICATED,
        condition="acks=1 or all, enable.idempotence=false, retries=0",
        applies=_resent_uncounted,
        kinds=ELECTIONS,
        sentence="retries=0 does not keep librdkafka from sending again what a broker refused because it no longer "
        "leads; that broker may have written it before.",
        source=_REQUEUED,
    ),
    ContractRule(
        id="reordered.requeued",
        anomaly=Anomaly.REORDERED,
        condition="acks=1 or all, enable.idempotence=false, retries=0",
        applies=_resent_uncounted,
        kinds=ELECTIONS,
        sentence="What is sent again to a new leader can be overtaken by what was sent to it first.",
        source=_REQUEUED,
    ),
)

_APPLICATION = ContractRule(
    id="resent.application",
    anomaly=Anomaly.RESENT,
    condition="any settings",
    applies=lambda it: True,
    kinds=(),
    sentence="Kafka recognises what the client retries, not what the application sends again: that is a new record.",
    source="KIP-98: the idempotent producer's guarantee covers one session and no resends by the application",
)

_TRANSACTIONS = tuple(
    _in_transactions(loss, it) for it in TRANSACTIONAL for loss in _LOSSES if loss.id not in _WEAK_ACKS
)

RULES: tuple[ContractRule, ...] = (
    *_LOSSES,
    *(_misplaced(loss) for loss in _LOSSES),
    *_RETRIES,
    *_WITHOUT_RETRIES,
    _APPLICATION,
    *_TRANSACTIONS,
)


@dataclass(frozen=True, slots=True)
class Promise:
    """Why an anomaly is forbidden where no rule permits it."""

    id: str
    sentence: str
    source: str


PROMISES: dict[Anomaly, Promise] = {
    Anomaly.CORRUPTED: Promise(
        "corrupted.never",
        "What is in the log must be what was sent, whatever the settings.",
        "Apache Kafka documentation, implementation: record batches carry a CRC-32C",
    ),
    Anomaly.PHANTOM: Promise(
        "phantom.never",
        "No setting lets Kafka write what nobody sent, or what was certainly refused.",
        "KIP-98; classification of outcomes in docs/anomalies.md",
    ),
    Anomaly.LOST: Promise(
        "lost.never",
        "An acknowledged record stays in the log while one in-sync replica lives.",
        "Apache Kafka documentation, design: replication, availability and durability guarantees",
    ),
    Anomaly.DUPLICATED: Promise(
        "duplicated.never",
        "Nothing seen in this run gives these settings a reason to write a record twice.",
        "KIP-98, idempotent producer guarantees; Apache Kafka documentation, producer configurations: retries",
    ),
    Anomaly.RESENT: Promise(
        "resent.never",
        "The claim asks that each sequence is in the log once, also across the application's own resends.",
        "the claim",
    ),
    Anomaly.MISPLACED: Promise(
        "misplaced.never",
        "A record stands at the offset that was acknowledged.",
        "Apache Kafka documentation, design: replication (committed records keep their offset)",
    ),
    Anomaly.REORDERED: Promise(
        "reordered.never",
        "Records of one producer to one partition are appended in the order in which they were sent.",
        "Apache Kafka documentation, introduction: guarantees; KIP-98",
    ),
    Anomaly.ABORTED_VISIBLE: Promise(
        "aborted_visible.never",
        "Who reads committed never sees a record of a transaction that was aborted.",
        "KIP-98, transactional guarantees; KIP-890 (what it closes for clients with transaction version 2)",
    ),
    Anomaly.TORN: Promise(
        "torn.never",
        "A transaction is seen whole or not at all, in all of its partitions: of one that was committed, who reads "
        "committed sees every record.",
        "KIP-98, atomicity; KIP-890 (what it closes for clients with transaction version 2)",
    ),
}
