"""Tests of the notes of a verdict: they say of which attempts no delivery report ever came, and change no verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.evidence import RUN, SUBJECT, WEAK, Rows, evidence_of, judged, setting
from support.stored_data import HELD, relink, stored_run

from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.reporting import terminal
from delivery_verifier.run_directory.ledger import outcomes_key, reported_counts
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.notes import notes


def _unanswered(rows: Rows) -> None:
    """Gives each of the two arms with load 12 INDETERMINATE attempts."""
    for name in (SUBJECT, WEAK):
        row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == name and row["producer"] == 0)
        row |= {"attempted": 412, "indeterminate": 12, "resolved_absent": 12}


@pytest.mark.parametrize(
    ("reported", "noted"),
    [
        ({SUBJECT: 12, WEAK: 12}, []),
        ({SUBJECT: 5, WEAK: 12}, [f"{SUBJECT}: for 7 of 12 INDETERMINATE attempts"]),
        ({SUBJECT: 0}, [f"{SUBJECT}: for 12 of 12 INDETERMINATE attempts"]),
        ({}, []),  # of producers that were killed before they counted
    ],
)
def test_attempts_of_which_no_delivery_report_came_are_noted_per_arm(
    reported: dict[str, int], noted: list[str]
) -> None:
    verdict = judged(evidence_of(RUN, _unanswered, indeterminate=reported))
    assert [note.split(" no delivery report ever came")[0] for note in verdict.notes] == noted
    assert verdict.verdict == "HELD"


def test_a_terminal_shows_the_note(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as stream:
        terminal.write(judged(evidence_of(RUN, _unanswered, indeterminate={SUBJECT: 5})), stream)
        stream.seek(0)
        assert "no delivery report ever came" in " ".join(stream.read().split())


def test_reports_are_counted_over_all_producers_and_incarnations_of_an_arm() -> None:
    counts = {
        outcomes_key(Outcome.INDETERMINATE, "safe/0/0"): 3,
        outcomes_key(Outcome.INDETERMINATE, "safe/1/0"): 4,
        outcomes_key(Outcome.INDETERMINATE, "acks_1/0/0"): 0,
        outcomes_key(Outcome.ACKED, "safe/0/0"): 100,
        "attempted/safe/0/0": 107,
    }
    assert reported_counts(counts, Outcome.INDETERMINATE) == {"safe": 7, "acks_1": 0}
    assert reported_counts({"attempted/safe/0/0": 107}, Outcome.INDETERMINATE) == {}


def test_the_counts_come_from_what_the_producers_sealed(tmp_path: Path) -> None:
    run = stored_run(HELD, tmp_path)
    manifest = json.loads((run.path / "produce.json").read_bytes())
    manifest["counts"][outcomes_key(Outcome.INDETERMINATE, "transactional/0/0")] = 2
    (run.path / "produce.json").write_text(json.dumps(manifest))
    relink(run)
    assert Evidence.load(run.path).indeterminate == {"transactional": 2, "control-acks_0": 0}


# ---- At the edges: none, one and several.


EVIDENCE = evidence_of(RUN)


def test_cases_that_were_not_all_written_down_are_noted() -> None:
    cut = {"cases": 1200, "written": 1000, "cut": True}

    def change(rows: Rows) -> None:
        next(row for row in rows["counts/cases.parquet"] if row["arm"] == SUBJECT and row["kind"] == "LOST").update(cut)

    assert notes(EVIDENCE) == []
    (note,) = notes(evidence_of(RUN, change))
    assert note.startswith(f"{SUBJECT}: 1,000 of 1,200 cases of LOST were written down")
    (column, *others) = evidence_of(RUN, change).tally.rows("cases").column_names
    assert column == "arm" and len(others) == 4, "no other column hides that one is missing"


@pytest.mark.parametrize(("reported", "noted"), [({}, 0), ({SUBJECT: 2}, 1), ({SUBJECT: 3}, 0), ({SUBJECT: 4}, 0)])
def test_attempts_without_a_report_are_noted(reported: dict[str, int], noted: int) -> None:
    change = setting("counts/producers.parquet", "indeterminate", 3, arm=SUBJECT, producer=0)
    found = notes(evidence_of(RUN, change, indeterminate=reported))
    assert len(found) == noted and all("for 1 of 3 INDETERMINATE" in note for note in found)


def test_tally_without_a_count_of_indeterminate_attempts_have_nothing_to_note() -> None:
    def without(rows: Rows) -> None:
        for row in rows["counts/producers.parquet"]:
            del row["indeterminate"]

    assert notes(evidence_of(RUN, without, indeterminate={SUBJECT: 0})) == []
