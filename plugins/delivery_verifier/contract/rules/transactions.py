"""The rules that permit TORN and ABORTED_VISIBLE. Most of these rules follow from the rules that permit losses. The
others are about the transaction coordinator, which keeps the states of transactions in a log of its own."""

from __future__ import annotations

from dataclasses import replace

from delivery_verifier.contract.rules.losses import LOST
from delivery_verifier.contract.rules.rule import ContractRule
from delivery_verifier.model.anomalies import TRANSACTIONAL, Anomaly, subset

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

    The election loses no record of the arm's topic. So it excuses only TORN and ABORTED_VISIBLE. The settings of the
    arm's topic do not matter, because the topic `__transaction_state` has its own settings. Such an election happens
    only if an operator asks for it or alters `__transaction_state`.
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
    )


TRANSACTIONS: tuple[ContractRule, ...] = (
    *(_in_transactions(loss, anomaly) for anomaly in TRANSACTIONAL for loss in LOST if loss.transactional),
    *(_of_coordinator(anomaly) for anomaly in TRANSACTIONAL),
)
