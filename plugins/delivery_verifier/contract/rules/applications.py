"""The rules that permit anomalies of effects. An application may skip a record, apply it again, apply it out of order,
or apply a record that is not in the log.

An application *lets go* of a record when its group commits an offset beyond the record. Most rules depend on whether
the application lets go of a record before or after it applies the record.
"""

from __future__ import annotations

from delivery_verifier.contract.rules.rule import MEASURED, ContractRule
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly, subset
from delivery_verifier.model.application import STORED, Discipline

CONSUMER_DOCS = "Apache Kafka documentation, consumer configurations"
SEMANTICS = "Apache Kafka documentation, design: message delivery semantics"
LIBRDKAFKA_DOCS = "librdkafka: CONFIGURATION.md"

EARLY: tuple[Discipline, ...] = (
    "at_handover",
    "commit_first",
    "transform_first",
)
"""The disciplines that may let go of a record before it is applied."""
APART: tuple[Discipline, ...] = (
    "at_handover",
    "commit_after",
    "store_after",
    "transform",
    "database_apart",
)
"""The disciplines that may let go of a record after it was applied."""


def _reads_aborted(settings: Settings) -> bool:
    """Returns whether an application is handed records of aborted transactions."""
    is_uncommitted = settings.isolation_level == "read_uncommitted"
    return settings.discipline is not None and bool(settings.transactional_id) and is_uncommitted


def _reads_unstable_offsets(settings: Settings) -> bool:
    """Returns whether a member may begin at a committed offset although an open transaction may soon commit a later
    offset."""
    is_uncommitted = settings.isolation_level == "read_uncommitted"
    return settings.discipline in ("transform_transactional", "transform_assigned") and is_uncommitted


_OF_APPLICATIONS: tuple[ContractRule, ...] = (
    ContractRule(
        id="skipped.at_handover",
        anomaly=Anomaly.SKIPPED,
        condition="at_handover: enable.auto.commit=true, enable.auto.offset.store=true",
        applies=lambda settings: settings.discipline == "at_handover",
        kinds=("application_crash",),
        sentence="librdkafka's defaults store the offset of a record when it is handed over, and a timer commits it: "
        "what a killed member had in progress is committed, and is never applied.",
        source=f"{LIBRDKAFKA_DOCS}: enable.auto.offset.store; {MEASURED}",
    ),
    ContractRule(
        id="skipped.commit_first",
        anomaly=Anomaly.SKIPPED,
        condition="commit_first or transform_first",
        applies=lambda settings: settings.discipline in ("commit_first", "transform_first"),
        kinds=("application_crash",),
        sentence="A consumer that commits before applying asks for at most once: "
        "what a killed member had committed and not yet "
        "applied is never delivered again.",
        source=f"{SEMANTICS} (at most once)",
    ),
    ContractRule(
        id="skipped.reset",
        anomaly=Anomaly.SKIPPED,
        condition="an application, auto.offset.reset=latest",
        applies=lambda settings: settings.discipline is not None and settings.auto_offset_reset != "earliest",
        kinds=(),
        sentence="A group without a committed offset starts at the end of the log: what stood there before is jumped "
        "over. In a partition that is added to the topic, that is all that was written before a member had it.",
        source=f"{CONSUMER_DOCS}: auto.offset.reset",
    ),
    ContractRule(
        id="reapplied.apart",
        anomaly=Anomaly.REAPPLIED,
        condition="at_handover, commit_after, store_after, transform or database_apart",
        applies=lambda settings: settings.discipline in APART,
        kinds=(),
        sentence="Offset and effect are written apart, the effect first: what is applied and not yet committed is "
        "delivered again after a crash, and after a rebalance, for which a late heartbeat is enough.",
        source=f"{SEMANTICS} (at least once); librdkafka issue 4059; {MEASURED}",
    ),
    ContractRule(
        id="reapplied.own",
        anomaly=Anomaly.REAPPLIED,
        condition="a user application",
        applies=lambda settings: settings.discipline == "own",
        kinds=(),
        sentence="When an application of the user's own commits is unknown. Without a stronger claim it promises at "
        "least once: no record is skipped, and some may be applied again.",
        source=f"{SEMANTICS} (at least once); {MEASURED}",
    ),
    ContractRule(
        id="reapplied.unstable_offsets",
        anomaly=Anomaly.REAPPLIED,
        condition="transform_transactional or transform_assigned, isolation.level=read_uncommitted",
        applies=_reads_unstable_offsets,
        kinds=(),
        clients=("librdkafka",),
        sentence="The member that takes over begins at the group's old offset while the transaction that moves it is "
        "still open, and that transaction may be committed afterwards: librdkafka asks for stable offsets only with "
        "isolation.level=read_committed.",
        source=f"KIP-447; librdkafka: rdkafka_partition.c (require_stable_offsets); {MEASURED}",
        java="The Java client always waits until it is known whether the offsets are committed, with either "
        "isolation.level (ConsumerCoordinator.sendOffsetFetchRequest).",
    ),
    ContractRule(
        id="reapplied.rewind",
        anomaly=Anomaly.REAPPLIED,
        condition="an application whose offsets are those of its group",
        applies=lambda settings: settings.discipline is not None and settings.discipline not in STORED,
        kinds=("rewind",),
        sentence="A group that is set back is given every record from there on once more.",
        source="Apache Kafka javadoc, KafkaConsumer: controlling the consumer's position (seek)",
    ),
    ContractRule(
        id="reapplied.zombie",
        anomaly=Anomaly.REAPPLIED,
        condition="database_together or transform_assigned",
        applies=lambda settings: settings.discipline in ("database_together", "transform_assigned"),
        kinds=("application_freeze",),
        sentence="A member that stood still goes on with what it has in progress, after another process has applied "
        "the "
        "same records. Nothing refuses it: no comparison of the offset in the database, no generation of a group in "
        "which it has not subscribed, and no transactional.id that the other process shares.",
        source=f"KIP-447, motivation: zombies; {MEASURED}",
    ),
    ContractRule(
        id="ghost.uncommitted",
        anomaly=Anomaly.GHOST,
        condition="an application, isolation.level=read_uncommitted, a topic with transactions",
        applies=_reads_aborted,
        kinds=(),
        sentence="A read_uncommitted consumer is given records before their transaction ends, and also those of "
        "transactions that are aborted.",
        source=f"{CONSUMER_DOCS}: isolation.level; KIP-98",
    ),
    ContractRule(
        id="overtaken.own",
        anomaly=Anomaly.OVERTAKEN,
        condition="a user application",
        applies=lambda settings: settings.discipline == "own",
        kinds=(),
        sentence="The order of effects is not checked: an effect does not say at which offset its record stood.",
        source="follows from the form of the effects",
        measured_with=(),
    ),
    ContractRule(
        id="overtaken.rewind",
        anomaly=Anomaly.OVERTAKEN,
        condition="at_handover, commit_first or transform_first",
        applies=lambda settings: settings.discipline in EARLY,
        kinds=("rewind",),
        sentence="A group that is set back may be given for the first time what it had jumped over, behind what it has "
        "applied since.",
        source="follows from skipped.at_handover, skipped.commit_first and reapplied.rewind",
        measured_with=(),
    ),
    ContractRule(
        id="overtaken.freeze",
        anomaly=Anomaly.OVERTAKEN,
        condition="at_handover, commit_first or transform_first",
        applies=lambda settings: settings.discipline in EARLY,
        kinds=("application_freeze",),
        sentence="A member that stood still applies the rest of its batch when it goes on, behind what the member that "
        "took over has applied since: the offsets of that batch were committed.",
        source=f"KIP-62; {MEASURED}",
    ),
)

_TRUNCATED = subset(
    "only an application applies records: these are the kinds of effects",
    {
        Anomaly.SKIPPED: "What is written to offsets that the group has passed already is not delivered to it.",
        Anomaly.REAPPLIED: "A group whose offset is gone starts anew by auto.offset.reset; and committed offsets are "
        "records of __consumer_offsets, which can be lost like others.",
        Anomaly.GHOST: "Records had been consumed and applied before they were lost.",
        Anomaly.OVERTAKEN: "What is written anew stands at offsets below those that had been applied.",
    },
)


def _truncated(anomaly: Anomaly) -> ContractRule:
    """Returns the rule that permits `anomaly` after the log was cut off below its high watermark."""
    return ContractRule(
        id=f"{anomaly.value.lower()}.truncated",
        anomaly=anomaly,
        condition="an application",
        applies=lambda settings: settings.discipline is not None,
        kinds=("unclean_election", "isr_power_loss"),
        sentence=f"The log was cut off below what consumers had been given. {_TRUNCATED[anomaly]}",
        source=f"KIP-320; KIP-966; {MEASURED}",
    )


APPLICATIONS: tuple[ContractRule, ...] = (*_OF_APPLICATIONS, *(_truncated(anomaly) for anomaly in _TRUNCATED))
"""All rules about applications. No rule is about `__consumer_offsets`, because nobody observes its leaders. For the
same reason, a scenario with an application must not cut the power of brokers (`model.scenario_checks`)."""
