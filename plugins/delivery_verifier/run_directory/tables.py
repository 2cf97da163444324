"""The tables of the run directory. Each table is declared once, with type, unit and meaning of each column.

These tables are the interface between the steps, and the interface for other programs
(docs/reference/run-directory.md). Everything else that names columns of the tables is derived from these declarations:
the Arrow schemas, Spark's schemas (`spark_jobs.schemas`), the columns that `run_directory.tally` requires, the input of
the report, and the documentation.

A *session* is all that a producer sends with one series of consecutive numbers. A session outlives the death of the
producer: a producer that is killed and started again continues its series. A *view* of a topic holds the records that
one kind of consumer (read_uncommitted or read_committed) sees in a range of offsets.
"""

from __future__ import annotations

from delivery_verifier.run_directory.anomalies import ANOMALIES
from delivery_verifier.run_directory.counts import COUNTS
from delivery_verifier.run_directory.effect_tables import EFFECT_TABLES
from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.table import ARM, PARTITION, Column, Table

LEDGER = Table(
    "ledger",
    "ledger/*.parquet",
    "one attempt: one send by the application",
    (
        ARM,
        Column("producer", "int32", "number of the producer within the arm, from 0"),
        Column("session", "int32", "session of the producer; it outlives a kill and a restart"),
        Column("sequence", "int64", "what the application sent, numbered per arm, producer and session, from 0"),
        Column("attempt", "int32", "0, then 1, 2, ... for what the application sent again"),
        Column("partition", "int32", "partition to which the attempt was sent"),
        Column("partition_sequence", "int64", "the producer's attempts to this partition, in the order of sending"),
        Column("outcome", "string", "what the client reported: ACKED, SENT, FAILED or INDETERMINATE"),
        Column("offset", "int64", "the acknowledged offset; null where none was acknowledged", nullable=True),
        Column("transaction", "string", "number of the producer's transaction; null outside one", nullable=True),
        Column(
            "transaction_outcome",
            "string",
            "how the transaction ended: COMMITTED, ABORTED or INDETERMINATE; null outside one",
            nullable=True,
        ),
        Column("sent_at", "timestamp", "when the application called the client", unit="UTC, µs"),
        Column("settled_at", "timestamp", "when the client reported the outcome; null if never", True, "UTC, µs"),
        Column("error", "string", "librdkafka's name of the error", nullable=True),
        Column(
            "made_by",
            "string",
            "client: the client reported the outcome; recovery: a producer that was killed, or ended "
            "without flush(), left the attempt open, which is therefore INDETERMINATE; log: in an audit, only the log "
            "shows the attempt",
        ),
    ),
)

LOG = Table(
    "log",
    "log/*.parquet",
    "one record of a topic in one view",
    (
        ARM,
        PARTITION,
        Column("offset", "int64", "offset of the record"),
        Column(
            "view",
            "string",
            "raw: in the snapshot; tail: behind it; committed and committed_tail: the same ranges once more, as "
            "read_committed shows them (only arms with transactions and, beside them, the canary)",
        ),
        Column("timestamp", "timestamp", "the record's timestamp in Kafka; null: unreadable", True, "UTC, µs"),
        Column("header_run", "string", "run token of the header; null where `parsed` is false", nullable=True),
        Column("header_arm", "int32", "arm's ordinal of the header; null as above", nullable=True),
        Column("producer", "int32", "producer of the header; null as above", nullable=True),
        Column("session", "int32", "session of the header; null as above", nullable=True),
        Column("sequence", "int64", "sequence of the header; null as above", nullable=True),
        Column("attempt", "int32", "attempt of the header; null as above", nullable=True),
        Column("partition_sequence", "int64", "partition sequence of the header; null as above", nullable=True),
        Column("parsed", "boolean", "whether the bytes are a record of the verifier at all"),
        Column("crc_ok", "boolean", "whether the record is parsed and its checksum agrees"),
        Column(
            "foreign",
            "boolean",
            "whether a parsed record names another run, or another arm than the topic's; where `parsed` is "
            "false: whether the bytes have no trace of a record of this run, as those of another client",
        ),
    ),
)

PRODUCERS = Table(
    "counts/producers",
    "counts/producers.parquet",
    "one planned producer, session and partition of an arm; and, per partition, what no planned producer owns",
    (
        ARM,
        Column("producer", "int32", "number of the producer; -1: records that no planned producer owns"),
        Column("session", "int32", "session of the producer; -1 as above"),
        PARTITION,
        *COUNTS,
    ),
)

PARTITIONS = Table(
    "counts/partitions",
    "counts/partitions.parquet",
    "one partition of the snapshot",
    (
        ARM,
        Column("topic", "string", "name of the topic"),
        PARTITION,
        Column("start", "int64", "first offset of the snapshot"),
        Column("end", "int64", "offset behind the last one of the snapshot"),
        Column("data_records", "int64", "records in the log without the verifier's own markers", unit="records"),
        Column("control_records", "int64", "the verifier's own markers and those of transactions", unit="records"),
        Column(
            "tail_records", "int64", "records behind the snapshot that are no marker; -1: not counted", unit="records"
        ),
    ),
)

INVARIANTS = Table(
    "counts/invariants",
    "counts/invariants.parquet",
    "one equation of an invariant; it holds if `left` = `right`",
    (
        Column("invariant", "string", "name of the invariant"),
        ARM,
        Column("partition", "int32", "partition that the equation is about; -1: all of the arm"),
        Column("left_name", "string", "what was counted on the left side"),
        Column("left", "int64", "the left side; -1: not counted"),
        Column("right_name", "string", "what was counted on the right side"),
        Column("right", "int64", "the right side; -1: not counted"),
    ),
)

CASES = Table(
    "counts/cases",
    "counts/cases.parquet",
    "one kind of anomaly in one arm",
    (
        ARM,
        Column("kind", "string", "kind of the anomaly"),
        Column("cases", "int64", "cases that the tables of counts have", unit="cases"),
        Column("written", "int64", "rows that anomalies/ has of them", unit="cases"),
        Column("cut", "boolean", "whether there are more cases than are written at most"),
    ),
    may_be_empty=True,
)

EXPOSURE = Table(
    "counts/exposure",
    "counts/exposure.parquet",
    "one injection and one arm with a load",
    (
        ARM,
        Column("injection", "int64", "id of the injection in injections.json"),
        Column(
            "reported",
            "int64",
            "reported attempts on the partitions that were hit, sent before the recovery and settled from one second "
            "before the effect on; of attempts in transactions only those that were committed",
            unit="attempts",
        ),
        Column("outstanding", "int64", "attempts sent before the effect and not settled by then", unit="attempts"),
    ),
    may_be_empty=True,
)

GAPS = Table(
    "counts/gaps",
    "counts/gaps.parquet",
    "one partition of an arm with a load",
    (
        ARM,
        PARTITION,
        Column(
            "longest_gap_s",
            "double",
            "longest silence between consecutive reports; null with fewer than two reports. Too short by less than a "
            "slot, if shorter than one: 1 ms, doubled until the slots of all partitions are at most 1,000,000",
            True,
            "s",
        ),
        Column("gap_start_us", "int64", "when that silence began; null as above", True, "µs since the epoch"),
    ),
)

LOAD = Table(
    "timeline/load",
    "timeline/load.parquet",
    "one interval of an arm's load: 200 ms, or 1 s if the run lasted longer than 300 s, doubled until an arm has at "
    "most 10,000",
    (
        ARM,
        Column("at_us", "int64", "begin of the interval", unit="µs since the epoch"),
        Column("sent", "int64", "attempts sent in the interval", unit="attempts"),
        Column("reported", "int64", "attempts whose report arrived in the interval", unit="attempts"),
        Column("indeterminate", "int64", "attempts that became INDETERMINATE in the interval", unit="attempts"),
        Column("failed", "int64", "attempts that FAILED in the interval", unit="attempts"),
        Column("latency_ms_p50", "double", "median latency of the reported, ±1.5 %; null without any", True, "ms"),
        Column("latency_ms_p99", "double", "99th percentile of that latency, ±1.5 %; null as above", True, "ms"),
    ),
)

LATENCY = Table(
    "timeline/latency",
    "timeline/latency.parquet",
    "one bucket of latency that has records; 20 buckets per decade, log-spaced",
    (
        ARM,
        Column("inside", "boolean", "whether the records were under way between an effect and its recovery"),
        Column("latency_ms_from", "double", "lower bound of the bucket, inclusive", unit="ms"),
        Column("latency_ms_until", "double", "upper bound of the bucket, exclusive", unit="ms"),
        Column("records", "int64", "reported attempts in the bucket", unit="attempts"),
    ),
)

SHARED_OFFSETS = Table(
    "counts/shared_offsets",
    "counts/shared_offsets.parquet",
    "one acknowledgement of an offset that another attempt was told as well; of at most 5,000 offsets per arm, and the "
    "first 16 per offset",
    (
        ARM,
        PARTITION,
        Column("offset", "int64", "the acknowledged offset"),
        Column("producer", "int32", "producer of the attempt"),
        Column("session", "int32", "session of the attempt"),
        Column("sequence", "int64", "sequence of the attempt"),
        Column("attempt", "int32", "number of the attempt"),
        Column("sent_at", "timestamp", "when the application called the client", unit="UTC, µs"),
        Column("settled_at", "timestamp", "when the client reported the acknowledgement", True, "UTC, µs"),
    ),
    may_be_empty=True,
)

CLAIMS = Table(
    "claims",
    "claims/*.parquet",
    "in an audit, one attempt of the audited arm; or one record that nobody claims, if it is PHANTOM",
    (
        ARM,
        Column("producer", "int32", "producer of the attempt, as in ledger/ and anomalies/"),
        Column("session", "int32", "session of the attempt, as above"),
        Column("sequence", "int64", "sequence of the attempt, as above"),
        Column("attempt", "int32", "number of the attempt, as above"),
        Column("claim", "string", "the id of the claim; or its producer and sequence, with a space between them"),
        Column("file", "string", "the ledger's file that has the claim; null: only the log shows it", nullable=True),
        Column("line", "int64", "line of the file, from 1; in Parquet the row; null as above", nullable=True),
    ),
)

_OF_EVERY_RUN = (
    LEDGER,
    REPLICAS,
    LOG,
    ANOMALIES,
    PRODUCERS,
    PARTITIONS,
    INVARIANTS,
    CASES,
    EXPOSURE,
    GAPS,
    LOAD,
    LATENCY,
)
TABLES = (*_OF_EVERY_RUN, SHARED_OFFSETS, CLAIMS, *EFFECT_TABLES)
"""All tables: first the tables of every run, then the tables of some runs, each in the order of writing."""
