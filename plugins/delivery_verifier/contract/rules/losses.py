"""The rules that permit LOST and MISPLACED.

LOST: the log has no copy of a reported record. MISPLACED: one copy of a record was acknowledged. The log lacks this
copy, but has another copy of the record.
"""

from __future__ import annotations

from dataclasses import replace

from delivery_verifier.contract.rules.rule import BOTH, ELECTIONS, MEASURED, PRODUCER_DOCS, TOPIC_DOCS, ContractRule
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly


def _unflushed(settings: Settings) -> bool:
    """Returns whether brokers acknowledge a record that may still be only in their page caches, and not on any disk."""
    return settings.acks != "0" and settings.flush_messages > 1


LOST: tuple[ContractRule, ...] = (
    ContractRule(
        id="lost.acks_0",
        anomaly=Anomaly.LOST,
        condition="acks=0",
        applies=lambda settings: settings.acks == "0",
        transactional=False,
        kinds=(),
        sentence="With acks=0 no broker confirms that a record arrived: it may be lost at any time, without any fault.",
        source=f"{PRODUCER_DOCS}: acks",
        measured_with=BOTH,
    ),
    ContractRule(
        id="lost.acks_1",
        anomaly=Anomaly.LOST,
        condition="acks=1",
        applies=lambda settings: settings.acks == "1",
        transactional=False,
        kinds=ELECTIONS,
        sentence="With acks=1 the leader alone confirms: what its successor had not yet copied is cut off when the "
        "leader changes, in a graceful rolling restart and in a preferred leader election, too. A leader "
        "that is cut off from the others goes on confirming until it learns of its successor.",
        source=f"{PRODUCER_DOCS}: acks; {MEASURED} (the documentation speaks of failures only)",
        measured_with=BOTH,
    ),
    ContractRule(
        id="lost.unclean",
        anomaly=Anomaly.LOST,
        condition="acks=all, unclean.leader.election.enable=true",
        applies=lambda settings: settings.acks == "all" and settings.unclean_leader_election,
        kinds=("unclean_election",),
        sentence="A leader elected from outside the ISR does not have all acknowledged records, and the others "
        "follow it.",
        source=f"{TOPIC_DOCS}: unclean.leader.election.enable; KIP-106",
    ),
    ContractRule(
        id="lost.unclean_request",
        anomaly=Anomaly.LOST,
        condition="acks=all",
        applies=lambda settings: settings.acks == "all",
        kinds=("unclean_election",),
        also_required=("unclean_request",),
        sentence="An operator who asks for an unclean election gets it, whatever the topic says of unclean elections "
        "and of min.insync.replicas: acknowledged records that only the absent replicas have are given up.",
        source=f"KIP-460 (ElectLeaders, UNCLEAN); {MEASURED}",
    ),
    ContractRule(
        id="lost.min_isr_1",
        anomaly=Anomaly.LOST,
        condition="acks=1 or all, min.insync.replicas=1, flush.messages > 1",
        applies=lambda settings: _unflushed(settings) and settings.min_insync_replicas < 2,
        kinds=("isr_power_loss",),
        sentence="With min.insync.replicas=1 a single broker may confirm on behalf of all, and what it has not "
        "flushed goes with its power.",
        source=f"{TOPIC_DOCS}: min.insync.replicas, flush.messages; KIP-966",
    ),
    ContractRule(
        id="lost.power_of_all",
        anomaly=Anomaly.LOST,
        condition="acks=1 or all, flush.messages > 1",
        applies=_unflushed,
        kinds=("isr_power_loss",),
        far_enough=lambda settings, disturbance: disturbance.replicas >= settings.min_insync_replicas,
        far_enough_text="of at least min.insync.replicas that were in sync together",
        sentence="An acknowledged record is in the memory of all in-sync replicas and on no disk yet: when all of "
        "them lose power, it is gone. While one of them keeps its power, nothing is lost.",
        source=f"Apache Kafka documentation, operations: application vs. OS flush management; {MEASURED}",
    ),
    ContractRule(
        id="lost.power_of_last",
        anomaly=Anomaly.LOST,
        condition="acks=1 or all, flush.messages > 1, no eligible leader replicas (before Kafka 4.1, or switched off)",
        applies=lambda settings: _unflushed(settings) and not settings.elr,
        kinds=("isr_power_loss",),
        sentence="The last replica standing is elected again though it lost power, and the others cut off what it no "
        "longer has. Eligible leader replicas prevent that.",
        source=f"KIP-966; {MEASURED}",
    ),
)


def _misplaced(loss: ContractRule) -> ContractRule:
    """Returns the rule that permits MISPLACED under the conditions under which `loss` permits LOST.

    Example: a retry wrote a second copy of a record, and the offset of this second copy was acknowledged. Then the log
    is truncated between the two copies. The second copy is gone, and the first copy remains at another offset.
    """
    return replace(
        loss,
        id=loss.id.replace("lost.", "misplaced."),
        anomaly=Anomaly.MISPLACED,
        sentence="Where a record may be lost, the copy that was acknowledged may be, while another copy survives.",
        source=f"follows from {loss.id}",
        measured_with=(),
    )


MISPLACED: tuple[ContractRule, ...] = tuple(_misplaced(loss) for loss in LOST)
