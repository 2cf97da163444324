"""One case with no other explanation convicts an audited ledger, and each doubt says how much is open, and where."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import SUBJECT, Change, Rows, arm, doubts, judged
from support.judged_audits import audited, evidence_of_audit

from delivery_verifier.model.verdict import RunVerdict


def counted(**counts: int) -> Change:
    """Returns a change that sets columns of the counts of the first producer."""

    def change(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == SUBJECT and row["producer"] == 0)
        row.update(counts)

    return change


ONE_PHANTOM = {"phantom": 1, "phantoms": 1}


def details(name: str, change: Change = lambda rows: None, **more: Any) -> list[str]:
    """Returns the details of the subject's doubts with this name, up to a colon."""
    return [doubt.detail for doubt in arm(audited(change, **more)).doubts if doubt.name.split(":")[0] == name]


@pytest.mark.parametrize(
    "case",
    [
        {"lost": 1, "found": 399},
        {"misplaced": 1},
        {"duplicated": 1, "extra_copies": 1, "log_records": 401},
        {"reordered": 1},
        ONE_PHANTOM,
    ],
)
def test_one_case_without_another_explanation_convicts(case: dict[str, int]) -> None:
    verdict = audited(counted(**case))
    assert (verdict.verdict, doubts(verdict)) == ("VIOLATED", set())


@pytest.mark.parametrize("lacking", [{"complete": False}, {"counts": {"gaps": 1}}, {"empty": ("b.jsonl",)}])
def test_one_foreign_record_convicts_if_nothing_shows_that_it_is_of_an_attempt_that_the_ledger_lacks(
    lacking: dict[str, Any],
) -> None:
    assert audited(counted(**ONE_PHANTOM), **lacking).verdict == "VIOLATED"


def test_of_two_cases_one_that_is_not_proven_is_told() -> None:
    two = counted(lost=2, found=398)
    assert details("unproven", two, counts={"unproven_lost": 1}) == ["up to 1 of 2 LOST are not proven; the others are"]
    assert details("unproven", two, counts={"unproven_lost": 2})[0].startswith("2 LOST: Nothing proves these cases")


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"open_transactions": 2}, "in 2 partitions, with 0 records:"),
        ({"open_records": 3}, "in 0 partitions, with 3 records:"),
    ],
)
def test_open_transactions_are_told_by_their_partitions_and_records(counts: dict[str, int], told: str) -> None:
    (detail,) = details("transaction_open", counts={"aborted_records": 0, **counts})
    assert told in detail


@pytest.mark.parametrize(
    ("empty", "told"),
    [(("b", "c", "d"), "b and 2 more has no"), (("b", "c"), "b and 1 more has no"), (("b",), "b has no claim")],
)
def test_files_without_a_claim_are_told_by_the_first(empty: tuple[str, ...], told: str) -> None:
    (detail,) = details("complete_contradicted", empty=empty)
    assert detail.startswith(told)


def test_the_first_partition_whose_log_has_lost_its_beginning_is_told() -> None:
    whole = evidence_of_audit()
    starts = {0: 0, 1: 1, 2: 9}
    parts = [replace(part, start=starts[part.partition]) for part in whole.offsets.partitions]

    verdict = judged(replaced(whole, offsets=replace(whole.offsets, partitions=parts)))
    assert [doubt.detail.split(" of")[0] for doubt in arm(verdict).doubts if doubt.name == "expired"] == ["partition 1"]


def test_claims_that_expired_are_told_instead_of_the_partition() -> None:
    (detail,) = details("expired", counts={"expired": 1})
    assert detail.startswith("1 claims stand before the beginning of the log")


COMMITTED = {"control_records": 4, "aborted_records": 9}
LATE = {"reordered": 1}


def begun(arm_name: str, partition: int, change: Change, **more: Any) -> RunVerdict:
    """Returns the verdict on an audit in which the log of one partition of `arm_name` has lost its beginning."""
    whole = evidence_of_audit(change, **more)
    parts = [
        replace(part, start=int((part.arm, part.partition) == (arm_name, partition)))
        for part in whole.offsets.partitions
    ]
    return judged(replaced(whole, offsets=replace(whole.offsets, partitions=parts)))


@pytest.mark.parametrize("partition", [0, 2])
def test_one_partition_that_has_lost_its_beginning_takes_away_the_proof_of_an_order(partition: int) -> None:
    verdict = begun(SUBJECT, partition, counted(**LATE), counts=COMMITTED)
    assert ("coverage", "unproven:REORDERED") in doubts(verdict) and ("coverage", "expired") in doubts(verdict)


def test_what_the_log_of_another_arm_has_lost_takes_nothing_away() -> None:
    verdict = begun("canary", 0, counted(**LATE), counts=COMMITTED)
    assert not {("coverage", "unproven:REORDERED"), ("coverage", "expired")} & doubts(verdict)


def test_what_a_transaction_hid_is_told_as_this_and_counts_as_not_proven() -> None:
    three = counted(lost=3, found=397)
    (all_hidden,) = details("unproven", three, counts=COMMITTED | {"committed_hidden": 3})
    assert "a transaction ended otherwise than the ledger says" in all_hidden
    (one_hidden,) = details("unproven", three, counts=COMMITTED | {"committed_hidden": 1})
    assert one_hidden.startswith("up to 1 of 3 LOST")


def test_copies_that_are_not_proven_raise_one_doubt_and_not_another_about_retries() -> None:
    verdict = audited(counted(duplicated=2, extra_copies=2, log_records=402), counts={"unproven_duplicated": 2})
    assert doubts(verdict) == {("coverage", "unproven:DUPLICATED")}


def test_a_ledger_without_attempt_numbers_still_convicts_of_a_loss() -> None:
    assert audited(counted(lost=1, found=399), attempts=False).verdict == "VIOLATED"


def test_what_nobody_claims_excuses_a_foreign_record_only_if_the_ledger_calls_itself_complete() -> None:
    assert audited(counted(**ONE_PHANTOM), complete=False, counts={"unclaimed": 1}).verdict == "VIOLATED"
    excused = audited(counted(**ONE_PHANTOM), counts={"gaps": 1, "failed_elsewhere": 1})
    assert excused.verdict == "INCONCLUSIVE"


def test_counts_without_late_attempts_have_none() -> None:
    def without(rows: Rows) -> None:
        for row in rows["counts/producers.parquet"]:
            del row["resolved_late"]

    assert details("late_unknown", without) == []


def test_guessed_attempts_are_a_doubt_where_one_of_the_anomalies_is_forbidden() -> None:
    assert len(details("attempts_guessed", profile="acks_all", counts={"guessed": 1})) == 1
