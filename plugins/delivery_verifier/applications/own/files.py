"""The files to which an own application writes: which they are, how large, what is in them, and how much."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delivery_verifier.applications.lives import lives_of
from delivery_verifier.applications.own.scan import MAGIC, RecordPattern, Scan, blocks_of, count, scan
from delivery_verifier.applications.sink import CRC_OK, EFFECT, PARSED
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.own_application import IN_FOLDER, STDOUT, EffectsPlace

WORK = "work"
"""The name of the folder, in the folder of a member, in which the member runs."""


def files_of(landing: EffectsPlace, folder: Path) -> list[Path]:
    """Returns the files that hold effects of a member. `folder` is the folder of the member. A file with several names
    appears once."""
    if landing.where == STDOUT:
        return [file for life in lives_of(folder).values() if (file := life / STDOUT).is_file()]
    is_inside = landing.where.startswith(IN_FOLDER)
    root, pattern = (
        (folder / WORK, landing.where.removeprefix(IN_FOLDER)) if is_inside else (Path("/"), landing.where[1:])
    )
    paths = sorted(root.glob(pattern), key=lambda path: (path.is_symlink(), path))  # links last: they may change
    names: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = _status(path)
        if status is not None and stat.S_ISREG(status.st_mode):
            names.setdefault((status.st_dev, status.st_ino), path)
    return sorted(names.values())


def _status(path: Path) -> os.stat_result | None:
    """Returns the status of a file, or None if it is gone: the program may remove it at any time."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def sizes_of(landing: EffectsPlace, folder: Path) -> dict[str, int]:
    """Maps the path of each file of a member to its size in bytes."""
    statuses = {str(file): _status(file) for file in files_of(landing, folder)}
    return {file: status.st_size for file, status in statuses.items() if status is not None}


def grown_sizes(before: Mapping[str, int], landing: EffectsPlace, folder: Path) -> dict[str, int]:
    """Returns the sizes of the files of a member. `before` has earlier sizes.

    Raises StepFailed if a file is gone or has shrunk: effects are lost then, and the program has not lost them.
    """
    sizes = sizes_of(landing, folder)
    for file, size in before.items():
        if sizes.get(file, -1) < size:
            what = f"has shrunk from {size} to {sizes[file]} bytes" if file in sizes else "is gone"
            raise StepFailed(
                f"{file} held effects, and {what}: its effects can be counted no more; let the program only append to "
                "the files in effects.where: it must not rotate, truncate or remove them"
            )
    return sizes


def scans_of(landing: EffectsPlace, file: Path, pattern: RecordPattern) -> Iterator[Scan]:
    """Yields the effects in a file, part by part. The positions are those in the file. In a Parquet file, all positions
    are 0."""
    if landing.kind == "lines":
        for position, text in blocks_of(file):
            part = scan(text, pattern)
            yield part._replace(positions=part.positions + position)
    elif _footer(file) is None:
        yield _in_parquet(np.zeros(1, EFFECT), 0)
    else:
        names = ["producer", "sequence", "attempt"] if landing.identity == "columns" else [landing.column]
        for batch in pq.ParquetFile(file).iter_batches(columns=names):
            if landing.identity == "columns":
                yield _in_parquet(_of_columns(batch), 0)
            else:
                part = scan(_as_lines(batch.column(0)), pattern)
                yield _in_parquet(part.rows, part.foreign)


def effects_in(landing: EffectsPlace, file: Path, pattern: RecordPattern) -> int:
    """Returns how many effects a file holds. The count is independent of `scans_of`: it counts lines, or takes the
    number of rows from the footer of a Parquet file. Rows that hold only records of other runs do not count."""
    if landing.kind == "lines":
        return sum(count(text, pattern) for _, text in blocks_of(file))
    footer = _footer(file)
    if footer is None:
        return 1
    return int(footer.num_rows) - (0 if landing.identity == "columns" else _foreign_rows(landing, file, pattern))


def _foreign_rows(landing: EffectsPlace, file: Path, pattern: RecordPattern) -> int:
    """Returns how many rows of a Parquet file hold only records of other runs."""
    count = 0
    for batch in pq.ParquetFile(file).iter_batches(columns=[landing.column]):
        values = batch.column(0).cast(pa.binary())
        is_own = pc.match_substring(values, pattern.beginning)
        count += pc.sum(pc.and_not(pc.match_substring(values, MAGIC), is_own)).as_py() or 0
    return count


def _footer(file: Path) -> pq.FileMetaData | None:
    """Returns the footer of a Parquet file, or None if it is not there (yet), or is damaged. A file without a footer
    counts as one effect without a record."""
    try:
        return pq.read_metadata(file)
    except pa.ArrowInvalid:
        return None
    except OSError as error:
        if error.errno is not None:  # of the file system, and not of the content
            raise
        return None


def _in_parquet(rows: npt.NDArray[np.void], foreign: int) -> Scan:
    return Scan(rows, np.zeros(len(rows), np.int64), foreign)


def _of_columns(batch: pa.RecordBatch) -> npt.NDArray[np.void]:
    rows = np.zeros(batch.num_rows, EFFECT)
    for name in batch.schema.names:
        rows[name] = batch.column(name).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    rows["flags"] = PARSED | CRC_OK
    return rows


def _as_lines(column: pa.Array) -> bytes:
    """Returns the values of a column as lines. A null becomes a line without a record."""
    values = column.cast(pa.binary()).fill_null(b"null")
    rows = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return bytes(pc.binary_join(rows, pa.scalar(b"\n", pa.binary()))[0].as_py()) + b"\n"
