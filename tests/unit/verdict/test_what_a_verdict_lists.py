"""What a verdict lists beside its sentence: the invariants that were checked, and causes where its counts are sound."""

from __future__ import annotations

from dataclasses import replace

from support.evidence import RUN, SUBJECT, a_scenario, arm, case, cases, evidence_of, judged, setting, validation_of
from support.played_programs import evidence

from delivery_verifier.verdict.evaluation import INVARIANTS


def test_a_verdict_lists_each_invariant_with_its_meaning_and_how_often_it_was_broken() -> None:
    made = evidence_of(RUN)
    checked = [each for each in validation_of(made).evaluated if each.suite == "evidence"]
    listed = judged(made).invariants
    assert [(each.invariant, each.rows) for each in listed] == [(each.about, each.expected_rows) for each in checked]
    assert listed and all(each.holds and each.broken == 0 for each in listed)
    assert {each.invariant: each.meaning for each in listed} == {each.about: INVARIANTS[each.about] for each in checked}


def test_causes_are_told_beside_a_doubt_about_the_load_and_not_beside_one_about_the_check() -> None:
    made = evidence("ahead", is_killed=True, claim="contract")
    doubted = arm(judged(replace(made, foreign_writers={SUBJECT: 1})))
    assert [doubt.kind for doubt in doubted.doubts] == ["coverage"] and len(doubted.causes) == 1
    unsound = arm(judged(replace(made, observations=[])))
    assert "checker" in {doubt.kind for doubt in unsound.doubts} and unsound.causes == []


def test_copies_of_which_nobody_wrote_down_when_they_were_appended_count_as_doubtful() -> None:
    of = a_scenario("acks_all")
    name = of.subjects[0].name
    row = case(1_000_000, 1_100_000, "DUPLICATED", arm=name, partitions=None)
    change = setting("counts/producers.parquet", "duplicated", 1, arm=name, producer=0)
    verdict = arm(judged(evidence_of(of, change, cases=cases(row))), name)
    (finding,) = [each for each in verdict.findings if each.anomaly == "DUPLICATED"]
    assert (finding.count, finding.doubtful) == (1, 1)
    assert ("coverage", "bound_unseen") in {(doubt.kind, doubt.name) for doubt in verdict.doubts}
