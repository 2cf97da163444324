"""The rules that permit TORN and ABORTED_VISIBLE. These rules follow from the rules that permit losses."""

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


TRANSACTIONS: tuple[ContractRule, ...] = tuple(
    _in_transactions(loss, anomaly) for anomaly in TRANSACTIONAL for loss in LOST if loss.transactional
)
