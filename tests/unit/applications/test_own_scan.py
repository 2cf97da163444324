"""Tests of the scanner, which finds records in the lines of user applications."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delivery_verifier.applications.own import scan as module
from delivery_verifier.applications.own.files import effects_in, scans_of
from delivery_verifier.applications.own.scan import RecordPattern, blocks_of, count, scan
from delivery_verifier.applications.sink import CRC_OK, FOREIGN, PARSED, identity
from delivery_verifier.model import record
from delivery_verifier.model.sink_location import SinkLocation

RUN, OTHER, ARM, SIZE = "a1b2c3d4", "ffffffff", 3, 120
WANTED = RecordPattern(RUN, ARM, SIZE)


def value(sequence: int, *, run: str = RUN, arm: int = ARM, size: int = SIZE, attempt: int = 0) -> bytes:
    return record.encode(run, arm, 1, 0, sequence, attempt, sequence // 3, size)


def found(text: bytes, pattern: RecordPattern = WANTED) -> list[tuple[int, int]]:
    """Returns sequence and flags of each effect."""
    part = scan(text, pattern)
    assert count(text, pattern) == len(part.rows)
    return [(int(row["sequence"]), int(row["flags"])) for row in part.rows]


SOUND = PARSED | CRC_OK


@pytest.mark.parametrize(
    "line",
    [
        b"%s",
        b'{"key":null,"value":"%s","partition":0}',
        b"2026-01-01,%s,x",
        b"  | %s |  ",
        b'"%s"',
        b"CreateTime:1\t%s",
    ],
)
def test_a_record_is_found_wherever_it_stands_in_a_line(line: bytes) -> None:
    text = b"".join(line % value(number) + b"\n" for number in range(5))
    assert found(text) == [(number, SOUND) for number in range(5)]


def test_numbers_and_flags_are_those_of_the_parser_of_single_records() -> None:
    dice, values = random.Random(1), list[bytes]()
    for number in range(3000):
        each = bytearray(value(dice.randrange(10**12), arm=dice.choice((ARM, 4)), attempt=dice.randrange(9)))
        if number % 2:
            each[dice.randrange(14, SIZE)] = dice.choice(b"0123456789 xKDV+-")
        values.append(bytes(each))
    part = scan(b"\n".join(values) + b"\n", WANTED)
    names = ("sequence", "partition_sequence", "producer", "session", "attempt", "flags")
    assert [tuple(row[name] for name in names) for row in part.rows] == [identity(each, RUN, ARM) for each in values]
    assert {0, PARSED, SOUND, SOUND | FOREIGN, PARSED | FOREIGN} == set(part.rows["flags"].tolist())


def test_a_value_cut_short_is_an_effect_that_names_no_attempt() -> None:
    assert found(value(1)[:-1] + b"\n") == [(0, 0)]
    assert found(value(1)[:40] + b"\n" + value(2) + b"\n") == [(0, 0), (2, SOUND)]
    assert found(b"nothing\n\n") == [(0, 0)]
    assert found(b"KDV1 %s??????\n" % RUN.encode()) == [(0, 0)], "damaged, and of this run"
    assert found(value(1)[:40] + value(2) + b"\n") == [(0, 0), (2, SOUND)]


def test_the_header_alone_is_enough_if_the_operator_says_so() -> None:
    header = WANTED._replace(is_header=True)
    assert found(value(7)[: record.HEADER_BYTES] + b"\n", header) == [(7, SOUND)]
    assert found(value(7)[:50] + b"\n", header) == [(0, 0)]


def test_several_records_in_a_line_are_several_effects() -> None:
    assert found(json.dumps([value(1).decode(), value(2).decode()]).encode() + b"\n") == [(1, SOUND), (2, SOUND)]


@pytest.mark.parametrize("pattern", [WANTED, WANTED._replace(is_header=True)])
def test_the_same_record_twice_in_a_line_is_one_effect(pattern: RecordPattern) -> None:
    twice = b'{"raw":"%s","out":"%s"}\n'
    first, second = value(1), value(2)
    text = twice % (first, first) + b"%s %s %s %s\n" % (first, second, first, second) + first + b"\n" + first + b"\n"
    assert found(text, pattern) == [(number, SOUND) for number in (1, 1, 2, 1, 1)]
    assert found(twice % (first[:50], first[:50]), pattern) == [(0, 0), (0, 0)], "damaged: nobody knows of what"


def test_a_damaged_copy_in_a_line_is_no_second_mention() -> None:
    assert found(b"%s %s\n" % (value(1), value(1)[:-1] + b"x")) == [(1, SOUND), (0, 0)]


def test_records_of_other_runs_have_no_row_and_are_counted() -> None:
    text = value(1, run=OTHER) + b"\n" + value(2) + b"\n" + value(3, run=OTHER) + b"\n"
    assert found(text) == [(2, SOUND)] and scan(text, WANTED).foreign == 2


def test_only_lines_with_the_text_are_effects() -> None:
    pattern = WANTED._replace(containing=b"record_data")
    text = b'{"name":"startup"}\n{"name":"record_data","value":"%s"}\nINFO %s\n' % (value(1), value(2))
    assert found(text, pattern) == [(1, SOUND)]


def test_blocks_are_cut_between_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    lines = [b"%d %s\n" % (number, value(number)) for number in range(100)]
    file = tmp_path / "out"
    file.write_bytes(b"".join(lines)[:-1])
    blocks = list(blocks_of(file))
    assert len(blocks) > 10 and b"".join(text for _, text in blocks) == b"".join(lines)
    positions = [position + at for position, text in blocks for at in scan(text, WANTED).positions]
    assert positions == np.cumsum([0, *map(len, lines)])[:-1].tolist()


def test_many_lines_do_not_pile_up_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "out"
    block = b"".join(value(number) + b"\n" for number in range(20_000))
    with file.open("wb") as stream:
        for _ in range(5):
            stream.write(block)
    parts = [len(part.rows) for part in scans_of(SinkLocation(), file, WANTED)]
    assert sum(parts) == 100_000 == effects_in(SinkLocation(), file, WANTED)
    assert max(parts) <= 2 * module.BLOCK_BYTES // SIZE


def test_rows_of_parquet_files(tmp_path: Path) -> None:
    file = tmp_path / "part.parquet"
    columns = {"producer": [1, 1], "sequence": [5, None], "attempt": [0, 0]}
    pq.write_table(pa.table({"value": [value(5).decode(), None], **columns}), file)
    for place, expected in (
        (SinkLocation(kind="files", where="/x"), [(5, SOUND), (0, 0)]),
        (SinkLocation(kind="files", where="/x", identity="columns"), [(5, SOUND), (0, 0)]),
    ):
        rows = [row for part in scans_of(place, file, WANTED) for row in part.rows]
        assert [(int(row["sequence"]), int(row["flags"])) for row in rows] == expected
        assert effects_in(place, file, WANTED) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "size", "footer"])
def test_a_parquet_file_without_a_sound_footer_is_one_effect_without_a_record(tmp_path: Path, damage: str) -> None:
    """A file that is being written, or that a kill cut short, may end with any bytes."""
    file, place = tmp_path / "part.parquet", SinkLocation(kind="files", where="/x")
    pq.write_table(pa.table({"value": [value(5).decode()] * 9}), file)
    whole = file.read_bytes()
    contents = {
        "empty": b"",
        "cut": whole[:-3],
        "size": whole[:50] + b"PAR1",
        "footer": whole[:-60] + b"\x99" * 52 + whole[-8:],
    }
    file.write_bytes(contents[damage])
    assert [[int(row["flags"]) for row in part.rows] for part in scans_of(place, file, WANTED)] == [[0]]
    assert effects_in(place, file, WANTED) == 1
