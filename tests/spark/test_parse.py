"""Tests that Spark's parser, its oracle and the library's parser give the same result for any bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support import parse_oracle
from support.compilations import compilations
from support.run_directories import TOKEN, scenario

from delivery_verifier.model import record
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from spark_jobs.reading.parse import is_marker, is_usual, parse, sliced_columns
from spark_jobs.reading.read_topic import view
from spark_jobs.schemas import LOG, RAW, arrow

MADE = scenario(["one"])
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _valid(sequence: int, run: str = TOKEN, size: int = 100) -> bytes:
    return record.encode(run, 1, 0, 0, sequence, 0, sequence, size)


def _checksummed(body: bytes) -> bytes:
    return body + b"%010d" % zlib.crc32(body)


def _damaged(draw: Any) -> bytes:
    value = bytearray(_valid(draw(st.integers(0, 10**12 - 1)), size=draw(st.integers(70, 120))))
    for _ in range(draw(st.integers(0, 3))):
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    return bytes(value[draw(st.sampled_from([0, 0, 0, 1, 30])) :])


def _forged(draw: Any) -> bytes:
    """A record of any fields, of which some are replaced by texts that a cast may take for numbers. Its checksum agrees
    with its bytes."""
    numbers = [draw(st.integers(0, 10**width - 1)) for width in (4, 4, 4, 12, 4, 12)]
    numbers = [number if draw(st.booleans()) else number % 3 for number in numbers]
    sizes = st.integers(record.MIN_PAYLOAD_BYTES, 120)
    body = bytearray(record.encode(draw(st.sampled_from([TOKEN, "otherrun"])), *numbers, draw(sizes))[:-10])
    for name in draw(st.lists(st.sampled_from(sorted(record.FIELDS)), max_size=2)):
        start, width = record.FIELDS[name]
        text = draw(st.text(" 0123456789+-._eEL\t\x00\x1f\x7f", min_size=width, max_size=width))
        body[start : start + width] = text.encode()
    return _checksummed(bytes(body[: draw(st.sampled_from([None, None, None, 59]))]))


SAMPLES = st.lists(
    st.one_of(st.binary(max_size=140), st.composite(_damaged)(), st.composite(_forged)()), min_size=50, max_size=50
)
AWKWARD = [
    None,
    b"",
    b"KDV1",
    b"\xff" * 100,
    b"0" * 70,
    _valid(7),
    _valid(7)[:-1],
    _valid(7) + b" ",
    _valid(7).replace(b"000000000007", b"         +07", 1),
    _valid(7).replace(b"000000000007", b"0000000000_7", 1),
    _valid(7).replace(b"000000000007", "00000000000\u0667".encode()[:12], 1),
    _valid(7)[:-10] + b"9999999999",
    _valid(7)[:-10] + b"-000000001",
    *(
        value
        for sequence in range(40)  # some have checksums of nine digits
        for form in (b"%010d", b"%10d", b"%-10d")
        for value in [_valid(sequence)[:-10] + form % zlib.crc32(_valid(sequence)[:-10])]
    ),
    _valid(7, run="otherrun"),
    b"KDV1 " + b"\x00" * 65,
    b"\x00" * 20 + _valid(7)[20:],
    b"\x00" * 60 + _valid(7)[60:],
    b"\xff" * 20 + TOKEN.encode() + b"\xc3" * 20,
    b'{"order": 7, "paid": true}',
    _valid(7, size=70),
]


def _samples() -> list[bytes | None]:
    """Returns byte strings for one Spark job: the hand-written AWKWARD, and strings that Hypothesis generates. They are
    the same in every run."""
    drawn: list[bytes] = []

    @settings(
        max_examples=40,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(SAMPLES)
    def draw(values: list[bytes]) -> None:
        drawn.extend(values)

    draw()
    return [*AWKWARD, *drawn]


def _altered() -> Iterator[bytes]:
    """A usual record and a rare record with every byte altered to every other value: once with the checksum as it was,
    and once with a checksum that agrees with the altered bytes."""
    for value in (_valid(7, size=75), record.encode(TOKEN, 1, 1234, 5, 999_999_999_999, 7, 10**12 - 1, 75)):
        for position in range(len(value)):
            for byte in range(256):
                altered = value[:position] + bytes([byte]) + value[position + 1 :]
                yield altered
                if position < len(value) - record.CRC_WIDTH:
                    yield _checksummed(altered[: -record.CRC_WIDTH])


def _raw(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    """RAW with one row per value, whose offset is its position in `values`."""
    rows = {
        "arm": ["one"] * len(values),
        "partition": [0] * len(values),
        "offset": list(range(len(values))),
        "timestamp": [NOW] * len(values),
        "value": values,
    }
    return spark.createDataFrame(pa.table(rows, schema=arrow(RAW)))


def _agree(spark: SparkSession, values: list[bytes | None]) -> tuple[int, int]:
    """Asserts that parser and oracle give the same row for each value. Returns how many values are records, and how
    many of these are sound."""
    raw = _raw(spark, values)
    rows, expected = (frame.orderBy("offset").toArrow() for frame in (parse(raw, MADE), parse_oracle.parse(raw, MADE)))
    assert rows.num_rows == expected.num_rows == len(values)
    for name in LOG.names:
        differences = pc.indices_nonzero(pc.invert(_equal(rows[name], expected[name]))).to_pylist()
        assert not differences, (name, values[differences[0]])
    return pc.sum(rows["parsed"]).as_py(), pc.sum(rows["crc_ok"]).as_py()


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    """Row by row, whether two columns are equal. Nulls are equal."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both_null, pc.fill_null(pc.equal(left, right), False))


def test_parser_and_oracle_agree_on_a_record_with_any_byte_altered(spark: SparkSession) -> None:
    values: list[bytes | None] = list(_altered())
    records, sound = _agree(spark, values)
    assert len(values) == 2 * 256 * (75 + 65)
    # every digit of a number may be any other digit, and every byte of token and padding may be any visible or any byte
    assert records > sound > 2 * 256 and len(values) > 2 * records


def test_parser_and_oracle_agree_on_arbitrary_bytes(spark: SparkSession) -> None:
    values = _samples()
    records, sound = _agree(spark, values)
    assert 0 < sound < records < len(values)


@pytest.mark.parametrize("size", [70, 100])
def test_a_record_of_the_usual_form_needs_no_regular_expression(spark: SparkSession, size: int) -> None:
    values = [record.encode(TOKEN, 1, producer, 0, n, 0, n, size) for producer in (0, 999) for n in (0, 9, 10**11 - 1)]
    rare = [
        record.encode(TOKEN, 1, 1000, 0, 0, 0, 0, size),
        record.encode(TOKEN, 1, 0, 1, 0, 0, 0, size),
        record.encode(TOKEN, 1, 0, 0, 0, 1, 0, size),
        record.encode(TOKEN, 1, 0, 0, 10**11, 0, 0, size),
        record.encode(TOKEN, 2, 0, 0, 0, 0, 0, size),
        record.encode("otherrun", 1, 0, 0, 0, 0, 0, size),
    ]
    usual = _raw(spark, [*values, *rare]).withColumns(sliced_columns()).select(is_usual(MADE)).toArrow()[0]
    assert usual.to_pylist() == [True] * len(values) + [False] * len(rare)


def test_another_run_needs_no_other_code(spark: SparkSession, tmp_path: Path) -> None:
    """Token and snapshot differ from run to run. Code with them would be compiled anew."""
    _raw(spark, [_valid(7), b"x"]).write.parquet(str(tmp_path / "raw"))
    frame = spark.read.parquet(str(tmp_path / "raw"))
    counts = []
    for token, end in ((TOKEN, 1), ("otherrun", 2), ("thirdrun", 3)):
        part = {"arm": "one", "topic": "t-one", "partition": 0, "leader": 1, "leader_epoch": 0}
        parts = [PartitionSnapshot(**part, start=0, end=end, live_end=end + 2)]
        views = view(Offsets(bootstrap_servers="nowhere:1", taken_at_us=0, partitions=parts))
        rows = parse(frame, msgspec.structs.replace(MADE, run_token=token), views).toArrow()
        assert rows["foreign"].to_pylist() == [token != TOKEN, True]
        counts.append(compilations(spark))
    assert 0 < counts[0] == counts[1] == counts[2]
    frame.where(F.col("offset") % 987_654_322 == 1).toArrow()
    assert compilations(spark) > counts[2], "a number that is new is compiled, and counted"


@pytest.fixture(scope="module")
def parsed(spark: SparkSession) -> list[tuple[bytes | None, Any]]:
    values = _samples()
    frame = parse(_raw(spark, values), MADE)
    assert [field.name for field in frame.schema] == LOG.names
    marked = frame.withColumn("marker", is_marker()).orderBy("offset").collect()
    return list(zip(values, marked, strict=True))


def test_spark_and_the_library_parse_any_bytes_alike(parsed: list[tuple[bytes | None, Any]]) -> None:
    assert len(parsed) > 1500
    for value, row in parsed:
        header = None if value is None else record.parse(value)
        assert row["parsed"] == (header is not None), value
        assert row["crc_ok"] == bool(header and header.crc_ok), value
        for name in ("producer", "session", "sequence", "attempt", "partition_sequence"):
            assert row[name] == (getattr(header, name) if header else None), (name, value)
        assert row["header_run"] == (header.run if header else None), value
        assert row["header_arm"] == (header.arm if header else None), value
        other = header.run != TOKEN or header.arm != 1 if header else record.is_of_foreign_writer(value, TOKEN)
        assert row["foreign"] == other, value


def test_the_samples_have_sound_damaged_and_illegible_ones(parsed: list[tuple[bytes | None, Any]]) -> None:
    kinds = {(row["parsed"], row["crc_ok"]) for _, row in parsed}
    assert kinds == {(True, True), (True, False), (False, False)}
    foreign = {(row["parsed"], row["foreign"]) for _, row in parsed}
    assert foreign == {(True, True), (True, False), (False, True), (False, False)}


def test_only_a_sound_record_of_this_run_can_be_a_marker(spark: SparkSession) -> None:
    def marker(run: str) -> bytes:
        return record.encode(run, 1, record.MARKER_PRODUCER, 0, 0, 0, 0, 70)

    sound, other = marker(TOKEN), marker("otherrun")
    values: list[bytes | None] = [sound, other, sound[:-1] + bytes([sound[-1] ^ 1]), _valid(1), b"?"]
    found = parse(_raw(spark, values), MADE).where(is_marker()).collect()
    assert [row["offset"] for row in found] == [0]
