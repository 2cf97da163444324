"""Tests that Spark's parser and the library's parser give the same result for any bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from support.run_directories import TOKEN, scenario

from delivery_verifier.model import record
from spark_jobs.parse import is_marker, parse
from spark_jobs.schemas import LOG, RAW

MADE = scenario(["one"])
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _valid(sequence: int, run: str = TOKEN, size: int = 100) -> bytes:
    return record.encode(run, 1, 0, 0, sequence, 0, sequence, size)


def _damaged(draw: Any) -> bytes:
    value = bytearray(_valid(draw(st.integers(0, 10**12 - 1)), size=draw(st.integers(70, 120))))
    for _ in range(draw(st.integers(0, 3))):
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    return bytes(value[draw(st.sampled_from([0, 0, 0, 1, 30])) :])


SAMPLES = st.lists(st.one_of(st.binary(max_size=140), st.composite(_damaged)()), min_size=400, max_size=400)
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
        max_examples=3,
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


@pytest.fixture(scope="module")
def parsed(spark: SparkSession) -> list[tuple[bytes | None, Any]]:
    values = _samples()
    rows = [("one", 0, at, NOW, None if value is None else bytearray(value)) for at, value in enumerate(values)]
    frame = parse(spark.createDataFrame(rows, RAW), MADE)
    assert [field.name for field in frame.schema] == LOG.names
    marked = frame.withColumn("marker", is_marker()).orderBy("offset").collect()
    return list(zip(values, marked, strict=True))


def test_spark_and_the_library_parse_any_bytes_alike(parsed: list[tuple[bytes | None, Any]]) -> None:
    assert len(parsed) > 800
    for value, row in parsed:
        header = None if value is None else record.parse(value)
        assert row["parsed"] == (header is not None), value
        assert row["crc_ok"] == bool(header and header.crc_ok), value
        for name in ("producer", "session", "sequence", "attempt", "partition_sequence"):
            assert row[name] == (getattr(header, name) if header else None), (name, value)
        assert row["header_run"] == (header.run if header else None), value
        assert row["header_arm"] == (header.arm if header else None), value
        other = header.run != TOKEN or header.arm != 1 if header else record.is_of_stranger(value, TOKEN)
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
    values = [sound, other, sound[:-1] + bytes([sound[-1] ^ 1]), _valid(1), b"?"]
    rows = [("one", 0, at, NOW, bytearray(value)) for at, value in enumerate(values)]
    found = parse(spark.createDataFrame(rows, RAW), MADE).where(is_marker()).collect()
    assert [row["offset"] for row in found] == [0]
