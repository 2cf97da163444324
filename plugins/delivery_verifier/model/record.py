"""The format of the records that the load sends: a fixed-width header, padding, and a checksum of header and padding.

    KDV1 run----- arm- prod sess sequence---- att- partition-seq padding... crc32-----
    0    5        14   19   24   29           42   47            60         len-10

The second line has the position in bytes at which each field begins. `len` is the length of the record in bytes. All
fields are ASCII. Numbers are decimal and padded with zeros. So people can read a record in any console consumer, and
Spark can slice a record with `substring`, without a UDF. The checksum is CRC-32 (ISO-HDLC, as in zlib and Spark's
`crc32`) in ten decimal digits.

* run: the run's token (`Scenario.run_token`).
* arm: the number of the arm (`Arm.ordinal`).
* prod: the number of the producer within its arm.
* sess: the number of the producer's session, which is always 0.
* sequence: the number that the producer gives to a record. Each producer counts from 0.
* att: the number of the attempt. The attempts of one sequence have the numbers 0, 1, 2 and so on. A retry inside the
  client library is no attempt.
* partition-seq: the number of the attempt among all attempts of this producer to the same partition, from 0 on.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAGIC = b"KDV1"
CRC_WIDTH = 10
HEADER_BYTES = 60
MIN_PAYLOAD_BYTES = HEADER_BYTES + CRC_WIDTH
ENVELOPE_BYTES = 1000
"""An upper bound of the bytes that Kafka's protocol adds to a record. librdkafka counts the added bytes against its
setting message.max.bytes."""
MARKER_PRODUCER = 9999
"""The producer number of the markers: records that the verifier writes after the load, to prove where the load ends."""


class Field(NamedTuple):
    """The position of a header field in a record. `start` counts from 0, but Spark's `substring` counts from 1."""

    start: int
    width: int


FIELDS: dict[str, Field] = {
    "magic": Field(0, 4),
    "run": Field(5, 8),
    "arm": Field(14, 4),
    "producer": Field(19, 4),
    "session": Field(24, 4),
    "sequence": Field(29, 12),
    "attempt": Field(42, 4),
    "partition_sequence": Field(47, 12),
}
SEQUENCE = slice(FIELDS["sequence"].start, FIELDS["sequence"].start + FIELDS["sequence"].width)
"""The slice of a Kafka record's value that holds the sequence."""

HEADER_PATTERN = r"KDV1 [!-~]{8} [0-9]{4} [0-9]{4} [0-9]{4} [0-9]{12} [0-9]{4} [0-9]{12} "
"""The header as a regular expression that means the same in Python and Java. Numbers are digits only, without signs or
blanks."""

NUMBERS_PATTERN = r"[0-9]{4} [0-9]{4} [0-9]{12} [0-9]{4} [0-9]{12} "
"""The numbers of a header, from the producer on, as a regular expression that means the same in Python and Java."""

_HEADER = re.compile(HEADER_PATTERN.encode())
_PADDING = b"the-padding-is-deterministic-so-that-a-flipped-took_effect-is-seen-"


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of the header, which is the first part of a record's value. The module docstring explains the fields.

    `crc_ok` is False if the checksum in the value does not match the rest of the value.
    """

    run: str
    arm: int
    producer: int
    session: int
    sequence: int
    attempt: int
    partition_sequence: int
    crc_ok: bool


def encode(
    run: str, arm: int, producer: int, session: int, sequence: int, attempt: int, partition_sequence: int, size: int
) -> bytes:
    """Returns one record of `size` bytes. The other parameters are the values of the header's fields.

    Raises ValueError if `size` is too small, or if a field does not fit into its width.
    """
    if size < MIN_PAYLOAD_BYTES:
        raise ValueError(f"payload_bytes is {size}, and the record header needs at least {MIN_PAYLOAD_BYTES}")
    if not re.fullmatch("[!-~]{8}", run):
        raise ValueError(f"run token {run!r} must be {FIELDS['run'].width} visible ASCII characters")
    head = b"%s %s %04d %04d %04d %012d %04d %012d " % (
        MAGIC,
        run.encode(),
        arm,
        producer,
        session,
        sequence,
        attempt,
        partition_sequence,
    )
    if len(head) != HEADER_BYTES:
        raise ValueError(f"a header field is out of range: {head!r}")
    pad = size - MIN_PAYLOAD_BYTES
    body = head + (_PADDING * (pad // len(_PADDING) + 1))[:pad]
    return body + b"%010d" % zlib.crc32(body)


def parse(value: bytes) -> Header | None:
    """Returns the header of `value`, or None if `value` is not a record of this format. Never raises an error."""
    # int() alone would read b" +1_0" as a number.
    if len(value) < MIN_PAYLOAD_BYTES or not _HEADER.match(value) or not value[-CRC_WIDTH:].isdigit():
        return None
    numbers = {
        name: int(value[field.start : field.start + field.width])
        for name, field in FIELDS.items()
        if name not in ("magic", "run")
    }
    crc_ok = int(value[-CRC_WIDTH:]) == zlib.crc32(value[:-CRC_WIDTH])
    return Header(run=value[5:13].decode("ascii"), crc_ok=crc_ok, **numbers)


TRACES = "|".join((MAGIC.decode(), NUMBERS_PATTERN, _PADDING[:12].decode()))
"""A regular expression, for Python and Java, that matches a trace of a record of any run: the magic, the numbers of a
header, or the beginning of the padding. A trace may stand at any place. A damaged record usually still has a trace.

The token of the run is a trace, too, but this expression does not contain the token. So whoever looks for traces must
also look for the token."""


def is_of_foreign_writer(value: bytes | None, run: str) -> bool:
    """Returns whether `value` has no trace of a record of the run `run` (see `TRACES`).

    Either another client wrote such a value, or the value is so damaged that no trace is left. None stands for a Kafka
    record without a value. The load never sends such a record.
    """
    return value is None or not (run.encode() in value or re.search(TRACES.encode(), value))


_GROUP = 4
"""The encoder writes numbers in groups of four digits. The width of each number is a multiple of four. The exception is
the checksum with ten digits: its first group has two digits."""
_GROUPS = np.frombuffer(b"".join(b"%04d" % number for number in range(10**_GROUP)), np.uint8).reshape(-1, _GROUP)
"""Row n has the digits of n, as ASCII, for n below 10,000."""


class BlockEncoder:
    """Encodes blocks. A block is a number of records with consecutive sequences, which one producer sends to one
    partition.

    The class uses array operations, because a Python loop over records would be too slow. The template is the record in
    which `sequence` and `partition_sequence` are 0. All records of a block equal the template, except for the digits of
    these two numbers and of the checksum.

    The checksum of a record is the template's checksum, XORed with one table entry per group of four digits. This is
    right because CRC-32 is affine over messages of equal length: if some bytes change, the checksum changes by an XOR
    that depends only on the positions of the bytes and on the change.
    """

    def __init__(self, run: str, arm: int, producer: int, session: int, attempt: int, size: int) -> None:
        self._template = np.frombuffer(encode(run, arm, producer, session, 0, attempt, 0, size), np.uint8).copy()
        body = self._template[:-CRC_WIDTH].tobytes()
        self._base_crc = zlib.crc32(body)
        # position of a group's first byte -> for each number of four digits, the XOR that it causes in the checksum
        self._delta: dict[int, npt.NDArray[np.uint32]] = {}
        for name in ("sequence", "partition_sequence"):
            start, width = FIELDS[name]
            for group in range(start, start + width, _GROUP):
                delta = np.zeros(1, np.uint32)
                for position in range(group, group + _GROUP):
                    delta = (delta[:, None] ^ self._digit_deltas(body, position)).ravel()
                self._delta[group] = delta

    def _digit_deltas(self, body: bytes, position: int) -> npt.NDArray[np.uint32]:
        """Returns one number for each digit from 0 to 9: by which XOR the checksum changes if the digit stands at
        `position` of `body`."""
        changed = (body[:position] + b"%d" % digit + body[position + 1 :] for digit in range(10))
        return np.array([zlib.crc32(other) ^ self._base_crc for other in changed], np.uint32)

    def encode(self, sequence: int, partition_sequence: int, count: int) -> list[bytes]:
        """Returns a block of `count` records. The first record has the numbers `sequence` and `partition_sequence`.

        Each of the two numbers rises by one from record to record.
        """
        rows = np.tile(self._template, (count, 1))  # one row per record, one column per byte
        crc = np.full(count, self._base_crc, np.uint32)
        self._write_digits(rows, crc, "sequence", sequence)
        self._write_digits(rows, crc, "partition_sequence", partition_sequence)
        size = rows.shape[1]
        rest, first_byte = crc.astype(np.int64), size - CRC_WIDTH
        rows[:, size - 4 :] = _GROUPS[rest % 10_000]
        rows[:, size - 8 : size - 4] = _GROUPS[rest // 10_000 % 10_000]
        rows[:, first_byte : size - 8] = _GROUPS[rest // 100_000_000, 2:]
        # As strings of fixed size, numpy makes `bytes` of all rows at once. It would drop zero bytes at the end of a
        # string, but every record ends with a digit.
        return rows.view(f"S{size}").ravel().tolist()  # type: ignore[no-any-return]

    def _write_digits(self, rows: npt.NDArray[np.uint8], crc: npt.NDArray[np.uint32], name: str, first: int) -> None:
        """Writes the numbers `first`, `first` + 1 and so on into the header field `name` of the block's records.

        Each row of `rows` holds the bytes of one record. `crc` holds the checksum of each record. The function updates
        `rows` and `crc` in place.
        """
        numbers = np.arange(first, first + len(rows), dtype=np.int64)
        last, (start, width) = first + len(rows) - 1, FIELDS[name]
        for group in range(start, start + width, _GROUP):
            unit = 10 ** (start + width - _GROUP - group)
            if first // unit == last // unit:  # all records of the block have the same digits here
                digits: int | npt.NDArray[np.int64] = first // unit % 10**_GROUP
            else:
                digits = numbers // unit % 10**_GROUP
            rows[:, group : group + _GROUP] = _GROUPS[digits]
            crc ^= self._delta[group][digits]
