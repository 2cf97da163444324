"""Small exact tables, written as they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.store.run_directory import StepOutput


def write_table(output: StepOutput, name: str, table: pa.Table) -> Path:
    """Writes `table` as `<name>.parquet` below the folder of the step that is at work, and returns the file."""
    file = output.staging / f"{name}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, compression="zstd")
    return file
