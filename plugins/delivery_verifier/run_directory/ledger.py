"""The ledger: every attempt with its outcome. Programs other than the verifier may also write ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.run_directory.tables import LEDGER

LOAD_BEGAN = "load_began_at_us"
"""A key of the counts in produce.json. Its value is the time when the load began, in µs since the epoch. Before this
time, each producer sends a few records to warm up."""

ENDED_EARLY = "ended_early/"
"""The prefix of a note in produce.json that names a producer whose load was ended by a fatal client error."""

MISCOUNTED = "miscounted"
"""A name that `outcomes_key` accepts in place of an outcome. The count is then the number of reports by which the
counters of a killed producer process differ from the ledger. A difference that the kill explains is not included (see
`load.resends.recount`)."""

SCHEMA = arrow_schema(LEDGER)
"""The Arrow schema of the ledger, which has one row per attempt. `tables.LEDGER` gives the meaning of each column."""

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
"""Options of the Parquet writer. They were the fastest in measurements, and gave the smallest files: delta encoding for
dense numbers, and dictionaries only for values that repeat."""


def outcomes_key(outcome: str, producer: str) -> str:
    """Returns the name of one count of a producer. produce.json and settle.json hold the count under this name.

    The count says how many attempts the client of the producer reported with `outcome`, e.g. ACKED. The producer itself
    counts them. `outcome` may also be MISCOUNTED. `producer` is `<arm>/<producer>/<session>`.
    """
    return f"outcomes_{outcome.lower()}/{producer}"


def reported_counts(counts: Mapping[str, int], outcome: str) -> dict[str, int]:
    """Maps each arm to the number of its attempts that the client reported with `outcome`.

    `counts` are the counts of produce.json.
    """
    reported, prefix = Counter[str](), outcomes_key(outcome, "")
    for name, count in counts.items():
        if name.startswith(prefix):
            reported[name.removeprefix(prefix).split("/")[0]] += count
    return dict(reported)


def writer(file: Path) -> pq.ParquetWriter:
    """Returns a new writer that writes rows of the ledger to `file`. The caller must close it."""
    return pq.ParquetWriter(file, SCHEMA, **WRITE_OPTIONS)


def check_schema(file: Path) -> None:
    """Raises BadInput if the Parquet `file` does not have exactly the columns of SCHEMA, with the same types. The order
    of the columns does not matter.

    The error names the columns that differ.
    """
    types = column_types(file)
    problems = [
        f"{field.name}: {types.get(field.name, 'missing')}, expected {field.type}"
        for field in SCHEMA
        if types.get(field.name) != field.type
    ]
    problems += [f"{name}: unknown column" for name in types if name not in SCHEMA.names]
    if problems:
        raise BadInput(f"{file} is no ledger: " + "; ".join(problems))


def column_types(file: Path) -> dict[str, pa.DataType]:
    """Maps the name of each column of a Parquet file to its type. Raises BadInput if the file cannot be read as
    Parquet."""
    try:
        return {field.name: field.type for field in pq.read_schema(file)}
    except (OSError, pa.ArrowException) as error:
        reason = str(error).rstrip(". ")
        raise BadInput(f"{file} cannot be read as Parquet: {reason}; copy it again from where it is whole") from None
