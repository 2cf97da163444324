"""Scanning text for records: finds the headers of records in lines, and checks the checksums of the records.

Works on blocks of lines with operations on whole arrays. A record may stand anywhere in a line, e.g. inside JSON.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from delivery_verifier.applications.sink import CRC_OK, EFFECT, FOREIGN, PARSED
from delivery_verifier.model import record
from delivery_verifier.model.errors import VerifierError

BLOCK_BYTES = 4 << 20
"""The size of the part of a file that is read at a time."""
_NEWLINE = 10
_Bytes = npt.NDArray[np.uint8]
MAGIC = record.MAGIC + b" "
"""The bytes with which the records of all runs begin."""


class PlaceBusy(VerifierError, RuntimeError):
    """The effects cannot be read now, because a transaction of the application has locked them."""


class RecordPattern(NamedTuple):
    """What a reader looks for in effects.

    * `run_token`, `arm`: a record belongs to the run and the arm if its header has both values.
    * `size`: the size of a record in bytes.
    * `is_header`: whether the header of a record is enough. Otherwise the whole record must be there, with its
      checksum.
    * `containing`: a line is an effect only if it has these bytes.
    """

    run_token: str
    arm: int
    size: int
    is_header: bool = False
    containing: bytes = b""

    @property
    def length(self) -> int:
        """The number of bytes of a record that must be there."""
        return record.HEADER_BYTES if self.is_header else self.size

    @property
    def beginning(self) -> bytes:
        """The bytes with which every record of the run begins."""
        return MAGIC + self.run_token.encode()


class Scan(NamedTuple):
    """The effects in a block of lines.

    * `rows`: the effects, in the form EFFECT (the NumPy type of an effect).
    * `positions`: the item i is the position in the block at which the line of row i begins.
    * `foreign`: the number of lines that hold only records of other runs. These lines have no row.
    """

    rows: npt.NDArray[np.void]
    positions: npt.NDArray[np.int64]
    foreign: int


def blocks_of(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file in blocks, each with the block's position in the file, in bytes. Each block ends with
    a newline.

    If the file does not end with a newline, a newline is added to the last block.
    """
    position, rest = 0, b""
    with file.open("rb") as stream:
        while chunk := stream.read(BLOCK_BYTES):
            text = rest + chunk
            cut = text.rfind(b"\n") + 1
            if cut:
                yield position, text[:cut]
                position += cut
            rest = text[cut:]
    if rest:
        yield position, rest + b"\n"


def scan(text: bytes, pattern: RecordPattern) -> Scan:
    """Returns the effects in `text`, a block of lines.

    Each record of the run is one effect. If the same record stands twice in a line, e.g. as input and as output, both
    together are one effect. A line without any record is one effect, too, which names no attempt.
    """
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    is_effect = ends > starts
    if pattern.containing:
        is_effect &= _has(ends, _find(data, pattern.containing))
    own, others = _find(data, pattern.beginning), _find(data, MAGIC)
    own = own[is_effect[np.searchsorted(ends, own)]]
    own = _without_copies(data, own, np.searchsorted(ends, own), pattern.length)
    has_own, has_other = _has(ends, own), _has(ends, others)
    unnamed = np.flatnonzero(is_effect & ~has_own & ~has_other)
    rows = np.concatenate([_rows(data, own, pattern), np.zeros(len(unnamed), EFFECT)])
    lines = np.concatenate([np.searchsorted(ends, own), unnamed])
    order = np.argsort(lines, kind="stable")
    return Scan(rows[order], starts[lines[order]], int((is_effect & ~has_own & has_other).sum()))


def scan_values(values: Sequence[bytes | None], pattern: RecordPattern, positions: Sequence[int]) -> Scan:
    """Returns the effects in `values`. Treats each value as a line. `positions[i]` is the position of the value i.

    A value that is missing or empty is one effect, which names no attempt.
    """
    lines = [(value or b"null").replace(b"\n", b" ") for value in values]
    starts = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])])
    part = scan(b"".join(line + b"\n" for line in lines), pattern)
    return part._replace(positions=np.asarray(positions, np.int64)[np.searchsorted(starts, part.positions)])


def count(text: bytes, pattern: RecordPattern) -> int:
    """Returns how many effects `scan` must find in `text`. Counts them by another method, with pyarrow."""
    lines = pc.split_pattern(pa.array([text], pa.binary()), pattern=b"\n").flatten()
    is_effect = pc.greater(pc.binary_length(lines), 0)
    if pattern.containing:
        is_effect = pc.and_(is_effect, pc.match_substring(lines, pattern.containing))
    lines = lines.filter(is_effect)
    own = pc.count_substring(lines, pattern.beginning)
    foreign = pc.and_(pc.equal(own, 0), pc.match_substring(lines, MAGIC))
    total = pc.sum(pc.max_element_wise(own, 1)).as_py() or 0
    copies = sum(_copies(line, pattern) for line in lines.filter(pc.greater(own, 1)).to_pylist())
    return int(total) - int(pc.sum(foreign).as_py() or 0) - copies


def _copies(line: bytes, pattern: RecordPattern) -> int:
    """Returns how many records in `line` repeat a record that stands earlier in the line."""
    starts = [match.start() for match in re.finditer(re.escape(pattern.beginning), line)]
    return len(starts) - len({line[start : start + pattern.length] for start in starts})


def _without_copies(
    data: _Bytes, positions: npt.NDArray[np.int64], lines: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.int64]:
    """Returns `positions` without those of repeated records, i.e. of records that already stand earlier in the same
    line.

    `lines[i]` is the number of the line in which `positions[i]` is. `size` is the size of a record in bytes.
    """
    is_copy = np.zeros(len(positions), bool)
    latest, earlier = -1, set[bytes]()
    for index in np.flatnonzero(lines[1:] == lines[:-1]) + 1:
        if lines[index] != latest:
            latest, earlier = int(lines[index]), {bytes(data[positions[index - 1] :][:size])}
        text = bytes(data[positions[index] :][:size])
        is_copy[index] = text in earlier
        earlier.add(text)
    return positions[~is_copy]


def _rows(data: _Bytes, positions: npt.NDArray[np.int64], pattern: RecordPattern) -> npt.NDArray[np.void]:
    """Returns one effect for each of `positions`. A record of the run begins at each of these positions."""
    rows = np.zeros(len(positions), EFFECT)
    if not len(positions):
        return rows
    size = pattern.length
    padded = np.concatenate([data, np.zeros(size, np.uint8)])
    records = np.lib.stride_tricks.sliding_window_view(padded, size)[positions]
    is_sound, numbers = np.ones(len(rows), bool), dict[str, npt.NDArray[np.int64]]()
    for name, field in record.FIELDS.items():
        end = field.start + field.width
        is_sound &= records[:, end] == ord(" ")
        if name not in ("magic", "run"):
            numbers[name], is_number = _numbers(records[:, field.start : end])
            is_sound &= is_number
    has_crc = np.ones(len(rows), bool)
    if not pattern.is_header:
        written, is_number = _numbers(records[:, -record.CRC_WIDTH :])
        is_sound &= is_number
        bodies = np.ascontiguousarray(records[:, : -record.CRC_WIDTH])
        has_crc = written == np.fromiter(map(zlib.crc32, bodies), np.int64, len(bodies))
    is_foreign = numbers.pop("arm") != pattern.arm
    for name, values in numbers.items():
        rows[name] = np.where(is_sound, values, 0)
    rows["flags"] = is_sound * (PARSED | has_crc * CRC_OK | is_foreign * FOREIGN)
    return rows


def _numbers(digits: _Bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Returns, for each row of digits, its number, and whether all bytes of the row are digits."""
    values = digits - np.uint8(ord("0"))  # what is no digit becomes greater than 9
    units = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    is_number: npt.NDArray[np.bool_] = np.asarray((values <= 9).all(axis=1))
    return values.astype(np.int64) @ units, is_number


def _find(data: _Bytes, pattern: bytes) -> npt.NDArray[np.int64]:
    """Returns the positions at which `pattern` begins in `data`."""
    last = len(data) - len(pattern) + 1
    positions = np.flatnonzero(data[: max(last, 0)] == pattern[0])
    for index, byte in enumerate(pattern[1:], 1):
        positions = positions[data[positions + index] == byte]
    return positions


def _has(ends: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Returns, for each line, whether one of `positions` is in the line. `ends` are the positions of the newlines."""
    result = np.zeros(len(ends), bool)
    result[np.searchsorted(ends, positions)] = True
    return result
