"""The ledger: every attempt and what the client was told about it, in an interface that other tools may write too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.model.inputs import BadInput

LOAD_BEGAN = "load_began_at_us"
"""Among the counts of `produce`: when the load proper began, behind the warm-up (wall time, µs)."""
SCHEMA = pa.schema(
    [
        pa.field("arm", pa.string(), nullable=False),
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("session", pa.int32(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("partition_sequence", pa.int64(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("transaction", pa.string()),
        pa.field("transaction_outcome", pa.string()),
        pa.field("sent_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("settled_at", pa.timestamp("us", tz="UTC")),
        pa.field("error", pa.string()),
        pa.field("made_by", pa.string(), nullable=False),
    ]
)
"""One row per attempt. `offset` is null without an acknowledged offset, `settled_at` while nothing was heard,
`error` is librdkafka's error name, `made_by` is `client` (told by the client) or `recovery` (left open by a killed
producer, hence INDETERMINATE)."""

WRITE_OPTIONS: dict[str, object] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": ["arm", "outcome", "error", "made_by", "transaction", "transaction_outcome"],
    "column_encoding": dict.fromkeys(
        (
            "producer",
            "session",
            "sequence",
            "attempt",
            "partition",
            "partition_sequence",
            "offset",
            "sent_at",
            "settled_at",
        ),
        "DELTA_BINARY_PACKED",
    ),
}
"""Measured fastest and smallest for dense numbers: delta encoding, dictionaries only where values repeat."""


def writer(file: Path) -> pq.ParquetWriter:
    """A writer of ledger rows to `file`."""
    return pq.ParquetWriter(file, SCHEMA, **WRITE_OPTIONS)


def check_schema(file: Path) -> None:
    """Raises BadInput naming the columns in which `file` differs from the ledger's schema."""
    found = read_schema(file)
    wrong = [
        f"{field.name}: {found.field(field.name).type if field.name in found.names else 'missing'}, expected "
        f"{field.type}"
        for field in SCHEMA
        if field.name not in found.names or found.field(field.name).type != field.type
    ]
    wrong += [f"{name}: unknown column" for name in found.names if name not in SCHEMA.names]
    if wrong:
        raise BadInput(f"{file} is no ledger: " + "; ".join(wrong))


def read_schema(file: Path) -> pa.Schema:
    """The columns of a Parquet file. Raises BadInput if it is none, or was cut."""
    try:
        return pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        why = str(error).rstrip(". ")
        raise BadInput(f"{file} cannot be read as Parquet: {why}; copy it again from where it is whole") from None
