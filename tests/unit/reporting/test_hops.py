"""Tests of the hops: who was handed a record, who applied it, and where it got lost or doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.advised import evidence_for_advice
from support.applications import applied
from support.run_directories import scenario

from delivery_verifier.advice import explanations
from delivery_verifier.model.application import Discipline
from delivery_verifier.reporting.blocks import Blocks
from delivery_verifier.reporting.html import asset, environment
from delivery_verifier.reporting.leadership import Clock
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.report.chain import Hop, HopState, chain
from delivery_verifier.reporting.report.hops import events
from delivery_verifier.reporting.report.lookup import offsets_to_look_up
from delivery_verifier.reporting.report.story import Story
from delivery_verifier.run_directory.effect_tables import EFFECTS, JOURNAL
from delivery_verifier.run_directory.table import arrow_schema

Row = dict[str, Any]
CASE: Row = {
    "arm": "a",
    "producer": 0,
    "session": 0,
    "sequence": 17,
    "attempt": 0,
    "partition": 0,
    "offsets": [17],
}


def effect(at: int, incarnation: int, sequence: int = 17) -> Row:
    numbers = {"producer": 0, "session": 0, "sequence": sequence, "attempt": 0, "partition_sequence": sequence}
    place = {"partition": 0, "offset": sequence, "nth": 0, "order": at, "batch": 1, "applied_at": at}
    flags = {"parsed": True, "crc_ok": True, "foreign": False}
    return {"arm": "a", "member": 0, "incarnation": incarnation} | numbers | place | flags


def entry(at: int, incarnation: int, what: str, first: int = -1, until: int = -1, answer: str | None = None) -> Row:
    moment = {"arm": "a", "member": 0, "incarnation": incarnation, "at": at, "what": what, "batch": 1, "partition": 0}
    return moment | {"first": first, "until": until, "answer": answer}


def explanation(run: Material, row: Row) -> str:
    """What the verdict says of the case `row`."""
    assert run.scenario is not None
    (subject,) = [arm for arm in evidence_for_advice(run.scenario).arms if arm.name == row["arm"]]
    return explanations.explanation(subject, {"sent_at": None} | row, run.path, None)


def material(path: Path, effects: list[Row], journal: list[Row], discipline: Discipline = "commit_first") -> Material:
    for table, rows in ((EFFECTS, effects), (JOURNAL, journal)):
        (path / table.name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(table)), path / table.name / "a.parquet")
    return Material(path, None, scenario=applied(scenario(["a"]), discipline))


HANDED = entry(10, 0, "handed_over", 10, 20)
COMMITTED = entry(11, 0, "committed", -1, 20)
AGAIN = entry(30, 1, "handed_over", 10, 20)


LOST_IN_PROGRESS = "Skipped between hand-over and application: a member was handed it and never applied it."


def test_a_record_that_was_committed_and_then_not_applied_was_lost_in_the_application(tmp_path: Path) -> None:
    run = material(tmp_path, [effect(12, 0, sequence=16)], [HANDED, COMMITTED, entry(9, 0, "handed_over", 0, 10)])
    assert [sentence for _, sentence, _ in events(run, CASE | {"kind": "SKIPPED"})] == [
        "Member 0 is handed offsets 10 to 19, this record among them.",
        "Member 0 has committed offset 20: the member that takes over begins there.",
    ]
    expected = (
        "Skipped between commit and application: its offset was committed first, and the member never applied it."
    )
    assert explanation(run, CASE | {"kind": "SKIPPED"}).startswith(expected)


@pytest.mark.parametrize(
    ("journal", "discipline", "expected"),
    [
        ([], "commit_first", "Skipped before the hand-over: no member was ever handed it."),
        ([HANDED], "at_handover", "The client commits by a timer what it has handed over, applied or not."),
        ([HANDED, COMMITTED | {"answer": "UNKNOWN_MEMBER_ID"}], "commit_first", LOST_IN_PROGRESS),
        ([HANDED, COMMITTED], "commit_after", LOST_IN_PROGRESS),
    ],
)
def test_a_record_that_nobody_committed_for_itself_was_lost_elsewhere(
    tmp_path: Path, journal: list[Row], discipline: Discipline, expected: str
) -> None:
    assert expected in explanation(material(tmp_path, [], journal, discipline), CASE | {"kind": "SKIPPED"})


@pytest.mark.parametrize(
    ("journal", "expected"),
    [
        ([HANDED, AGAIN], "Doubled between application and commit: it was applied, no commit of its offset is known"),
        ([HANDED, COMMITTED, AGAIN], "Doubled by the hand-over: it was applied, and its offset was committed."),
        (
            [HANDED, COMMITTED | {"answer": "ILLEGAL_GENERATION"}, AGAIN],
            "Doubled by a refused commit (ILLEGAL_GENERATION): it was applied",
        ),
    ],
)
def test_a_record_that_two_incarnations_applied_was_doubled_where_the_commit_says(
    tmp_path: Path, journal: list[Row], expected: str
) -> None:
    run = material(tmp_path, [effect(11, 0), effect(31, 1)], journal)
    assert explanation(run, CASE | {"kind": "REAPPLIED"}).startswith(expected)
    told = [sentence for _, sentence, _ in events(run, CASE | {"kind": "REAPPLIED"})]
    assert "Member 0 applies it." in told
    assert told[-1] == "Member 0 (started again once) applies it again."


@pytest.mark.parametrize(
    ("effects", "commit", "expected"),
    [
        (
            [effect(31, 1), effect(40, 0)],
            entry(32, 1, "committed", -1, 20),
            "Doubled by a member that had it in progress",
        ),
        (
            [effect(11, 0), effect(31, 1)],
            entry(40, 0, "committed", -1, 20),
            "Doubled before the commit: it was applied",
        ),
    ],
)
def test_a_record_that_a_zombie_applied_as_well_was_not_handed_over_again_after_its_commit(
    tmp_path: Path, effects: list[Row], commit: Row, expected: str
) -> None:
    """Incarnation 0 is handed the record, and stands still before or after it applies it. Incarnation 1 is handed it
    meanwhile."""
    run = material(tmp_path, effects, [HANDED, AGAIN, commit])
    assert explanation(run, CASE | {"kind": "REAPPLIED"}).startswith(expected)


SENT: Row = CASE | {"sent_at": 5, "settled_at": 7, "acked_offset": 17, "outcome": "ACKED"}
CLOCK = Clock(0, True)


@pytest.mark.parametrize(
    ("kind", "effects", "journal", "discipline", "expected"),
    [
        ("SKIPPED", [], [HANDED, COMMITTED], "commit_first", "done done done done missing done"),
        ("SKIPPED", [], [], "commit_first", "done done done missing missing missing"),
        ("SKIPPED", [], [HANDED], "at_handover", "done done done done missing unknown"),
        (
            "REAPPLIED",
            [effect(11, 0), effect(31, 1)],
            [HANDED, AGAIN],
            "commit_after",
            "done done done done excess missing",
        ),
        ("GHOST", [effect(11, 0)], [HANDED, COMMITTED], "commit_after", "done done missing done excess done"),
    ],
)
def test_the_hops_of_a_record_stand_in_a_row_and_each_says_whether_it_was_passed(
    tmp_path: Path, kind: str, effects: list[Row], journal: list[Row], discipline: Discipline, expected: str
) -> None:
    hops = chain(material(tmp_path, effects, journal, discipline), SENT | {"kind": kind}, CLOCK)
    assert [hop.name for hop in hops] == ["sent", "acknowledged", "in the log", "handed over", "applied", "committed"]
    assert [hop.state for hop in hops] == expected.split()
    assert hops[4].note.startswith({0: "never", 1: "once: +0.000 s, member 0", 2: "twice: "}[len(effects)])


def test_a_member_that_nobody_saw_has_no_number(tmp_path: Path) -> None:
    effects = [effect(20, 0) | {"member": -1}, effect(40, 1) | {"member": -1}]
    told = [sentence for _, sentence, _ in events(material(tmp_path, effects, [], "own"), CASE | {"kind": "REAPPLIED"})]
    assert told == [
        "A member ends. It has applied this record.",
        "A member (started again once) ends. It has applied this record again.",
    ]


def test_the_page_shows_the_hops_of_a_record_above_its_story() -> None:
    hops = [Hop("in the log", "done", "once"), Hop("applied", "missing", "never"), Hop("committed", "unknown")]
    template = environment().get_template("why.html.j2")
    values: dict[str, Any] = {"blocks": Blocks(), "reasons": [], "groups": [], "cases_known": True, "verdict": None}
    told = template.render(stories=[Story("a title", [], hops, "the reason")], **values)
    assert '<li class="hop-done"><b>✔ in the log</b> <span>once</span></li>' in told
    assert '<li class="hop-missing"><b>✘ applied</b> <span>never</span></li>' in told
    assert '<li class="hop-unknown"><b>? committed</b></li>' in told
    assert told.index("a title") < told.index("in the log") < told.index("the reason") < told.index("Moment by moment")
    style = asset("page.css")
    rules = [line for line in style.splitlines() if line.startswith((".hop-", "ol.hops"))]
    assert all(f".hop-{state}" in style for state in get_args(HopState))
    assert not [rule for rule in rules if "#" in rule], "colours come from variables, so that both themes have them"


def test_what_nobody_answered_or_wrote_down_is_unknown_and_not_done(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "a.parquet").write_bytes(b"half")
    states = {
        hop.name: hop.state
        for hop in chain(Material(tmp_path, None), SENT | {"kind": "SKIPPED", "outcome": "SENT"}, CLOCK)
    }
    assert (states["acknowledged"], states["handed over"], states["committed"]) == ("unknown",) * 3


def test_without_an_application_the_hops_end_in_the_log(tmp_path: Path) -> None:
    lost = chain(Material(tmp_path, None), SENT | {"kind": "LOST", "offsets": []}, CLOCK)
    assert [(hop.name, hop.state, hop.note) for hop in lost] == [
        ("sent", "done", "+0.000 s, producer 0"),
        ("acknowledged", "done", "+0.000 s, offset 17"),
        ("in the log", "missing", "nowhere"),
    ]
    twice = chain(Material(tmp_path, None), SENT | {"kind": "DUPLICATED", "offsets": [17, 29]}, CLOCK)
    assert (twice[2].state, twice[2].note) == ("excess", "twice, at offsets 17, 29")
    places = {"kind": "MISROUTED", "offsets": [9, 17], "partitions": [1, 0], "partition": 0}
    astray = chain(Material(tmp_path, None), SENT | places, CLOCK)
    assert (astray[2].state, astray[2].note) == ("excess", "twice, at offsets 9 of partition 1, 17")
    assert offsets_to_look_up(SENT | places) == [17], "only the partition of the case is looked up"
    unsent = chain(Material(tmp_path, None), SENT | {"kind": "PHANTOM", "sent_at": None, "outcome": None}, CLOCK)
    assert [(hop.state, hop.note) for hop in unsent[:2]] == [("missing", "by no one"), ("unknown", "")]


def test_a_case_of_the_log_and_a_run_without_applications_have_no_hops(tmp_path: Path) -> None:
    assert list(events(Material(tmp_path, None), CASE | {"kind": "LOST"})) == []
    assert list(events(Material(tmp_path, None), CASE | {"kind": "SKIPPED"})) == []
    plain = Material(tmp_path, None, scenario=scenario(["a"]))
    assert explanation(plain, CASE | {"kind": "LOST"}) == explanation(plain, CASE | {"kind": "SKIPPED"}) == ""
    applied_without_journal = Material(tmp_path, None, scenario=applied(scenario(["a"]), "commit_first"))
    assert explanation(applied_without_journal, CASE | {"kind": "SKIPPED"}) == ""


def test_a_journal_that_cannot_be_read_is_missing_and_explains_nothing(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "a.parquet").write_bytes(b"half")
    run = Material(tmp_path, None, scenario=applied(scenario(["a"]), "commit_first"))
    assert list(events(run, CASE | {"kind": "SKIPPED"})) == []
    assert {part.name for part in run.missing} == {"journal"}
    with pytest.raises(pa.ArrowInvalid):  # that nobody was given it would be a lie
        explanation(run, CASE | {"kind": "SKIPPED"})
