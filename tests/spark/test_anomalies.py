"""Tests of the detectors of anomalies on attempts made by hand: the kind of each subject, the kinds that it hides, and
the words about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from delivery_verifier.model.anomalies import EFFECTS, Anomaly
from spark_jobs.matching.anomalies import BOUND, DETECTORS, FOREIGN_WRITER, OWN, cases, subjects
from spark_jobs.schemas import ANOMALIES, ATTEMPTS, LOCATION_UNIT, SUBJECTS

Row = dict[str, Any]
FLAGS = ("corrupted", "misrouted", "resent", "reordered", "late", "astray", "aborted_visible", "torn")
HIDDEN = ["RESENT", "MISPLACED", "REORDERED", "ABORTED_VISIBLE", "TORN"]
"""The kinds that count even if another kind has precedence."""


def at(offset: int, partition: int = 0) -> int:
    """Returns a location."""
    return offset * LOCATION_UNIT + partition


def attempt(
    sequence: int, outcome: str | None, *copies: int, acked: int | None = None, flags: str = "", **more: Any
) -> Row:
    row = {"arm": "a", "producer": 0, "session": 0, "sequence": sequence, "attempt": 0, "partition": 0}
    row |= {"partition_sequence": sequence, "outcome": outcome, "acked": acked, "copies": list(copies)}
    return row | {name: name in flags.split() for name in FLAGS} | more


def acked(sequence: int, *offsets: int, flags: str = "", **more: Any) -> Row:
    """Returns an attempt that was acknowledged at the offset `sequence`, and is at `offsets`."""
    return attempt(sequence, "ACKED", *map(at, offsets), acked=at(sequence), flags=flags, **more)


ROWS: list[Row] = [
    acked(1, 1),
    acked(2),
    attempt(3, "SENT"),
    attempt(3, "SENT", attempt=1),
    attempt(4, "INDETERMINATE"),
    attempt(5, "FAILED"),
    attempt(6, "FAILED", at(6), at(66), at(60, 1)),
    acked(7, 7, 70),
    acked(8, 80),
    acked(9, 90, 91),
    acked(10, 10, flags="resent"),
    acked(11, 11, flags="reordered"),
    acked(12, 12, flags="aborted_visible"),
    acked(13, 13, flags="torn"),
    acked(14, 14, flags="corrupted"),
    acked(15, 150, 151, flags=" ".join(FLAGS)),
    attempt(16, None, at(16), flags=" ".join(FLAGS)),
    attempt(17, "SENT", at(17)),
    acked(18, 18, flags="late"),
    attempt(19, "INDETERMINATE", at(19), at(190)),
    acked(20, 20, flags="resent reordered"),
    acked(1, partition=1),
    attempt(21, "ACKED", at(9, 1), at(21), acked=at(21), flags="misrouted"),
    attempt(22, "INDETERMINATE", at(8, 1), flags="misrouted"),
    attempt(23, "ACKED", at(7, 1), at(77, 1), acked=at(23), flags="misrouted resent"),
]
ALIENS = [("a", 1, 100, "other", 3, False), ("a", 1, 101, "this", 3, True)]
OF_ALIENS = "arm string, partition int, offset bigint, header_run string, header_arm int, misrouted boolean"
UNATTRIBUTED = [("a", 0, 202, False), ("a", 0, 200, False), ("a", 0, 201, True)]


class Subject(NamedTuple):
    """What is compared of a row of SUBJECTS."""

    sequence: int | None
    attempt: int | None
    partition: int
    copies: tuple[int, ...]
    line: bool
    origin: str | None
    kind: str | None
    also: list[str]


def of_attempt(sequence: int, kind: str | None, *copies: int, also: list[str] | None = None, **more: int) -> Subject:
    number, partition = more.get("attempt", 0), more.get("partition", 0)
    return Subject(sequence, number, partition, tuple(map(at, copies)), False, None, kind, also or [])


def of_line(sequence: int | None, offset: int, origin: str, kind: str | None, partition: int = 0) -> Subject:
    number = None if sequence is None else 0
    return Subject(sequence, number, partition, (at(offset, partition),), True, origin, kind, [])


EXPECTED = [
    of_attempt(1, None, 1),
    of_attempt(2, "LOST"),
    of_attempt(3, "LOST"),
    of_attempt(3, "LOST", attempt=1),
    of_attempt(4, None),
    of_attempt(5, None),
    of_attempt(6, None),
    of_line(6, 6, OWN, "PHANTOM"),
    of_line(6, 66, OWN, "PHANTOM"),
    of_line(6, 60, OWN, "PHANTOM", partition=1),
    of_attempt(7, "DUPLICATED", 7, 70),
    of_attempt(8, "MISPLACED", 80),
    of_attempt(9, "DUPLICATED", 90, 91, also=["MISPLACED"]),
    of_attempt(10, "RESENT", 10),
    of_attempt(11, "REORDERED", 11),
    of_attempt(12, "ABORTED_VISIBLE", 12),
    of_attempt(13, "TORN", 13),
    of_attempt(14, "CORRUPTED", 14),
    of_attempt(15, "CORRUPTED", 150, 151, also=HIDDEN),
    of_line(16, 16, OWN, "PHANTOM"),
    of_attempt(17, None, 17),
    of_attempt(18, None, 18),
    of_attempt(19, "DUPLICATED", 19, 190),
    of_attempt(20, "RESENT", 20, also=["REORDERED"]),
    of_attempt(1, "LOST", partition=1),
    Subject(21, 0, 0, (at(9, 1), at(21)), False, None, "MISROUTED", []),
    Subject(22, 0, 0, (at(8, 1),), False, None, "MISROUTED", []),
    Subject(23, 0, 0, (at(7, 1), at(77, 1)), False, None, "MISROUTED", ["RESENT", "MISPLACED"]),
    of_line(None, 101, "run this, arm 3", "MISROUTED", partition=1),
    of_line(None, 100, "run other, arm 3", "PHANTOM", partition=1),
    of_line(None, 200, "illegible", "CORRUPTED"),
    of_line(None, 202, "illegible", "CORRUPTED"),
    of_line(None, 201, FOREIGN_WRITER, None),
]


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> tuple[list[Row], list[Row]]:
    """Returns the rows of SUBJECTS, and the rows of ANOMALIES with at most three cases of a kind."""
    aliens = spark.createDataFrame(ALIENS, OF_ALIENS)
    unattributed = spark.createDataFrame(
        UNATTRIBUTED, "arm string, partition int, offset bigint, foreign_writer boolean"
    )
    names = ATTEMPTS.names
    attempts = spark.createDataFrame([tuple(row.get(name) for name in names) for row in ROWS], ATTEMPTS)
    frame = subjects(attempts, aliens, unattributed).persist()
    try:
        assert frame.schema.names == SUBJECTS.names
        listed = cases(frame, bound=3)
        assert listed.schema.names == ANOMALIES.names
        return frame.toArrow().to_pylist(), listed.toArrow().to_pylist()
    finally:
        frame.unpersist()


def _order(subject: Subject) -> tuple[Any, ...]:
    return subject.sequence or 0, subject.attempt or 0, subject.partition, subject.line, subject.copies


def test_each_attempt_and_each_line_that_no_attempt_owns_has_its_kind(judged: tuple[list[Row], list[Row]]) -> None:
    rows = [
        Subject(**{name: row[name] for name in Subject._fields} | {"copies": tuple(row["copies"])}) for row in judged[0]
    ]
    assert sorted(rows, key=_order) == sorted(EXPECTED, key=_order)


def test_a_line_has_no_flags_and_no_acknowledgement(judged: tuple[list[Row], list[Row]]) -> None:
    lines = [row for row in judged[0] if row["line"]]
    assert len(lines) == 9
    of_attempts = [name for name in FLAGS if name != "astray"]
    flagged = {row["copies"][0] // LOCATION_UNIT for row in lines if any(row[name] for name in of_attempts)}
    assert flagged == {101, 200, 202}, "misrouted from another arm, or damaged"
    assert {row["acked"] for row in lines} == {None}
    assert [row["acked"] for row in judged[0] if row["sequence"] == 1 and not row["partition"]] == [at(1)]
    assert {row["sequence"] for row in judged[0] if row["late"]} == {15, 18}
    assert not any(row["astray"] for row in lines if row["sequence"] is None)


def test_the_first_cases_are_kept_by_partition_sequence_attempt_and_copy(
    judged: tuple[list[Row], list[Row]],
) -> None:
    kept: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in Anomaly}
    for row in judged[1]:
        kept[row["kind"]].append((row["partition"], row["sequence"], row["attempt"], row["offsets"]))
    assert sorted(kept["LOST"]) == [(0, 2, 0, []), (0, 3, 0, []), (0, 3, 1, [])]
    assert sorted(kept["PHANTOM"]) == [(0, 6, 0, [6]), (0, 6, 0, [66]), (0, 16, 0, [16])]
    assert sorted(offsets for *_, offsets in kept["CORRUPTED"]) == [[14], [150, 151], [200]]
    assert len(judged[1]) == 3 + 3 + 3 + 3 + 3 + 2 + 1 + 1 + 1 + 1
    assert BOUND == 10_000


@pytest.mark.parametrize(
    ("kind", "offsets", "acked_offset", "detail"),
    [
        ("LOST", [], 2, "ACKED at 0:2; in no offset of the log"),
        ("DUPLICATED", [7, 70], 7, "ACKED at 0:7; found at 0:7, 0:70"),
        ("DUPLICATED", [19, 190], None, "INDETERMINATE; found at 0:19, 0:190"),
        ("MISPLACED", [80], 8, "ACKED at 0:8; found at 0:80"),
        ("MISROUTED", [9, 21], 21, "ACKED at 0:21; found at 1:9, 0:21; sent to partition 0"),
        ("MISROUTED", [8], None, "INDETERMINATE; found at 1:8; sent to partition 0"),
        (
            "MISROUTED",
            [7, 77],
            23,
            "ACKED at 0:23; found at 1:7, 1:77; sent to partition 0",
        ),
        ("PHANTOM", [6], None, "FAILED; found at 0:6"),
        ("PHANTOM", [16], None, f"never attempted; claims {OWN}; found at 0:16"),
        ("CORRUPTED", [200], None, "never attempted; claims illegible; found at 0:200"),
        (
            "ABORTED_VISIBLE",
            [12],
            12,
            "ACKED at 0:12; found at 0:12; in the committed view, though its transaction was aborted",
        ),
        ("TORN", [13], 13, "ACKED at 0:13; found at 0:13; not in the committed view, where its transaction is"),
    ],
)
def test_a_case_names_its_offsets_and_says_what_is_known(
    judged: tuple[list[Row], list[Row]], kind: str, offsets: list[int], acked_offset: int | None, detail: str
) -> None:
    known = kind, offsets, acked_offset
    rows = [row for row in judged[1] if (row["kind"], row["offsets"], row["acked_offset"]) == known]
    assert [row["detail"] for row in rows] == [detail]


def test_a_line_in_another_partition_is_named_by_that_partition(spark: SparkSession) -> None:
    aliens = spark.createDataFrame(ALIENS[:1], OF_ALIENS)
    none = spark.createDataFrame([], ATTEMPTS)
    (row,) = cases(subjects(none, aliens, None)).toArrow().to_pylist()
    assert (row["partition"], row["offsets"]) == (1, [100])
    assert row["detail"] == "never attempted; claims run other, arm 3; found at 1:100"
    (row,) = cases(subjects(none, spark.createDataFrame(ALIENS[1:], OF_ALIENS), None)).toArrow().to_pylist()
    assert row["detail"] == "sent to the topic of another arm; claims run this, arm 3; found at 1:101"


def test_there_is_a_detector_for_each_kind_in_order_of_precedence() -> None:
    assert list(DETECTORS) == [kind for kind in Anomaly if kind not in EFFECTS]
