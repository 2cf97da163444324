"""The promises: why an anomaly is forbidden where no rule permits it."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.anomalies import Anomaly


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
        "A read_committed consumer never sees a record of a transaction that was aborted.",
        "KIP-98, transactional guarantees; KIP-890 (what it closes for clients with transaction version 2)",
    ),
    Anomaly.TORN: Promise(
        "torn.never",
        "A transaction is seen whole or not at all, in all of its partitions: of a committed "
        "transaction, a read_committed consumer sees every record.",
        "KIP-98, atomicity; KIP-890 (what it closes for clients with transaction version 2)",
    ),
}
