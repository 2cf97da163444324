"""Tests of applications at the edges: proofs that say nothing, counts that the books lack, and the last effect without
a record that an own application may have."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.applications import application
from support.evidence import (
    BITE,
    RUN,
    SUBJECT,
    WEAK,
    Change,
    Rows,
    a_scenario,
    both,
    evidence_of,
    setting,
    with_arm,
)

from delivery_verifier.judgement.applications import application_doubts, at_stake, in_hand, set_back, torn_effects
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.history import Injection

EFFECTS, PRODUCERS = "books/effects.parquet", "books/producers.parquet"
HAND, BACK = f"in hand of {SUBJECT}", f"rewound {SUBJECT}"


def proven(action: str = "kill_application", **proof: object) -> Injection:
    """Returns an injection into the application of SUBJECT, with this proof."""
    return Injection(
        id=1, cycle=0, action=action, brokers=[], hit={}, requested_at_us=BITE, bite_at_us=BITE, bit=True, proof=proof
    )


def run_of(discipline: Discipline, change: Change = lambda rows: None, arm: str = SUBJECT) -> Evidence:
    """Returns the evidence of a run in which `arm` alone has an application, with `change` to its books."""
    plain = a_scenario(fault="none")
    return evidence_of(with_arm(plain, arm, application=application(discipline)), change)


def doubts_of(run: Evidence, name: str = SUBJECT) -> dict[str, str]:
    """Returns the details of the doubts about the application of an arm, by the doubt's name."""
    return dict(application_doubts(next(arm for arm in run.arms if arm.name == name)))


def without(table: str, *columns: str) -> Change:
    """Returns a change that takes columns from a table."""

    def change(rows: Rows) -> None:
        for row in rows[table]:
            for column in columns:
                row.pop(column, None)

    return change


def unparsed(count: int, arm: str = SUBJECT) -> Change:
    return setting(EFFECTS, "unparsed", count, arm=arm, partition=1)


@pytest.mark.parametrize("key", [HAND, BACK])
@pytest.mark.parametrize(
    ("after", "before_heal", "count"),
    [(1, 5, 1), (0, 1, 1), (0, 0, 0), (-1, 1, 1), ("many", 2, 2), (None, 2, 2), (None, None, 0)],
)
def test_what_was_at_stake_is_the_first_count_that_a_proof_has(
    key: str, after: object, before_heal: object, count: int
) -> None:
    injection = proven(process={key: after}, process_before_heal={key: before_heal})
    both_of = evidence_of(RUN, injections=[injection, injection])
    assert at_stake(injection, SUBJECT) == count
    assert {in_hand(both_of, SUBJECT), set_back(both_of, SUBJECT)} == {0, 2 * count}
    assert at_stake(injection, WEAK) == 0, "the proof names an arm"


@pytest.mark.parametrize("proof", [{}, {"process": "SIGKILL"}, {"process": {}, "process_before_heal": ""}])
def test_a_proof_without_counts_puts_nothing_at_stake(proof: dict[str, object]) -> None:
    assert at_stake(proven(**proof), SUBJECT) == 0


def test_what_was_set_back_counts_where_nothing_was_in_hand() -> None:
    assert at_stake(proven(process={HAND: 0, BACK: 7}), SUBJECT) == 7
    assert at_stake(proven(process={HAND: 3, BACK: 7}), SUBJECT) == 3


@pytest.mark.parametrize(("count", "effects", "torn"), [(12, 1200, False), (13, 1299, True)])
def test_an_own_application_may_have_one_line_without_a_record_in_a_hundred(
    count: int, effects: int, torn: bool
) -> None:
    others = 2 * 401
    run = run_of("own", both(unparsed(count), setting(EFFECTS, "effects", effects - others, arm=SUBJECT, partition=0)))
    details = [detail for _, _, detail in torn_effects(run)]
    wanted = f"{SUBJECT}: {count} of {effects} effects name no record, and 0 records count as SKIPPED"
    assert details == [wanted] * torn
    assert ("effects_unparsed" in doubts_of(run)) == torn


@pytest.mark.parametrize(("skipped", "torn"), [(0, False), (1, True), (2, False)])
def test_one_torn_line_may_be_the_one_skipped_record(skipped: int, torn: bool) -> None:
    change = both(unparsed(1), setting(PRODUCERS, "skipped", skipped, arm=SUBJECT, producer=0, partition=0))
    assert bool(list(torn_effects(run_of("own", change)))) == torn


def test_lines_are_torn_only_in_own_applications_and_in_each_of_them() -> None:
    assert not list(torn_effects(run_of("commit_after", unparsed(13))))
    ((name, _, _),) = torn_effects(run_of("own", unparsed(13, WEAK), arm=WEAK))
    assert name == WEAK, "the arm before it has no application"


def test_counts_that_the_effects_lack_are_none() -> None:
    lacking = without(EFFECTS, "effects", "unparsed", "pending", "skipped_behind", "extra")
    run = run_of("own", both(lacking, setting(PRODUCERS, "skipped", 3, arm=SUBJECT, producer=0, partition=0)))
    assert not list(torn_effects(run)) and not doubts_of(run)
    undrained = both(lacking, setting(EFFECTS, "drained", 0, arm=SUBJECT, partition=1))
    (detail,) = doubts_of(run_of("commit_after", undrained)).values()
    assert detail.endswith("of partitions [1], and 0 records had not been applied yet")


def test_a_group_that_starts_at_the_end_skips_nothing_behind_in_books_that_do_not_count_it() -> None:
    program = application("commit_after")
    latest = replace(program, consumer=program.consumer | {"auto.offset.reset": "latest"})
    scenario = with_arm(a_scenario(fault="none"), SUBJECT, application=latest)
    assert not doubts_of(evidence_of(scenario, without(EFFECTS, "skipped_behind")))
    behind = setting(EFFECTS, "skipped_behind", 1, arm=SUBJECT, partition=0)
    assert set(doubts_of(evidence_of(scenario, behind))) == {"unexplained"}


def test_a_rewind_with_no_count_explains_nothing_and_needs_to_explain_nothing() -> None:
    scenario = with_arm(a_scenario(fault="none"), SUBJECT, application=application("commit_first"))
    rewind = proven("rewind")
    hit = replace(rewind, hit={scenario.arm(SUBJECT).topic_name: [0, 1, 2]})
    lacking, extra = without(EFFECTS, "extra"), setting(EFFECTS, "extra", 1, arm=SUBJECT, partition=0)
    assert not doubts_of(evidence_of(scenario, lacking, injections=[hit]))
    assert set(doubts_of(evidence_of(scenario, extra, injections=[hit]))) == {"unexplained"}


def test_one_partition_that_was_applied_in_time_was_put_to_the_test() -> None:
    idle = [setting(EFFECTS, "in_time", 0, arm=SUBJECT, partition=at) for at in range(3)]
    assert set(doubts_of(run_of("commit_after", both(*idle)))) == {"application_idle"}
    assert not doubts_of(run_of("commit_after", both(*idle[:2])))


@pytest.mark.parametrize("damage", ["corrupted", "phantoms", "unattributed"])
def test_each_record_without_a_name_explains_one_effect_without_a_record(damage: str) -> None:
    damaged = setting(PRODUCERS, damage, 2, arm=SUBJECT, producer=0, partition=0)
    for count, names in ((2, set()), (3, {"effects_unparsed"})):
        assert set(doubts_of(run_of("commit_after", both(damaged, unparsed(count))))) == names


def test_damage_that_the_books_do_not_count_explains_nothing() -> None:
    uncounted = without(PRODUCERS, "corrupted", "phantoms", "unattributed")
    assert not doubts_of(run_of("commit_after", uncounted))
    assert set(doubts_of(run_of("commit_after", both(uncounted, unparsed(1))))) == {"effects_unparsed"}


def test_only_an_application_is_doubted_and_not_that_of_the_canary() -> None:
    run = run_of("commit_after", both(*[unparsed(9, name) for name in (SUBJECT, "canary")]))
    assert [doubts_of(run, arm.name) != {} for arm in run.arms] == [arm.name == SUBJECT for arm in run.arms]
