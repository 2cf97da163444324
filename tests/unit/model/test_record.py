"""Tests of the format of a record: every record that is written is read back unchanged, and no other bytes are read as
a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.model import record

NUMBERS = st.integers(0, 9999)
LONG = st.integers(0, 10**12 - 1)
SIZES = st.integers(record.MIN_PAYLOAD_BYTES, 400)


@given(
    arm=NUMBERS,
    producer=NUMBERS,
    session=NUMBERS,
    attempt=NUMBERS,
    size=SIZES,
    first=st.integers(0, 10**12 - 3000),
    pfirst=st.integers(0, 10**12 - 3000),
    count=st.integers(1, 40),
)
def test_the_block_encoder_writes_what_encode_writes(
    arm: int, producer: int, session: int, attempt: int, size: int, first: int, pfirst: int, count: int
) -> None:
    block = record.BlockEncoder("run-1234", arm, producer, session, attempt, size).encode(first, pfirst, count)
    assert block == [
        record.encode("run-1234", arm, producer, session, first + n, attempt, pfirst + n, size) for n in range(count)
    ]


@pytest.mark.parametrize("first", [0, 8, 95, 990, 9_995, 99_999_995, 999_999_999_990, 123_456_789_999])
def test_the_block_encoder_carries_over_every_power_of_ten(first: int) -> None:
    block = record.BlockEncoder("run-1234", 1, 2, 3, 0, 100).encode(first, max(0, first - 7), 10)
    assert block == [record.encode("run-1234", 1, 2, 3, first + n, 0, max(0, first - 7) + n, 100) for n in range(10)]


@given(arm=NUMBERS, producer=NUMBERS, session=NUMBERS, sequence=LONG, attempt=NUMBERS, pseq=LONG, size=SIZES)
def test_a_record_is_read_as_it_was_written(
    arm: int, producer: int, session: int, sequence: int, attempt: int, pseq: int, size: int
) -> None:
    value = record.encode("!~09azAZ", arm, producer, session, sequence, attempt, pseq, size)
    assert len(value) == size
    assert record.parse(value) == record.Header(
        "!~09azAZ", arm, producer, session, sequence, attempt, pseq, crc_ok=True
    )
    assert int(value[record.SEQUENCE]) == sequence


@given(at=st.integers(0, 119), flip=st.integers(1, 255))
def test_any_flipped_byte_is_seen(at: int, flip: int) -> None:
    value = bytearray(record.encode("run-1234", 1, 2, 3, 4, 5, 6, 120))
    value[at] ^= flip
    header = record.parse(bytes(value))
    assert header is None or not header.crc_ok


@given(st.binary(max_size=200) | st.binary(max_size=140).map(lambda tail: b"KDV1 run-1234 0001 " + tail))
def test_no_bytes_make_the_parser_raise(value: bytes) -> None:
    header = record.parse(value)
    assert header is None or len(value) >= record.MIN_PAYLOAD_BYTES


@pytest.mark.parametrize(
    ("run", "arm", "sequence", "size"),
    [
        ("run-1234", 1, 0, 69),
        ("short", 1, 0, 100),
        ("run 1234", 1, 0, 100),
        ("run-1234", 10_000, 0, 100),
        ("run-1234", 1, 10**12, 100),
    ],
)
def test_what_does_not_fit_the_header_is_refused(run: str, arm: int, sequence: int, size: int) -> None:
    with pytest.raises(ValueError):
        record.encode(run, arm, 0, 0, sequence, 0, 0, size)


def _blank(value: bytes, *kept: slice) -> bytes:
    """The bytes with all but some slices overwritten."""
    blank = bytearray(b"\xff" * len(value))
    for part in kept:
        blank[part] = value[part]
    return bytes(blank)


@pytest.mark.parametrize("kept", [slice(0, 4), slice(5, 13), slice(19, 60), slice(60, 90)])
def test_a_damaged_record_is_no_foreign_writers_as_long_as_one_trace_of_it_is_left(kept: slice) -> None:
    value = record.encode("abcdefgh", 1, 0, 0, 7, 0, 7, 100)
    assert not record.is_of_foreign_writer(value, "abcdefgh")
    assert record.parse(_blank(value, kept)) is None
    assert not record.is_of_foreign_writer(_blank(value, kept), "abcdefgh")
    assert record.is_of_foreign_writer(_blank(value), "abcdefgh")


@pytest.mark.parametrize("value", [None, b"", b"hello", b'{"order": 7}', b"\x00" * 100])
def test_bytes_without_any_trace_of_the_run_are_a_foreign_writers(value: bytes | None) -> None:
    assert record.is_of_foreign_writer(value, "abcdefgh")
