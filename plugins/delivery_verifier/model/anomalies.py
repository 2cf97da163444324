"""The anomalies: what can be wrong with a record. Each anomaly has its definition and its words for people.

* A *sequence* is the number that a producer gives to a message.
* An *attempt* is one send of a message by the application, which may send the same message again. Arm, producer,
  session (a number, always 0), sequence and attempt number identify an attempt.
* The *outcome* of an attempt is what the client was told about the attempt. An attempt is *reported* if its outcome is
  ACKED or SENT.
* A *copy* of an attempt is a record in the log that belongs to the attempt. The *first copy* is the copy at the lowest
  offset.
* A *case* is one attempt that shows an anomaly, or one record that shows an anomaly and that nobody sent.
* The *counts* are the tables in which the run counts attempts, records and cases.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

from delivery_verifier.model import kinds_of_effects
from delivery_verifier.model.anomaly_kind import AnomalyKind


class Anomaly(StrEnum):
    """A kind of anomaly. The members stand in order of precedence: a record is a case of the first kind that applies.

    Further kinds may apply to the record. If such a kind is in SECONDARY, it stands in the column `also` of the case.
    The judge judges the first kind and the kinds in `also`, so that a permitted duplicate cannot hide a forbidden
    reordering (docs/adr/0002).

    The last four members are the kinds of effects. They have a precedence of their own, apart from the other kinds. So
    a record can be a case of two kinds: one kind of the log and one kind of effects (docs/adr/0015).
    """

    CORRUPTED = "CORRUPTED"
    MISROUTED = "MISROUTED"
    PHANTOM = "PHANTOM"
    LOST = "LOST"
    DUPLICATED = "DUPLICATED"
    RESENT = "RESENT"
    MISPLACED = "MISPLACED"
    REORDERED = "REORDERED"
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    TORN = "TORN"
    SKIPPED = "SKIPPED"
    REAPPLIED = "REAPPLIED"
    GHOST = "GHOST"
    OVERTAKEN = "OVERTAKEN"


KINDS: dict[Anomaly, AnomalyKind] = {
    Anomaly.CORRUPTED: AnomalyKind(
        definition="The checksum differs, of the record or of its whole batch. If its (partition, offset) matches an "
        "acknowledgement it belongs to that attempt, which is then found; otherwise it is unattributed. Bytes without "
        "any trace of a record of this run, at an offset that was never acknowledged, are a foreign writer's: a "
        "doubt, and "
        "no case.",
        name="Damaged",
        participle="corrupted",
        record_that_is="damaged",
        records_that_are="damaged",
        promise="What is in the log must be what was sent, whatever the settings.",
        promised_by="Apache Kafka documentation, implementation: record batches carry a CRC-32C",
        expectation="ExpectNoCorruptedRecords",
        share_of="log_records",
        telling=4,
        permitted_with="nothing",
    ),
    Anomaly.MISROUTED: AnomalyKind(
        definition="A record of ours that stands in a partition to which it was not sent, or in the topic of another "
        "arm of the run. It needs no acknowledgement, and a copy in the right partition does not make it right. What "
        "FAILED was sent nowhere: it is PHANTOM in any partition of its topic.",
        name="In a wrong partition or topic",
        participle="misrouted",
        record_that_is="in a partition or topic to which it was not sent",
        records_that_are="in a partition or topic to which they were not sent",
        promise="A Produce request names topic and partition of its records. No setting lets them stand elsewhere.",
        promised_by="Kafka protocol: Produce requests; CVE-2026-35554, KAFKA-19012 (a client that broke it)",
        expectation="ExpectNoMisroutedRecords",
        share_of="log_records",
        telling=5,
        permitted_with="nothing",
    ),
    Anomaly.PHANTOM: AnomalyKind(
        definition="In the log, but never attempted, or attempted and FAILED.",
        name="There, but never sent",
        participle="never sent",
        record_that_is="in the log though it was never sent",
        records_that_are="in the log though they were never sent",
        promise="No setting lets Kafka write what was never sent, or what was certainly refused.",
        promised_by="KIP-98; classification of outcomes in docs/anomalies.md",
        expectation="ExpectNoPhantomRecords",
        share_of="log_records",
        telling=8,
        permitted_with="nothing",
    ),
    Anomaly.LOST: AnomalyKind(
        definition="Reported, and at no offset of the log.",
        name="Lost",
        participle="lost",
        record_that_is="reported as delivered and missing from the log",
        records_that_are="missing from the log",
        promise="An acknowledged record stays in the log while one in-sync replica keeps its log. A killed broker "
        "keeps it.",
        promised_by="Apache Kafka documentation, design: replication, availability and durability guarantees",
        expectation="ExpectNoLostRecords",
        share_of="reported",
        telling=1,
        permitted_with="losses",
        forbidden_by=("at_least_once", "exactly_once"),
    ),
    Anomaly.DUPLICATED: AnomalyKind(
        definition="One attempt at more than one offset, whatever its outcome.",
        name="Written more than once",
        participle="duplicated",
        record_that_is="written more than once",
        records_that_are="in the log more than once",
        promise="No disturbance of this run gives these settings a reason to write a record twice.",
        promised_by="KIP-98, idempotent producer guarantees; Apache Kafka documentation, producer configurations: "
        "retries",
        expectation="ExpectNoDuplicatedRecords",
        share_of="attempted",
        telling=6,
        permitted_with="retries",
        forbidden_by=("at_most_once", "exactly_once"),
    ),
    Anomaly.RESENT: AnomalyKind(
        definition="One of several attempts of the same sequence that are all in the log.",
        name="Sent again by the application",
        participle="resent",
        record_that_is="in the log once more because the application sent it again",
        records_that_are="in the log once more because the application sent them again",
        promise="The claim asks that each sequence is in the log once, also across the application's own resends.",
        promised_by="the claim",
        expectation="ExpectNoResentRecords",
        share_of="attempted",
        telling=10,
        permitted_with="resends",
        forbidden_by=("exactly_once",),
        can_be_hidden=True,
    ),
    Anomaly.MISPLACED: AnomalyKind(
        definition="Acknowledged with an offset and present, but no copy stands at that offset.",
        name="Not at the acknowledged offset",
        participle="misplaced",
        record_that_is="not at the offset that was acknowledged",
        records_that_are="not at the offsets that were acknowledged",
        promise="A record stands at the offset that was acknowledged.",
        promised_by="Apache Kafka documentation, design: replication (committed records keep their offset)",
        expectation="ExpectNoMisplacedRecords",
        share_of="acked",
        telling=9,
        permitted_with="losses",
        can_be_hidden=True,
    ),
    Anomaly.REORDERED: AnomalyKind(
        definition="A reported record whose first copy stands after the first copy of a reported record with a higher "
        "partition sequence (same arm, producer, session and partition). The late one is flagged. An INDETERMINATE "
        "attempt counts (as `resolved_late`) only where brokers must refuse it: idempotence, no producer killed.",
        name="Out of order",
        participle="out of order",
        record_that_is="in the log behind a record that was sent after it",
        records_that_are="in the log behind records that were sent after them",
        promise="Records of one producer to one partition are appended in the order in which they were sent.",
        promised_by="Apache Kafka documentation, introduction: guarantees; KIP-98",
        expectation="ExpectNoReorderedRecords",
        share_of="reported",
        telling=7,
        permitted_with="retries",
        forbidden_by=("ordered",),
        can_be_hidden=True,
    ),
    Anomaly.ABORTED_VISIBLE: AnomalyKind(
        definition="In the committed view (read_committed), though its transaction was ABORTED.",
        name="Aborted, and yet visible",
        participle="visible to read_committed consumers though their transaction was aborted",
        record_that_is="visible to read_committed consumers though its transaction was aborted",
        records_that_are="visible to read_committed consumers though their transactions were aborted",
        promise="A read_committed consumer never sees a record of a transaction that was aborted.",
        promised_by="KIP-98, transactional guarantees; KIP-890 (what it closes for clients with transaction version 2)",
        expectation="ExpectNoAbortedRecordsToBeVisible",
        share_of="attempted",
        telling=3,
        permitted_with="losses",
        forbidden_by=("exactly_once",),
        transactional=True,
        can_be_hidden=True,
    ),
    Anomaly.TORN: AnomalyKind(
        definition="Of a transaction that was COMMITTED, or of which other records are in the committed view though "
        "nobody knows how it ended, and not in the committed view itself.",
        name="Torn out of its transaction",
        participle="torn from their committed transaction",
        record_that_is="missing for read_committed consumers though its transaction was committed",
        records_that_are="missing for read_committed consumers though their transactions were committed",
        promise="A transaction is seen whole or not at all, in all of its partitions: of a committed transaction, a "
        "read_committed consumer sees every record.",
        promised_by="KIP-98, atomicity; KIP-890 (what it closes for clients with transaction version 2)",
        expectation="ExpectNoTornTransactions",
        share_of="attempted",
        telling=2,
        permitted_with="losses",
        forbidden_by=("at_least_once", "exactly_once"),
        transactional=True,
        can_be_hidden=True,
    ),
    Anomaly.SKIPPED: kinds_of_effects.SKIPPED,
    Anomaly.REAPPLIED: kinds_of_effects.REAPPLIED,
    Anomaly.GHOST: kinds_of_effects.GHOST,
    Anomaly.OVERTAKEN: kinds_of_effects.OVERTAKEN,
}
"""Maps every anomaly to its definition and its words for people, in order of precedence."""

TRANSACTIONAL = tuple(anomaly for anomaly, kind in KINDS.items() if kind.transactional)
"""The kinds of anomaly that only records of transactions can show."""

EFFECTS = tuple(anomaly for anomaly, kind in KINDS.items() if kind.of_effects)
"""The kinds of effects: only records of an arm with an application can be cases."""

SECONDARY = tuple(anomaly for anomaly, kind in KINDS.items() if kind.can_be_hidden)
"""The kinds of anomaly that are counted even if the attempt is already a case of a kind of higher precedence. Each of
these kinds has a column `also_<kind>` in the counts."""

Table = TypeVar("Table", bound=Collection[object])


def subset(reason: str, table: Table) -> Table:
    """Returns `table` unchanged. The call tells readers that `table` leaves out anomalies on purpose.

    `table` is a collection that names some anomalies, but not all. `reason` says why the other anomalies are left out.
    Raises ValueError if `reason` is empty.

    Reason for the call: when an anomaly is added, nobody should forget a table that must name it. The test
    tests/unit/test_architecture.py fails for each incomplete table that is not passed to this function.
    """
    if not reason.strip():
        raise ValueError(f"the subset {table!r} gives no reason")
    return table


def searched_for(applied: bool) -> tuple[Anomaly, ...]:
    """Returns the anomalies that the verifier searches for in a run, in order of precedence.

    `applied`: whether an arm of the run has an application. If no arm has one, the kinds of effects are left out.

    For each of these anomalies, and for no other, a run must have columns in the counts, cases in the canary, and
    evaluations by Great Expectations.
    """
    return tuple(anomaly for anomaly, kind in KINDS.items() if applied or not kind.of_effects)


def column(anomaly: Anomaly) -> str:
    """Returns the name of the anomaly's column in the counts, e.g. `lost`."""
    return anomaly.value.lower()


def also_column(anomaly: Anomaly) -> str:
    """Returns the name of a column of the counts. The column counts the attempts that show `anomaly`, but are cases of
    another anomaly, which has a higher precedence."""
    return f"also_{column(anomaly)}"
