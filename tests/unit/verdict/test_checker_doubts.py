"""Tests of checker doubts. Each test makes one check fail and expects its doubt. With any checker doubt, the verdict is
neither HELD nor VIOLATED."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.checker_doubts import owned_doubts, without
from support.evidence import (
    CANARY_ARM,
    EFFECT_AT,
    RUN,
    SUBJECT,
    WEAK,
    Change,
    arm,
    both,
    doubts,
    evidence_of,
    judged,
    lost,
    setting,
    the_injections,
    the_observations,
)

from delivery_verifier.run_directory.tally import Tally
from delivery_verifier.verdict.checker_doubts import ALL
from delivery_verifier.verdict.evaluation import (
    CANARY,
    INVARIANTS,
    INVARIANTS_OF_PARTITIONS,
    canary_pairs,
    invariants_of,
)
from delivery_verifier.verdict.evidence import Evidence

INVARIANT = "counts/invariants.parquet"
CHECKER: list[tuple[str, Change, set[str]]] = [
    ("read_incomplete", setting(INVARIANT, "left", 6, invariant="offsets_accounted", arm=SUBJECT), {SUBJECT}),
    ("read_incomplete", setting("counts/partitions.parquet", "end", 399, arm=SUBJECT), {SUBJECT}),
    ("partition_missing", lambda rows: rows["counts/partitions.parquet"].pop(0), {SUBJECT}),
    ("partition_missing", lambda rows: rows["counts/producers.parquet"].pop(0), {SUBJECT}),
    ("partition_missing", setting(INVARIANT, "left", 6, invariant="partitions_complete", arm=SUBJECT), {SUBJECT}),
    (
        "rows_unplanned",
        lambda rows: rows["counts/producers.parquet"].append(rows["counts/producers.parquet"][0]),
        {SUBJECT},
    ),
    ("log_moved", setting(INVARIANT, "right", 0, invariant="log_moved", arm=SUBJECT), {SUBJECT}),
    ("log_moved", setting("counts/partitions.parquet", "tail_records", 1, arm=SUBJECT), {SUBJECT}),
    ("ledger_incomplete", setting(INVARIANT, "left", 6, invariant="ledger_complete", arm=SUBJECT), {SUBJECT}),
    ("counts_unbalanced:reported_sum", setting(INVARIANT, "left", 6, invariant="reported_sum", arm=SUBJECT), {SUBJECT}),
    (
        "counts_unbalanced:log_sum",
        setting(INVARIANT, "left", 6, invariant="log_sum", arm=CANARY_ARM),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    ("invariant_missing", lambda rows: rows[INVARIANT].pop(0), {SUBJECT}),
    (
        "expectation_not_evaluated",
        lambda rows: rows[INVARIANT].append(rows[INVARIANT][0] | {"invariant": "gravity"}),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    (
        "canary_wrong",
        setting("counts/producers.parquet", "lost", 2, arm=CANARY_ARM, producer=0),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    (
        "canary_wrong",
        setting("counts/producers.parquet", "reordered", 9, arm=CANARY_ARM, producer=0),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    (
        "canary_wrong",
        setting("counts/producers.parquet", "also_resent", 1, arm=CANARY_ARM, producer=0),
        {SUBJECT, WEAK, CANARY_ARM},
    ),
    ("exposure_missing", lambda rows: rows["counts/exposure.parquet"].pop(0), {SUBJECT}),
    ("nulls", setting("counts/producers.parquet", "lost", None, arm=SUBJECT), {SUBJECT, WEAK, CANARY_ARM}),
    ("table_missing", lambda rows: rows.pop("counts/gaps.parquet"), {SUBJECT, WEAK, CANARY_ARM}),
    ("table_missing", lambda rows: rows.pop("counts/producers.parquet"), {SUBJECT, WEAK, CANARY_ARM}),
    (
        "column_missing",
        lambda rows: [row.pop("duplicated") for row in rows["counts/producers.parquet"]],
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


@pytest.mark.parametrize("name", sorted({*evidence_of(RUN).tally.tables} - {"counts/effects.parquet"}))
def test_an_empty_table_is_a_doubt_and_never_read_as_nothing_found(name: str) -> None:
    plain = evidence_of(RUN)
    tables = dict(plain.tally.tables) | {name: plain.tally.tables[name].slice(0, 0)}
    verdict = judged(replace(plain, tally=Tally.from_tables(tables)))
    if name == "counts/cases.parquet":
        assert verdict.verdict == "HELD"  # evidence of single cases: counted by the invariant anomaly_rows
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
    quiet = [seen for seen in the_observations(RUN) if seen.at_us < EFFECT_AT]
    assert ("checker", "observer_blind") in doubts(judged(evidence_of(RUN, observations=quiet)))


def test_an_observer_that_stopped_looking_before_the_snapshot_is_a_doubt() -> None:
    plain = evidence_of(RUN)
    moved = msgspec.structs.replace(plain.offsets.partitions[0], leader_epoch=9)
    offsets = msgspec.structs.replace(plain.offsets, partitions=[moved, *plain.offsets.partitions[1:]])
    verdict = judged(replace(plain, offsets=offsets))
    assert {name for item in verdict.arms for _, name in doubts(verdict, item.arm)} == {"observer_blind"}


def test_an_invariant_of_which_the_tally_say_nothing_was_not_evaluated() -> None:
    def change(rows: dict[str, Any]) -> None:
        rows[INVARIANT] = [row for row in rows[INVARIANT] if row["invariant"] != "log_sum"]

    assert {"invariant_missing", "expectation_not_evaluated"} <= {
        name for _, name in doubts(judged(evidence_of(RUN, change)))
    }


# ---- Word by word: whose doubt it is, its name, and its figures.


PRODUCERS, PARTITIONS = "counts/producers.parquet", "counts/partitions.parquet"
EVIDENCE = evidence_of(RUN)
RAISED = "expectation_not_evaluated"


def doubts_after(change: Change) -> set[tuple[str, str, str]]:
    """Returns the doubts after a change of the counts, but for those of the expectations."""
    return {doubt for doubt in owned_doubts(evidence_of(RUN, change)) if doubt[1] != RAISED}


def with_copy(table: str, number: int = 0, **changes: Any) -> Change:
    """Returns a change that adds a copy of a row with `changes`."""
    return lambda rows: rows[table].append(rows[table][number] | changes)


def test_a_run_in_which_nothing_is_wrong_raises_no_doubt() -> None:
    assert owned_doubts(EVIDENCE) == []


def test_rows_of_producers_that_are_missing_or_unplanned_are_counted_apart() -> None:
    missing = without(PRODUCERS, 2, arm=WEAK)
    assert doubts_after(missing) == {(WEAK, "partition_missing", f"{WEAK}: 2 planned rows are not in the counts")}
    twice = with_copy(PRODUCERS)
    unplanned = (SUBJECT, "rows_unplanned", f"{SUBJECT}: 1 rows of the counts were not planned")
    assert doubts_after(twice) == doubts_after(with_copy(PRODUCERS, producer=7)) == {unplanned}
    assert doubts_after(with_copy(PRODUCERS, partition=3)) == {unplanned}
    other = both(without(PRODUCERS, arm=SUBJECT, producer=-1, partition=2), with_copy(PRODUCERS, producer=8))
    assert doubts_after(other) == {
        unplanned,
        (SUBJECT, "partition_missing", f"{SUBJECT}: 1 planned rows are not in the counts"),
    }


@pytest.mark.parametrize("column", ["producer", "partition"])
def test_tally_of_producers_without_a_column_are_doubted_once_for_all_arms(column: str) -> None:
    found = doubts_after(lambda rows: [row.pop(column) for row in rows[PRODUCERS]])
    assert {(owner, name) for owner, name, _ in found} == {(ALL, "column_missing")}


def test_a_partition_is_doubted_if_tally_and_snapshot_name_another_start_or_end() -> None:
    for column, value in (("end", 399), ("start", 1)):
        change = setting(PARTITIONS, column, value, arm=WEAK, partition=2)
        detail = f"{WEAK}/2 was not read from 0 to 400, as the snapshot says"
        assert doubts_after(change) == {(WEAK, "read_incomplete", detail)}


@pytest.mark.parametrize("also_snapshot", [False, True])
def test_a_partition_that_snapshot_or_tally_lack_is_missing(also_snapshot: bool) -> None:
    offsets = EVIDENCE.offsets
    kept = [part for part in offsets.partitions if (part.arm, part.partition) != (SUBJECT, 1)]
    missing = (SUBJECT, "partition_missing", f"{SUBJECT}/1 is not in snapshot and counts")
    snapshot = msgspec.structs.replace(offsets, partitions=kept)
    in_tally = evidence_of(RUN, without(PARTITIONS, arm=SUBJECT, partition=1)) if also_snapshot else EVIDENCE
    assert missing in owned_doubts(replace(in_tally, offsets=snapshot))
    assert missing in owned_doubts(evidence_of(RUN, without(PARTITIONS, arm=SUBJECT, partition=1)))


def test_records_behind_the_snapshot_are_counted_by_partition() -> None:
    change = setting(PARTITIONS, "tail_records", 12, arm=WEAK, partition=1)
    assert doubts_after(change) == {(WEAK, "log_moved", f"{WEAK}/1: 12 records stand behind the snapshot")}


@pytest.mark.parametrize(("at", "where"), [(0, f"{WEAK}/0"), (1, f"{WEAK}/1"), (-1, WEAK)])
def test_an_invariant_that_is_broken_names_its_two_sides_and_its_partition_if_it_has_one(at: int, where: str) -> None:
    invariant = "ledger_complete" if at < 0 else "log_sum"
    name = "ledger_incomplete" if at < 0 else "counts_unbalanced:log_sum"
    change = setting(INVARIANT, "left", 6, invariant=invariant, arm=WEAK, partition=at)
    assert doubts_after(change) == {(WEAK, name, f"{where}: one = 6, but other = 7")}


def test_a_broken_invariant_of_nobody_in_the_run_is_a_doubt_of_all() -> None:
    change = both(
        with_copy(INVARIANT, arm="nobody", partition=-2, left=1), with_copy(INVARIANT, arm=CANARY_ARM, left=2)
    )
    name = f"counts_unbalanced:{next(iter(INVARIANTS))}".replace(
        "counts_unbalanced:offsets_accounted", "read_incomplete"
    )
    assert doubts_after(change) == {
        (ALL, name, "nobody/-2: one = 1, but other = 7"),
        (ALL, name, f"{CANARY_ARM}/0: one = 2, but other = 7"),
    }


def test_an_invariant_without_rows_is_missing_in_its_arm_and_partitions() -> None:
    assert doubts_after(without(INVARIANT, 2, invariant="log_sum", arm=WEAK)) == {
        (WEAK, "invariant_missing", f"{WEAK}: the invariant log_sum is not in the counts of partitions [0, 1]")
    }
    assert doubts_after(without(INVARIANT, invariant="ledger_complete", arm=WEAK)) == {
        (WEAK, "invariant_missing", f"{WEAK}: the invariant ledger_complete is not in the counts")
    }
    elsewhere = setting(INVARIANT, "partition", -1, invariant="log_sum", arm=WEAK, partition=2)
    assert doubts_after(elsewhere) == {
        (WEAK, "invariant_missing", f"{WEAK}: the invariant log_sum is not in the counts of partitions [2]")
    }


def test_every_invariant_but_that_of_the_canary_must_be_in_the_tally_of_every_arm() -> None:
    for invariant in invariants_of(evidence_of(RUN)):
        if invariant != CANARY:
            count = 3 if invariant in INVARIANTS_OF_PARTITIONS else 1
            found = doubts_after(without(INVARIANT, count, invariant=invariant, arm=CANARY_ARM))
            assert {(owner, name) for owner, name, _ in found} == {(ALL, "invariant_missing")}


def test_an_invariant_that_no_expectation_judges_is_a_doubt() -> None:
    change = both(with_copy(INVARIANT, invariant="gravity"), with_copy(INVARIANT, invariant="entropy", partition=1))
    known = [doubt for doubt in owned_doubts(evidence_of(RUN, change)) if doubt[2].startswith("no expectation")]
    assert known == [
        (ALL, RAISED, "no expectation judges the invariant entropy"),
        (ALL, RAISED, "no expectation judges the invariant gravity"),
    ]


def test_a_canary_that_shows_another_number_names_both() -> None:
    name, planted, _ = canary_pairs(EVIDENCE)[0]
    wrong = replace(EVIDENCE, canary_expected=dict(EVIDENCE.canary_expected) | {name: planted + 2})
    detail = f"the canary's {name} must be {planted + 2}, the reconciliation found {planted}"
    assert (ALL, "canary_wrong", detail) in owned_doubts(wrong)
    nothing = [doubt for doubt in owned_doubts(replace(EVIDENCE, canary_expected={})) if doubt[1] == "canary_wrong"]
    assert nothing == [(ALL, "canary_wrong", "nothing was planted, so nothing shows that the check can find anything")]


@pytest.mark.parametrize("count", [0, 2])
def test_an_injection_has_one_exposure_in_each_loaded_arm(count: int) -> None:
    exposure = "counts/exposure.parquet"
    change = with_copy(exposure) if count else without(exposure, arm=SUBJECT)
    detail = f"{SUBJECT}: the counts have {count} exposures to injection 1, must be 1"
    assert doubts_after(change) == {(SUBJECT, "exposure_missing", detail)}


def test_an_exposure_to_another_injection_is_none_to_this_one() -> None:
    more = [*the_injections(RUN), msgspec.structs.replace(the_injections(RUN)[0], id=2)]
    missing = {doubt for doubt in owned_doubts(evidence_of(RUN, injections=more)) if doubt[1] == "exposure_missing"}
    assert missing == {
        (arm.name, "exposure_missing", f"{arm.name}: the counts have 0 exposures to injection 2, must be 1")
        for arm in RUN.loaded
    }


def with_only(table: str, *columns: str, change: Change) -> Evidence:
    """Returns the evidence after a change, if a table of the counts has these columns and no others."""
    evidence = evidence_of(RUN, change)
    tables = dict(evidence.tally.tables)
    return replace(evidence, tally=Tally.from_tables(tables | {table: tables[table].select(columns)}))


def test_a_table_is_checked_even_if_it_has_the_columns_of_this_check_alone() -> None:
    end = setting(PARTITIONS, "end", 399, arm=WEAK, partition=2)
    read = with_only(PARTITIONS, "arm", "partition", "start", "end", "tail_records", change=end)
    assert (WEAK, "read_incomplete", f"{WEAK}/2 was not read from 0 to 400, as the snapshot says") in owned_doubts(read)
    missing = with_only(
        INVARIANT, "invariant", "arm", "partition", change=without(INVARIANT, invariant="ledger_complete", arm=WEAK)
    )
    assert (WEAK, "invariant_missing", f"{WEAK}: the invariant ledger_complete is not in the counts") in owned_doubts(
        missing
    )


def test_an_anomaly_of_effects_that_the_tally_of_a_run_without_applications_count_is_a_doubt() -> None:
    change = setting("counts/producers.parquet", "skipped", 3, arm=SUBJECT, producer=0, partition=0)
    verdict = judged(evidence_of(RUN, change))
    (doubt,) = [doubt for doubt in arm(verdict).doubts if doubt.name == "anomaly_unproven"]
    assert doubt.detail == f"{SUBJECT}: the tables of counts have 3 SKIPPED, but no arm has an application"
    assert (doubt.kind, arm(verdict).verdict) == ("checker", "INCONCLUSIVE")
