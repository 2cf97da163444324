"""The rules that permit TORN and ABORTED_VISIBLE. Most of these rules follow from the rules that permit losses. The
other rules are about the transaction coordinator, which keeps the states of transactions in a log of its own."""

from __future__ import annotations

from dataclasses import replace

from delivery_verifier.contract.rules.losses import LOST
from delivery_verifier.contract.rules.rule import JAVA_SOURCE, MEASURED, ContractRule
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import TRANSACTIONAL, Anomaly, subset
from delivery_verifier.model.history import Disturbance

_SENTENCES = subset(
    "only transactions lose markers: these are the transactional kinds",
    {
        Anomaly.TORN: "Where a record may be lost, one of a committed transaction may be, or the marker that "
        "committed it.",
        Anomaly.ABORTED_VISIBLE: "Where a record may be lost, the marker that aborted a transaction may be: what "
        "remains of it is then committed with the producer's next transaction.",
    },
)


def _in_transactions(loss: ContractRule, anomaly: Anomaly) -> ContractRule:
    """Returns the rule that permits `anomaly` under the conditions under which `loss` permits LOST.

    The reason is that the markers that end transactions are records of the log, and can be lost like other records.
    """
    return replace(
        loss,
        id=loss.id.replace("lost.", f"{anomaly.value.lower()}."),
        anomaly=anomaly,
        condition=f"transactional.id, {loss.condition}",
        applies=lambda settings: bool(settings.transactional_id) and loss.applies(settings),
        sentence=_SENTENCES[anomaly],
        source=f"follows from {loss.id}",
        measured_with=(),
    )


_FORGOTTEN = subset(
    "only transactions have a coordinator: these are the transactional kinds",
    {
        Anomaly.TORN: "The coordinator confirms a commit once it is in its log, and writes the markers afterwards. A "
        "successor that lacks the entry aborts the transaction in the partitions that have no marker yet.",
        Anomaly.ABORTED_VISIBLE: "The coordinator confirms an abort once it is in its log, and writes the markers "
        "afterwards. A successor that lacks the entry takes the transaction for an open one: where there is no marker "
        "yet, it may be committed with the producer's next transaction.",
    },
)


def _of_coordinator(anomaly: Anomaly) -> ContractRule:
    """Returns the rule that permits `anomaly` after an unclean election of a transaction coordinator.

    * The rule permits only TORN and ABORTED_VISIBLE, because the election loses no record of the arm's topic.
    * The settings of the arm's topic do not matter, because the topic `__transaction_state` has its own settings. Such
      an election happens only if an operator asks for it or alters `__transaction_state`.
    * The disturbance counts only for an arm with a transactional.id that the disturbed partition keeps (see
      `disturbances_of_arm`).
    """
    return ContractRule(
        id=f"{anomaly.value.lower()}.coordinator",
        anomaly=anomaly,
        condition="transactional.id",
        applies=lambda settings: bool(settings.transactional_id),
        kinds=("unclean_coordinator_election",),
        sentence=_FORGOTTEN[anomaly],
        source="KIP-98 (the transaction log decides how a transaction ends); KIP-704 (an unclean election makes "
        "transaction coordinators inconsistent)",
        measured_with=(),
    )


def _acknowledged_by_all(settings: Settings, disturbance: Disturbance) -> bool:
    """Returns whether all replicas that had confirmed the end of a transaction lost their power.

    At least transaction.state.log.min.isr in-sync replicas confirm the log entry about the end. If fewer replicas lost
    their power, Kafka elects a replica that has the entry. This needs eligible leader replicas for the transaction log
    (see `power.isr_power_losses`). The replicas of the arm's topic do not matter.
    """
    return not settings.transaction_log_elr or disturbance.replicas >= settings.transaction_log_min_isr


def _of_coordinators_power(anomaly: Anomaly) -> ContractRule:
    """Returns the rule that permits `anomaly` if every broker in the ISR of a coordinator's log lost its power.

    Kafka writes the coordinator's log with acks=all, and leaves flushing to the operating system. The setting
    flush.messages of the arm's topic does not matter.
    """
    return ContractRule(
        id=f"{anomaly.value.lower()}.power_of_coordinator",
        anomaly=anomaly,
        condition="transactional.id",
        applies=lambda settings: bool(settings.transactional_id),
        kinds=("coordinator_power_loss",),
        far_enough=_acknowledged_by_all,
        far_enough_text="of at least transaction.state.log.min.isr that were in sync together (of any number without "
        "eligible leader replicas)",
        sentence=f"{_FORGOTTEN[anomaly]} The log of the coordinator is in the memory of its replicas, whatever "
        "flush.messages the topic has: when all of them lose power, the entry is gone.",
        source="KIP-98 (the transaction log decides how a transaction ends); Kafka: TransactionLog (acks=-1, no flush "
        "interval of its own); Apache Kafka documentation, operations: application vs. OS flush management",
        measured_with=(),
    )


_LATE = subset(
    "only transactions have an end: these are the transactional kinds",
    {
        Anomaly.TORN: "If librdkafka gets no answer to its abort, it asks again, and begins its next transaction. The "
        "request that was late then aborts this one, as far as it has come: its producer id and epoch are the same. If "
        "the client goes on to a partition that is new in the transaction, the coordinator opens another one under "
        "it, and its commit succeeds: without the records before.",
        Anomaly.ABORTED_VISIBLE: "If librdkafka gets no answer to its commit, it asks again, and begins its next "
        "transaction. The request that was late then commits this one, as far as it has come: its producer id and "
        "epoch are the same. If the client goes on to a partition that is new in the transaction, the coordinator "
        "opens another one under it, and its abort succeeds: for the records behind.",
    },
)


def _of_late_end(anomaly: Anomaly) -> ContractRule:
    """Returns the rule that permits `anomaly` after an EndTxn request (it ends a transaction) reached its coordinator
    late."""
    return ContractRule(
        id=f"{anomaly.value.lower()}.late_end",
        anomaly=anomaly,
        condition="transactional.id",
        versions="librdkafka, and Java before 4.0",
        applies=lambda settings: not settings.ends_are_fenced and bool(settings.transactional_id),
        kinds=("late_end",),
        sentence=_LATE[anomaly],
        source="KAFKA-17754; Jepsen, Bufstream 0.1.0 (aborted reads and torn transactions in Kafka itself); librdkafka "
        f"issue 5423 (it does not speak KIP-890 yet); {MEASURED} with librdkafka 2.16 (the documentation promises "
        "atomicity, we follow behaviour)",
        java="The Java client since 4.0 speaks version 2 of transactions (KIP-890), the default of new clusters "
        "since 4.0. Every end of a transaction raises the producer epoch, and the late request is refused "
        f"(PRODUCER_FENCED or INVALID_PRODUCER_EPOCH; {JAVA_SOURCE}). Before 4.0 it speaks version 1, as librdkafka "
        "does.",
    )


TRANSACTIONS: tuple[ContractRule, ...] = (
    *(_in_transactions(loss, anomaly) for anomaly in TRANSACTIONAL for loss in LOST if loss.transactional),
    *(_of_coordinator(anomaly) for anomaly in TRANSACTIONAL),
    *(_of_coordinators_power(anomaly) for anomaly in TRANSACTIONAL),
    *(_of_late_end(anomaly) for anomaly in TRANSACTIONAL),
)
