"""The table of the cases, in anomalies/."""

from __future__ import annotations

from delivery_verifier.run_directory.table import ARM, Column, Table

ANOMALIES = Table(
    "anomalies",
    "anomalies/cases.parquet",
    "one case with its evidence, at most 10,000 per arm and kind",
    (
        ARM,
        Column("kind", "string", "kind of the anomaly, the first in precedence that applies"),
        Column("also", "list<string>", "kinds of lower precedence that apply as well"),
        Column("producer", "int32", "the attempt's, or by the record's header", nullable=True),
        Column("session", "int32", "the attempt's, or by the record's header", nullable=True),
        Column("sequence", "int64", "the attempt's, or by the record's header", nullable=True),
        Column("attempt", "int32", "the attempt's, or by the record's header", nullable=True),
        Column("partition", "int32", "partition of the attempt, or of the record that was never sent", nullable=True),
        Column("partition_sequence", "int64", "the attempt's, or by the record's header", nullable=True),
        Column("outcome", "string", "outcome in the ledger; null where no attempt is known", nullable=True),
        Column("acked_offset", "int64", "the acknowledged offset, if any", nullable=True),
        Column("offsets", "list<int64>", "offsets of all copies in the log, ascending", nullable=True),
        Column("partitions", "list<int64>", "the partition of each of these copies", nullable=True),
        Column("sent_at", "timestamp", "as in the ledger", True, "UTC, µs"),
        Column("settled_at", "timestamp", "as in the ledger", True, "UTC, µs"),
        Column("error", "string", "as in the ledger", nullable=True),
        Column("detail", "string", "the case in words", nullable=True),
        Column(
            "overwritten",
            "boolean",
            "whether the log was provably written anew at the acknowledged offset. Then another attempt was "
            "acknowledged there and stands there. Or a record stands before it that was sent after this one had been "
            "settled, or behind it one that had been settled before this one was sent. Null where no offset was "
            "acknowledged, or a copy stands there",
            nullable=True,
        ),
        Column(
            "appended_after",
            "timestamp",
            "when a record was sent that was acknowledged before a copy in the log: that copy was appended later. The "
            "latest such time among the records near the copies; null if there is none",
            True,
            "UTC, µs",
        ),
        Column(
            "appended_before",
            "timestamp",
            "when a record was settled that was acknowledged behind a copy in the log: that copy was appended earlier. "
            "The earliest such time among the records near the copies; null if there is none",
            True,
            "UTC, µs",
        ),
    ),
    may_be_empty=True,
)
