"""The table of the replicas. No other table of the run directory has rows about replicas."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from delivery_verifier.run_directory.table import ARM, PARTITION, Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from delivery_verifier.run_directory.run_directory import RunDirectory

REPLICAS = Table(
    "replicas",
    "replicas.parquet",
    "one replica of a partition: its log from the start to the end of the snapshot",
    (
        ARM,
        PARTITION,
        Column("broker", "int32", "broker that holds the replica"),
        Column("digest", "string", "SHA-256 of the bytes of all batches; null if the replica was not read", True),
        Column("read_until", "int64", "offset behind the last batch; null as above", True),
        Column("batches", "int64", "number of batches; null as above", True, "batches"),
        Column("epochs", "list<int64>", "leader epochs of the batches, in the order of the log; null as above", True),
        Column("epoch_starts", "list<int64>", "the first offset of each of these epochs; null as above", True),
        Column(
            "sound",
            "boolean",
            "whether every batch has the right CRC-32C and begins where the one before ended; null as above",
            True,
        ),
        Column("differs_from", "int64", "first offset at which it differs from the leader's; null if nowhere", True),
        Column("differs_until", "int64", "offset behind the last such offset; null as above", True),
        Column("detail", "string", "why it was not read, or its first difference from the leader's", True),
    ),
)


def read_replicas(run: RunDirectory) -> pa.Table:
    """Returns the table of the replicas of a run, which the step `settle` writes. If the file is missing, the table has
    no rows and no columns.

    Raises IncompleteRun if the manifest of `settle` does not list the file, or if the file was altered. Raises
    pyarrow.ArrowException if the file lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if (run.path / REPLICAS.file).is_file():
        content = run.sealed_alone("settle", REPLICAS.file)
        return pq.read_table(io.BytesIO(content), columns=list(REPLICAS.column_names))
    return pa.table({})
