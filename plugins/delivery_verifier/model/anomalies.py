"""The anomalies: what can be wrong with a record, in order of precedence, each with all that is said of it.

Terms: an *attempt* is one application-level send (arm, producer, session, sequence, attempt number). Its
*outcome* is what the client was told. *Reported* means ACKED or SENT. A *copy* is one offset of the log that
holds the attempt; the *first copy* is the one at the lowest offset.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeVar

from delivery_verifier.model.scenario import Claim


class Anomaly(StrEnum):
    """Kinds in order of precedence: a record is a case of the first that applies.

    A later kind that applies as well is kept beside it (`also`), and is judged too: a permitted duplicate must
    not hide a forbidden reordering (docs/adr/0002).
    """

    CORRUPTED = "CORRUPTED"
    PHANTOM = "PHANTOM"
    LOST = "LOST"
    DUPLICATED = "DUPLICATED"
    RESENT = "RESENT"
    MISPLACED = "MISPLACED"
    REORDERED = "REORDERED"
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    TORN = "TORN"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyKind:
    """Everything that is said of one anomaly, but how it is detected, planted and permitted."""

    definition: str
    """What makes a record a case."""
    name: str
    """The name for people, e.g. `Out of order`."""
    participle: str
    """What its records are, behind their number in a sentence: `3 lost`."""
    record_that_is: str
    """What one case is, as the end of `a record that is ...`."""
    promise: str
    """What Kafka promises where no rule permits the anomaly."""
    promised_by: str
    """Who promises it: a KIP, or Kafka's documentation."""
    expectation: str
    """The class of its expectation in Great Expectations; the suites name it in snake_case."""
    share_of: str
    """The column of the books that its count is a share of."""
    telling: int
    """Its rank among stories: 1 is the most telling. No two kinds share a rank."""
    permitted_with: Literal["losses", "retries", "resends", "nothing"]
    """What permits it: what permits losses; what makes the client write again; that an application sends again; no
    rule at all."""
    forbidden_by: tuple[Claim, ...] = ()
    """The claims that forbid it where the settings permit it."""
    transactional: bool = False
    """Whether only records of transactions can be cases."""
    can_be_hidden: bool = False
    """Whether a kind of higher precedence can hide it on the same attempt; `also_<kind>` columns count these cases."""


KINDS: dict[Anomaly, AnomalyKind] = {
    Anomaly.CORRUPTED: AnomalyKind(
        definition="The checksum differs. If its (partition, offset) matches an acknowledgement it belongs to that "
        "attempt, which is then found; otherwise it is unattributed.",
        name="Damaged",
        participle="corrupted",
        record_that_is="damaged",
        promise="What is in the log must be what was sent, whatever the settings.",
        promised_by="Apache Kafka documentation, implementation: record batches carry a CRC-32C",
        expectation="ExpectNoCorruptedRecords",
        share_of="log_records",
        telling=4,
        permitted_with="nothing",
    ),
    Anomaly.PHANTOM: AnomalyKind(
        definition="In the log, but never attempted, or attempted and FAILED.",
        name="There, but never sent",
        participle="never sent",
        record_that_is="in the log though nobody sent it",
        promise="No setting lets Kafka write what nobody sent, or what was certainly refused.",
        promised_by="KIP-98; classification of outcomes in docs/anomalies.md",
        expectation="ExpectNoPhantomRecords",
        share_of="log_records",
        telling=7,
        permitted_with="nothing",
    ),
    Anomaly.LOST: AnomalyKind(
        definition="Reported, and at no offset of the log.",
        name="Lost",
        participle="lost",
        record_that_is="reported as delivered and missing from the log",
        promise="An acknowledged record stays in the log while one in-sync replica lives.",
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
        promise="Nothing seen in this run gives these settings a reason to write a record twice.",
        promised_by="KIP-98, idempotent producer guarantees; Apache Kafka documentation, producer configurations: "
        "retries",
        expectation="ExpectNoDuplicatedRecords",
        share_of="attempted",
        telling=5,
        permitted_with="retries",
        forbidden_by=("at_most_once", "exactly_once"),
    ),
    Anomaly.RESENT: AnomalyKind(
        definition="One of several attempts of the same sequence that are all in the log.",
        name="Sent again by the application",
        participle="resent",
        record_that_is="in the log once more because the application sent it again",
        promise="The claim asks that each sequence is in the log once, also across the application's own resends.",
        promised_by="the claim",
        expectation="ExpectNoResentRecords",
        share_of="attempted",
        telling=9,
        permitted_with="resends",
        forbidden_by=("exactly_once",),
        can_be_hidden=True,
    ),
    Anomaly.MISPLACED: AnomalyKind(
        definition="Acknowledged with an offset and present, but no copy stands at that offset.",
        name="Not at the acknowledged offset",
        participle="misplaced",
        record_that_is="not at the offset that was acknowledged",
        promise="A record stands at the offset that was acknowledged.",
        promised_by="Apache Kafka documentation, design: replication (committed records keep their offset)",
        expectation="ExpectNoMisplacedRecords",
        share_of="acked",
        telling=8,
        permitted_with="losses",
        can_be_hidden=True,
    ),
    Anomaly.REORDERED: AnomalyKind(
        definition="A reported record whose first copy stands after the first copy of a reported record with a higher "
        "partition sequence (same arm, producer, session and partition). The late one is flagged.",
        name="Out of order",
        participle="out of order",
        record_that_is="in the log behind a record that was sent after it",
        promise="Records of one producer to one partition are appended in the order in which they were sent.",
        promised_by="Apache Kafka documentation, introduction: guarantees; KIP-98",
        expectation="ExpectNoReorderedRecords",
        share_of="reported",
        telling=6,
        permitted_with="retries",
        forbidden_by=("ordered",),
        can_be_hidden=True,
    ),
    Anomaly.ABORTED_VISIBLE: AnomalyKind(
        definition="In the committed view (read_committed), though its transaction was ABORTED.",
        name="Aborted, and yet visible",
        participle="visible to read_committed consumers though their transaction was aborted",
        record_that_is="visible to read_committed consumers though its transaction was aborted",
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
}
"""Every anomaly, in order of precedence."""

TRANSACTIONAL = tuple(anomaly for anomaly, kind in KINDS.items() if kind.transactional)
"""Kinds of which only records of transactions can be cases."""

SECONDARY = tuple(anomaly for anomaly, kind in KINDS.items() if kind.can_be_hidden)
"""Kinds that a kind of higher precedence can hide on the same attempt; counted in `also_<kind>` columns."""

Table = TypeVar("Table", bound=Collection[object])


def subset(reason: str, table: Table) -> Table:
    """`table` as it is. Every table of anomalies that does not name all of them says here why not.

    tests/unit/model/test_whole_tables.py reads the sources, and fails for a table that is neither whole nor declared.
    """
    if not reason.strip():
        raise ValueError(f"the subset {table!r} gives no reason")
    return table


def column(anomaly: Anomaly) -> str:
    """Name of the anomaly's column in the books, e.g. `lost`."""
    return anomaly.value.lower()


def also_column(anomaly: Anomaly) -> str:
    """Column that counts cases of `anomaly` which appear under a kind of higher precedence."""
    return f"also_{column(anomaly)}"
