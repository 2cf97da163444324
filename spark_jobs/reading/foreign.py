"""Reading a topic that this project did not write: each record, with what its identity says.

`delivery_verifier.model.audit` says what an identity is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from delivery_verifier.model.audit import HashKind, Identity, groups_of
from delivery_verifier.model.inputs import BadInput, bad_input
from delivery_verifier.model.scenario import RAW
from delivery_verifier.model.snapshot import Offsets
from spark_jobs.reading.read_topic import CONSUMER, LEAST_OF_TASK, TASKS
from spark_jobs.schemas import promise

FOREIGN = StructType(
    [
        StructField("partition", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("timestamp", TimestampType(), False),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
    ]
)
"""The records of a topic, as Spark's Kafka source gives them."""
FOUND = StructType(
    [
        StructField("partition", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("timestamp", TimestampType(), False),
        StructField("id", StringType()),
        StructField("producer", StringType()),
        StructField("sequence", LongType()),
        StructField("hash", StringType()),
    ]
)
"""The records of a topic, with what the identity found: an id, or producer and sequence; null if it found nothing.
`hash`: the checksum of the value, as text."""
PARTS = ("producer", "sequence")


def read_foreign(spark: SparkSession, offsets: Offsets, connection: Mapping[str, str]) -> DataFrame:
    """Returns FOREIGN: the records of the only topic in `offsets`, in exactly its bounds.

    `connection`: options by which Spark's Kafka source reaches the brokers. The read fails if the brokers no longer
    hold the whole range.
    """
    parts = [part for part in offsets.partitions if part.end > part.start]
    if not parts:
        return spark.createDataFrame([], FOREIGN)
    topic, records = parts[0].topic, sum(part.end - part.start for part in parts)
    loaded = (
        spark.read.format("kafka")
        .options(**CONSUMER)
        .options(**connection)
        .option("includeHeaders", "true")
        .option("minPartitions", max(1, min(TASKS, records // LEAST_OF_TASK)))
        .option("kafka.isolation.level", RAW)
        .option("assign", json.dumps({topic: [part.partition for part in parts]}))
        .option("startingOffsets", json.dumps({topic: {str(part.partition): part.start for part in parts}}))
        .option("endingOffsets", json.dumps({topic: {str(part.partition): part.end for part in parts}}))
        .load()
    )
    return promise(loaded, FOREIGN)


def identified(records: DataFrame, identity: Identity, hashed: HashKind) -> DataFrame:
    """Returns FOUND from FOREIGN. Raises BadInput if the identity cannot be computed from a record."""
    try:
        columns = _parts(records, identity)
        with_identity = records.withColumns(columns | {"hash": _hash(hashed)})
    except BadInput:
        raise
    except Exception as error:  # Spark's analysis says what is wrong with the user's expression
        reason = str(error).split("\n")[0]
        raise bad_input("--identity", identity.text, "an expression that Spark can evaluate", reason) from None
    missing = {name: F.lit(None).cast(FOUND[name].dataType) for name in ("id", *PARTS) if name not in columns}
    return promise(with_identity.withColumns(missing), FOUND)


def _parts(records: DataFrame, identity: Identity) -> dict[str, Column]:
    if identity.kind == "sql":
        column = F.expr(identity.expression)
        data_type = records.select(column.alias("identity")).schema["identity"].dataType
        if identity.in_parts:
            if not isinstance(data_type, StructType) or not {*PARTS} <= {*data_type.names}:
                raise bad_input("--identity-sql", identity.expression, "a struct with producer and sequence")
            return {"producer": _text(column["producer"]), "sequence": column["sequence"].try_cast("bigint")}
        if isinstance(data_type, StructType | ArrayType):
            raise bad_input(
                "--identity-sql", identity.expression, "a text, a number or bytes", "it gives several values"
            )
        return {"id": _text(column)}
    if identity.kind == "regex":
        return _groups(identity)
    if identity.kind == "header":
        named = F.filter("headers", lambda header: header["key"] == identity.expression)
        # Of two headers with one name, nothing says which one is meant.
        return {"id": _text(F.when(F.size(named) == 1, F.get(named, F.lit(0))["value"]))}
    if identity.kind == "json":
        return {"id": _filled(F.get_json_object(_text(F.col("value")), identity.expression))}
    return {"id": _text(F.col(identity.kind))}


def _groups(identity: Identity) -> dict[str, Column]:
    """Returns the named groups of a regular expression that matches the whole value."""
    groups = groups_of(identity.expression)
    pattern = rf"\A(?:{identity.expression})\z"
    texts = {name: _filled(F.regexp_extract(_text(F.col("value")), pattern, number)) for name, number in groups.items()}
    if not identity.in_parts:
        return {"id": texts["id"]}
    # VerifiableProducer leaves out the producer's prefix if it was given none.
    is_match = F.coalesce(_text(F.col("value")).rlike(pattern), F.lit(False))
    producer = texts.get("producer", F.lit(None).cast("string"))
    return {
        "producer": F.when(is_match, F.coalesce(producer, F.lit("-"))),
        "sequence": F.when(is_match, texts["sequence"].try_cast("bigint")),
    }


def _text(column: Column) -> Column:
    """Returns `column` as text; null if its bytes are not UTF-8, or if it is empty."""
    text = column.cast("string")
    return _filled(F.when(F.is_valid_utf8(text), text))


def _filled(text: Column) -> Column:
    return F.when(text != "", text)


def _hash(kind: HashKind) -> Column:
    if kind == "sha256":
        return F.sha2("value", 256)
    if kind == "crc32":
        return F.crc32("value").cast("string")
    return F.lit(None).cast("string")
