"""Tests of checker doubts. Each test makes one check fail and expects its doubt. With any checker doubt, the verdict is
neither HELD nor VIOLATED."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.evidence import (
    BITE,
    CANARY_ARM,
    RUN,
    SUBJECT,
    WEAK,
    Change,
    altered,
    both,
    doubts,
    evidence_of,
    judged,
    lost,
    says,
    setting,
    the_observations,
    validation_of,
)

from delivery_verifier.judgement.evaluation import ExpectedEvaluation
from delivery_verifier.store.books import Books

LAW = "books/laws.parquet"
CHECKER: list[tuple[str, Change, set[str]]] = [
    ("read_incomplete", setting(LAW, "left", 6, law="offsets_accounted", arm=SUBJECT), {SUBJECT}),
    ("read_incomplete", setting("books/partitions.parquet", "end", 399, arm=SUBJECT), {SUBJECT}),
    ("partition_missing", lambda rows: rows["books/partitions.parquet"].pop(0), {SUBJECT}),
    ("partition_missing", lambda rows: rows["books/producers.parquet"].pop(0), {SUBJECT}),
    ("partition_missing", setting(LAW, "left", 6, law="partitions_complete", arm=SUBJECT), {SUBJECT}),
    (
        "rows_unplanned",
        lambda rows: rows["books/producers.parquet"].append(rows["books/producers.parquet"][0]),
        {SUBJECT},
    ),
    ("log_moved", setting(LAW, "right", 0, law="log_moved", arm=SUBJECT), {SUBJECT}),
    ("log_moved", setting("books/partitions.parquet", "tail_records", 1, arm=SUBJECT), {SUBJECT}),
    ("ledger_incomplete", setting(LAW, "left", 6, law="ledger_complete", arm=SUBJECT), {SUBJECT}),
    ("books_unbalanced:reported_sum", setting(LAW, "left", 6, law="reported_sum", arm=SUBJECT), {SUBJECT}),
    ("books_unbalanced:log_sum", setting(LAW, "left", 6, law="log_sum", arm=CANARY_ARM), {SUBJECT, WEAK, CANARY_ARM}),
    ("law_missing", lambda rows: rows[LAW].pop(0), {SUBJECT}),
    (
        "expectation_not_evaluated",
        lambda rows: rows[LAW].append(rows[LAW][0] | {"law": "gravity"}),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    (
        "canary_wrong",
        setting("books/producers.parquet", "lost", 2, arm=CANARY_ARM, producer=0),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    (
        "canary_wrong",
        setting("books/producers.parquet", "reordered", 9, arm=CANARY_ARM, producer=0),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    (
        "canary_wrong",
        setting("books/producers.parquet", "also_resent", 1, arm=CANARY_ARM, producer=0),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    ("exposure_missing", lambda rows: rows["books/exposure.parquet"].pop(0), {SUBJECT}),
    ("nulls", setting("books/producers.parquet", "lost", None, arm=SUBJECT), {SUBJECT, WEAK, CANARY_ARM}),
    ("table_missing", lambda rows: rows.pop("books/gaps.parquet"), {SUBJECT, WEAK, CANARY_ARM}),
    ("table_missing", lambda rows: rows.pop("books/producers.parquet"), {SUBJECT, WEAK, CANARY_ARM}),
    (
        "column_missing",
        lambda rows: [row.pop("duplicated") for row in rows["books/producers.parquet"]],
        {SUBJECT, WEAK, CANARY_ARM},
    ),
]


@pytest.mark.parametrize("violated", [False, True], ids=["clean", "with_a_loss"])
@pytest.mark.parametrize(
    ("name", "change", "hurt"), CHECKER, ids=[f"{line[0]}-{at}" for at, line in enumerate(CHECKER)]
)
def test_a_checker_doubt_forbids_held_and_violated_alike(
    name: str, change: Change, hurt: set[str], violated: bool
) -> None:
    verdict = judged(evidence_of(RUN, both(lost(3), change) if violated else change))
    for item in verdict.arms:
        if item.arm in hurt:
            assert ("checker", name) in doubts(verdict, item.arm)
            assert (item.verdict, item.as_expected) == ("INCONCLUSIVE", False)
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("INCONCLUSIVE", False, 2)


@pytest.mark.parametrize("name", sorted({*evidence_of(RUN).books.tables} - {"books/effects.parquet"}))
def test_an_empty_table_is_a_doubt_and_never_read_as_nothing_found(name: str) -> None:
    plain = evidence_of(RUN)
    tables = dict(plain.books.tables) | {name: plain.books.tables[name].slice(0, 0)}
    verdict = judged(replace(plain, books=Books.from_tables(tables)))
    if name == "books/cases.parquet":
        assert verdict.verdict == "HELD"  # evidence of single cases: counted by the law anomaly_rows
    else:
        assert verdict.verdict == "INCONCLUSIVE"
        assert {kind for kind, _ in doubts(verdict)} >= {"checker"}


def test_a_snapshot_without_a_planned_partition_is_a_doubt() -> None:
    plain = evidence_of(RUN)
    offsets = msgspec.structs.replace(plain.offsets, partitions=plain.offsets.partitions[1:])
    assert ("checker", "partition_missing") in doubts(judged(replace(plain, offsets=offsets)))


def test_a_canary_without_anything_planted_is_a_doubt() -> None:
    assert ("checker", "canary_wrong") in doubts(judged(evidence_of(RUN, canary_expected={})))


def test_an_observer_that_missed_a_partition_is_a_doubt() -> None:
    verdict = judged(evidence_of(RUN, observations=the_observations(RUN)[1:]))
    assert ("checker", "observer_blind") in doubts(verdict)


def test_an_observer_that_saw_nothing_of_an_injection_that_bit_is_a_doubt() -> None:
    quiet = [seen for seen in the_observations(RUN) if seen.at_us < BITE]
    assert ("checker", "observer_blind") in doubts(judged(evidence_of(RUN, observations=quiet)))


def test_an_observer_that_stopped_looking_before_the_snapshot_is_a_doubt() -> None:
    plain = evidence_of(RUN)
    moved = msgspec.structs.replace(plain.offsets.partitions[0], leader_epoch=9)
    offsets = msgspec.structs.replace(plain.offsets, partitions=[moved, *plain.offsets.partitions[1:]])
    verdict = judged(replace(plain, offsets=offsets))
    assert {name for item in verdict.arms for _, name in doubts(verdict, item.arm)} == {"observer_blind"}


GUARDS: list[tuple[str, str, dict[str, Any]]] = [
    ("expectation_not_evaluated", "LOST", {"exception": "MetricResolutionError", "success": False}),
    ("expectation_not_evaluated", "LOST", {"element_count": 0}),
    ("expectation_not_evaluated", "LOST", {"element_count": None}),
    ("expectation_not_evaluated", "LOST", {"tolerance": 5}),
    ("expectation_not_evaluated", "LOST", {"tolerance": None}),
    ("expectation_not_evaluated", "RESENT", {"tolerance": 0}),
    ("nulls", "LOST", {"missing_count": 6}),
    ("nulls", "LOST", {"missing_count": None}),
    ("expectation_alarm", "LOST", {"success": False}),
    ("expectation_alarm", "LOST", {"count": 1}),
    ("expectation_not_evaluated", "LOST", {"about": "SURPRISED"}),
    ("expectation_not_evaluated", "LOST", {"about": "PHANTOM"}),
    ("expectation_not_evaluated", "canary", {"element_count": 0}),
    ("expectation_alarm", "offsets_accounted", {"success": False}),
]


@pytest.mark.parametrize(("name", "about", "changes"), GUARDS)
def test_an_evaluation_that_is_not_as_planned_is_a_doubt(name: str, about: str, changes: dict[str, Any]) -> None:
    evidence = evidence_of(RUN)
    verdict = judged(evidence, altered(validation_of(evidence), about, **changes))
    assert ("checker", name) in doubts(verdict)
    assert verdict.verdict == "INCONCLUSIVE"


def test_a_law_of_which_the_books_say_nothing_was_not_evaluated() -> None:
    def change(rows: dict[str, Any]) -> None:
        rows[LAW] = [row for row in rows[LAW] if row["law"] != "log_sum"]

    assert {"law_missing", "expectation_not_evaluated"} <= {
        name for _, name in doubts(judged(evidence_of(RUN, change)))
    }


def test_a_failure_that_great_expectations_did_not_notice_is_an_alarm() -> None:
    evidence = evidence_of(RUN, lost(3))
    verdict = judged(evidence, altered(validation_of(evidence), "LOST", success=True))
    assert doubts(verdict) == {("checker", "expectation_alarm")}


def test_an_expectation_that_is_missing_is_a_doubt_of_its_arm_only() -> None:
    evidence = evidence_of(RUN)
    plain = validation_of(evidence)
    verdict = judged(evidence, msgspec.structs.replace(plain, evaluated=plain.evaluated[1:]))
    assert doubts(verdict) == {("checker", "expectation_not_evaluated")}
    assert doubts(verdict, WEAK) == set()


def test_an_expectation_that_was_evaluated_twice_is_a_doubt() -> None:
    evidence = evidence_of(RUN)
    plain = validation_of(evidence)
    verdict = judged(evidence, msgspec.structs.replace(plain, evaluated=[*plain.evaluated, plain.evaluated[0]]))
    assert doubts(verdict) == {("checker", "expectation_not_evaluated")}


def test_an_expectation_that_nobody_planned_is_a_doubt() -> None:
    evidence = evidence_of(RUN)
    plain = validation_of(evidence)
    stranger = says(ExpectedEvaluation(suite="guarantee", arm="nobody", about="LOST", tolerance=0, rows=1, count=0))
    verdict = judged(evidence, msgspec.structs.replace(plain, evaluated=[*plain.evaluated, stranger]))
    assert ("checker", "expectation_not_evaluated") in doubts(verdict)


def test_a_validation_of_another_run_is_a_doubt() -> None:
    evidence = evidence_of(RUN)
    other = msgspec.structs.replace(validation_of(evidence), run_id="run-2")
    assert ("checker", "expectation_not_evaluated") in doubts(judged(evidence, other))
