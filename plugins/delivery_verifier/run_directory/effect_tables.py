"""The tables of a run in which an arm has an application. A run without applications has none of these tables.

A *member* is one process of an application, and a *incarnation* is the time from one start of the member to its end. A
*batch* is a group of records that a member works on at once. `model.kinds_of_effects` explains the other terms.
"""

from __future__ import annotations

from delivery_verifier.run_directory.group_log_tables import GROUP_LOG_TABLES
from delivery_verifier.run_directory.table import ARM, PARTITION, Column, Table

MEMBER = Column("member", "int32", "number of the member within the application, from 0")
INCARNATION = Column("incarnation", "int32", "how often the member had been started before")

EFFECTS = Table(
    "effects",
    "effects/*.parquet",
    "one effect: one application of a record, read back from the slot or the row of a database that it is",
    (
        ARM,
        Column(
            "member", "int32", "number of the member that applied it, from 0; -1 if it is not known which of several"
        ),
        INCARNATION,
        Column("partition", "int32", "partition of the arm's topic; -1 if a user application does not keep it"),
        Column("offset", "int64", "offset of the record; -1 if a user application does not keep it"),
        Column(
            "nth",
            "int64",
            "how many effects of this incarnation in this partition came before it, in the order of `order`",
        ),
        Column(
            "order",
            "int64",
            "the order of the effects: time on the host's monotonic clock in ns; in a database, number of the row; in "
            "an output topic, offset",
        ),
        Column("batch", "int32", "number of the batch within the incarnation, from 0"),
        Column(
            "applied_at",
            "timestamp",
            "when the record was applied; of a user application, when its incarnation ended",
            unit="UTC, µs",
        ),
        Column("producer", "int32", "producer of the record's header; 0 where `parsed` is false"),
        Column("session", "int32", "session of the header; 0 as above"),
        Column("sequence", "int64", "sequence of the header; 0 as above"),
        Column("attempt", "int32", "attempt of the header; 0 as above"),
        Column("partition_sequence", "int64", "partition sequence of the header; 0 as above"),
        Column("parsed", "boolean", "whether the bytes are a record of the verifier at all"),
        Column("crc_ok", "boolean", "whether the record is parsed and its checksum agrees"),
        Column("foreign", "boolean", "whether a parsed record names another run, or another arm than the topic's"),
    ),
)

JOURNAL = Table(
    "journal",
    "journal/*.parquet",
    "one event in the incarnation of a member, as the member itself tells it",
    (
        ARM,
        MEMBER,
        INCARNATION,
        Column("at", "timestamp", "when it happened", unit="UTC, µs"),
        Column(
            "what",
            "string",
            "started, assigned, revoked, handed_over, committed (the answer came), stored, parked, closed, error, "
            "reported, aborted, or fenced. Reported: a member whose offsets are in a database also committed them to "
            "its group. Fenced: the member learned that another process had taken its place, and ended",
        ),
        Column("batch", "int32", "number of the batch; -1 where the event is about none"),
        Column("partition", "int32", "the partition; -1 where the event is about none"),
        Column("first", "int64", "first offset handed over, or first offset asked for; -1 where there is none"),
        Column("until", "int64", "offset behind the last one, or the offset committed; -1 where there is none"),
        Column("answer", "string", "librdkafka's name of the error; null where there was none", nullable=True),
    ),
    may_be_empty=True,
)

_COUNTS = {
    "visible": ("attempts with a visible copy", "attempts"),
    "applied": ("of `visible`, those that were applied", "attempts"),
    "pending": ("of `visible`, those not applied in a partition that was not drained", "attempts"),
    "again": ("effects of `applied` beyond the first of each attempt", "effects"),
    "extra": ("of `again`, those beyond one effect per visible copy, or beyond one per offset", "effects"),
    "skipped_behind": ("attempts that are SKIPPED, with a copy behind an applied record of the partition", "attempts"),
    "carried": ("of `applied`, those that stand in the log more than once and were applied as often", "attempts"),
    "ghost_effects": ("effects of attempts without a visible copy", "effects"),
    "markers": ("effects of the verifier's own markers", "effects"),
    "drained": (
        "1 if a marker at or behind the end of the snapshot was applied and, if only the group has the offsets, all "
        "offsets before it are committed; else 0",
        "partitions",
    ),
    "in_time": ("effects that name an attempt, before the snapshot was taken", "effects"),
    "unparsed": ("effects that name no attempt of the arm", "effects"),
    "effects": ("rows of effects/", "effects"),
    "lines": ("records of the view that name an attempt of the arm", "records"),
    "copies": ("visible copies of all attempts", "records"),
}
EFFECT_COUNTS = tuple(Column(name, "int64", meaning, unit=unit) for name, (meaning, unit) in _COUNTS.items())
"""The columns of counts/effects.parquet that hold counts."""

EFFECT_TALLY = Table(
    "counts/effects",
    "counts/effects.parquet",
    "one partition of an arm with an application, or of the canary",
    (ARM, PARTITION, *EFFECT_COUNTS),
)

EFFECT_TABLES = (EFFECTS, JOURNAL, *GROUP_LOG_TABLES, EFFECT_TALLY)
"""All tables of applications, in the order in which a run writes them."""
