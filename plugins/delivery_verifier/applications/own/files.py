"""The files to which an own application (a program of the user's own) writes its effects: finds the files, measures
them, and reads and counts the effects in them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from delivery_verifier.applications.lives import lives_of
from delivery_verifier.applications.own.scan import MAGIC, RecordPattern, Scan, blocks_of, count, scan
from delivery_verifier.applications.sink import CRC_OK, EFFECT, PARSED
from delivery_verifier.model import record
from delivery_verifier.model.effects_place import IN_FOLDER, OF_COLUMNS, STDOUT, EffectsPlace
from delivery_verifier.model.errors import StepFailed

WORK = "work"
"""The name of the folder, in the folder of a member, in which the member runs."""
_TAILS, _TAIL_BYTES = "tails.json", 256


class Files:
    """Reads the effects of one member from files. `landing` says which files hold effects. `folder` is the folder of
    the member."""

    def __init__(self, landing: EffectsPlace, folder: Path) -> None:
        self._landing, self._folder = landing, folder
        file = folder / _TAILS
        self._tails = msgspec.json.decode(file.read_bytes(), type=dict[str, _Tail]) if file.exists() else {}

    def sizes(self) -> dict[str, int]:
        """Maps the path of each file to its size in bytes.

        Raises StepFailed if a file has grown, but the program did not only append to it: the last bytes of the earlier
        content have changed.
        """
        sizes = sizes_of(self._landing, self._folder)
        for name, size in sizes.items():
            earlier = self._tails.get(name)
            if earlier is not None and size > earlier.size and _tail(name, earlier.size) != earlier:
                raise StepFailed(
                    f"{name} held effects, and was written anew: its effects can be counted no more; let the program "
                    "only append to its files: it must not truncate or replace them, e.g. when it starts"
                )
            if earlier is None or size != earlier.size:
                self._tails[name] = _tail(name, size)
        return sizes

    def scans(self, pattern: RecordPattern) -> Iterator[tuple[str, Scan]]:
        """Yields the effects in each file, with the path of the file. The positions of the effects are in bytes."""
        for file in files_of(self._landing, self._folder):
            for part in scans_of(self._landing, file, pattern):
                yield str(file), part

    def count(self, pattern: RecordPattern) -> int:
        """Returns how many effects the files hold. Counts them with `effects_in`."""
        return sum(effects_in(self._landing, file, pattern) for file in files_of(self._landing, self._folder))

    def markers(self, pattern: RecordPattern, searched: dict[str, int]) -> Iterator[tuple[int, int]]:
        """Yields the partition and the round of each marker in the files that have changed. `searched` maps each file
        to the position in bytes up to which it was searched before. The call updates `searched`."""
        for file in files_of(self._landing, self._folder):
            size = file.stat().st_size
            if size == searched.get(str(file)):
                continue
            if self._landing.kind == "lines":
                yield from _markers_in_lines(file, pattern, searched)
                continue
            searched[str(file)] = size
            for part in scans_of(self._landing, file, pattern):
                for row in part.rows[part.rows["producer"] == record.MARKER_PRODUCER]:
                    yield int(row["attempt"]), int(row["sequence"])

    def undecided(self) -> int:
        """Returns 0, because files have no transactions."""
        return 0

    def plant(self, values: Sequence[bytes]) -> None:
        """Writes one file with `values`. Among lines, also writes some without the text `landing.containing`, which are
        no effects."""
        landing = self._landing
        name = landing.where.removeprefix(IN_FOLDER).replace("**/", "").replace("*", "0")
        file = self._folder / "0" / STDOUT if landing.where == STDOUT else self._folder / WORK / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if landing.kind == "lines":
            text, plain = landing.containing.encode(), [b'{"value":"%s"}\n' % value for value in values]
            decoys = [line for line in plain[:3] if text not in line]
            file.write_bytes(b"".join([*decoys, *[b"%s %s" % (text, line) if text else line for line in plain]]))
        elif landing.identity == "columns":
            headers = [record.parse(value) for value in values]
            columns = {name: [getattr(header, name, None) for header in headers] for name in OF_COLUMNS}
            pq.write_table(pa.table(columns), file)
        else:
            pq.write_table(pa.table({landing.column: values}), file)

    def keep(self) -> None:
        """Remembers the last bytes of each file. So `sizes` notices if a later life replaces a file."""
        self.sizes()
        (self._folder / _TAILS).write_bytes(msgspec.json.encode(self._tails))


class _Tail(Struct, frozen=True):
    """The last bytes of a file at one moment. `size` is the size of the file in bytes at this moment. `digest` is the
    digest of the last bytes."""

    size: int
    digest: str


def _tail(name: str, size: int) -> _Tail:
    begin = max(size - _TAIL_BYTES, 0)
    try:
        with Path(name).open("rb") as stream:
            stream.seek(begin)
            return _Tail(size, blake2b(stream.read(size - begin), digest_size=16).hexdigest())
    except FileNotFoundError:  # the next call finds that the file is gone
        return _Tail(size, "")


def _markers_in_lines(file: Path, pattern: RecordPattern, searched: dict[str, int]) -> Iterator[tuple[int, int]]:
    begin = max(searched.get(str(file), 0) - record.HEADER_BYTES, 0)
    numbers = pattern.arm, record.MARKER_PRODUCER
    marker = re.escape(pattern.beginning) + b" %04d %04d [0-9]{4} ([0-9]{12}) ([0-9]{4}) " % numbers
    with file.open("rb") as stream:
        stream.seek(begin)
        text = stream.read()
    for match in re.finditer(marker, text):
        yield int(match[2]), int(match[1])
    searched[str(file)] = begin + len(text)


def files_of(landing: EffectsPlace, folder: Path) -> list[Path]:
    """Returns the files that hold effects of a member. `folder` is the folder of the member. A file with several names
    (links) appears once."""
    if landing.output:
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
    """Returns the status of a file, or None if the file is gone, because the program may remove it at any time."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def sizes_of(landing: EffectsPlace, folder: Path) -> dict[str, int]:
    """Maps the path of each file with effects of a member to the size of the file in bytes. `folder` is the folder of
    the member."""
    statuses = {str(file): _status(file) for file in files_of(landing, folder)}
    return {file: status.st_size for file, status in statuses.items() if status is not None}


def scans_of(landing: EffectsPlace, file: Path, pattern: RecordPattern) -> Iterator[Scan]:
    """Yields the effects in a file, portion by portion. The positions are in bytes from the beginning of the file. In a
    Parquet file, all positions are 0."""
    if landing.kind == "lines":
        for position, text in blocks_of(file):
            part = scan(text, pattern)
            yield part._replace(positions=part.positions + position)
    elif _footer(file) is None:
        yield _in_parquet(np.zeros(1, EFFECT), 0)
    else:
        names = [*OF_COLUMNS] if landing.identity == "columns" else [landing.column]
        for batch in pq.ParquetFile(file).iter_batches(columns=names):
            if landing.identity == "columns":
                yield _in_parquet(_of_columns(batch), 0)
            else:
                part = scan(_as_lines(batch.column(0)), pattern)
                yield _in_parquet(part.rows, part.foreign)


def effects_in(landing: EffectsPlace, file: Path, pattern: RecordPattern) -> int:
    """Returns how many effects a file holds. Does not use `scans_of`: counts lines, or takes the number of rows from
    the footer of a Parquet file. Lines and rows that hold only records of other runs do not count. If columns identify
    a record, every row of a Parquet file counts."""
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
    """Returns the footer of a Parquet file. Returns None if the footer is missing (perhaps not yet written) or damaged.
    The caller counts a file without a footer as one effect that names no record."""
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
    is_named = np.all([rows[name] >= 0 for name in OF_COLUMNS], axis=0)
    rows[~is_named] = np.zeros(1, EFFECT)
    rows["flags"] = is_named * (PARSED | CRC_OK)
    return rows


def _as_lines(column: pa.Array) -> bytes:
    """Returns the values of a column as lines of text. A null becomes a line that names no record."""
    values = column.cast(pa.binary()).fill_null(b"null")
    rows = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return bytes(pc.binary_join(rows, pa.scalar(b"\n", pa.binary()))[0].as_py()) + b"\n"
