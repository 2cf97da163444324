"""The group log: what the brokers themselves recorded about the groups of the applications, in `__consumer_offsets`,
and what they say of the output topics of the applications.

The journal is what the members say that they did. The group log depends neither on the journal, nor on what a client
was told. A *group* is the consumer group of one arm's application.
"""

from __future__ import annotations

from delivery_verifier.run_directory.table import ARM, PARTITION, Column, Table

_LOG_PARTITION = Column("log_partition", "int32", "partition of `__consumer_offsets` that keeps the group")
_LOG_OFFSET = Column("log_offset", "int64", "offset of the record in this partition")

COMMITS = Table(
    "group_log/commits",
    "group_log/commits.parquet",
    "one commit of a group, or one removal of what it had committed",
    (
        ARM,
        Column("topic", "string", "topic of the committed offset"),
        Column("partition", "int32", "partition of this topic"),
        Column("offset", "int64", "the committed offset; null if the record removes it", nullable=True),
        Column("leader_epoch", "int32", "leader epoch of the last record that the client was given; -1: not said"),
        Column("metadata", "string", "what the client added to the commit"),
        Column("at", "timestamp", "when the coordinator wrote the commit", unit="UTC, µs"),
        _LOG_PARTITION,
        _LOG_OFFSET,
        Column("transactional", "boolean", "whether the commit is part of a transaction"),
        Column("committed", "boolean", "whether the commit counts; false if its transaction was aborted"),
    ),
    may_be_empty=True,
)

GENERATIONS = Table(
    "group_log/generations",
    "group_log/generations.parquet",
    "one member of one generation of a group; of a generation without members, one row without a member",
    (
        ARM,
        Column("generation", "int32", "number of the generation, or epoch (KIP-848); -1: the record is of a member"),
        Column("member_id", "string", "id that the coordinator gave the member", nullable=True),
        Column("client_id", "string", "client.id of the member", nullable=True),
        Column(
            "assigned",
            "list<int64>",
            "partitions of the arm's topic that the generation gave to the member; null: not said",
            nullable=True,
        ),
        Column("at", "timestamp", "when the coordinator wrote the record", unit="UTC, µs"),
        _LOG_PARTITION,
        _LOG_OFFSET,
    ),
    may_be_empty=True,
)

POSITIONS = Table(
    "group_log/positions",
    "group_log/positions.parquet",
    "one partition of an arm with an application, at the end of the run",
    (
        ARM,
        PARTITION,
        Column("position", "int64", "committed offset, as the group's coordinator answers; 0 if there is none"),
        Column("removed", "int64", "records of the group's log that the broker has compacted away", unit="records"),
    ),
)

OUTPUTS = Table(
    "group_log/outputs",
    "group_log/outputs.parquet",
    "one partition of the output topic of an arm's application, after its effects were read",
    (
        ARM,
        PARTITION,
        Column("leader", "int32", "broker that leads the partition"),
        Column("leader_epoch", "int32", "leader epoch of this leader"),
        Column("start", "int64", "first offset of the leader's log: above 0, records were deleted"),
        Column("end", "int64", "high watermark"),
        Column(
            "watermark",
            "int64",
            "a high watermark that was seen earlier, and below which the log lacks records now; null: it lacks none",
            nullable=True,
        ),
        Column("epoch", "int32", "leader epoch in which it was seen; -1: unknown; null as above", nullable=True),
        Column("kept_until", "int64", "offset at which this epoch ends in the leader's log; null as above", True),
        Column("held_back", "string", "which open transaction holds back the last stable offset; null: none", True),
    ),
    may_be_empty=True,
)

GROUP_LOG_TABLES = (COMMITS, GENERATIONS, POSITIONS, OUTPUTS)
"""All tables of the group log."""
