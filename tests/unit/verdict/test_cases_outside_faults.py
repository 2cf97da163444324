"""Records with an anomaly that were under way in no fault: a doubt where only a fault permits it, and nowhere else."""

from __future__ import annotations

from support.evidence import EFFECT_AT, LAST, SECOND, a_scenario, arm, both, case, cases, evidence_of, judged, setting

LATE = LAST - SECOND


def details(profile: str, kind: str, sent_us: int, count: int = 1, cut: bool = False) -> list[str]:
    """Returns the doubts about times, of an arm with `count` cases that were sent at `sent_us`."""
    of = a_scenario(profile)
    name = of.subjects[0].name
    column = {"LOST": "lost", "DUPLICATED": "duplicated"}[kind]
    change = setting("counts/producers.parquet", column, count, arm=name, producer=0)
    if cut:
        change = both(change, setting("counts/cases.parquet", "cut", True, arm=name, kind=kind))
    rows = [case(sent_us, sent_us + 1000, kind, arm=name) for _ in range(count)]
    verdict = judged(evidence_of(of, change, cases=cases(*rows)))
    return [doubt.detail for doubt in arm(verdict, name).doubts if doubt.name == "unexplained"]


OUTSIDE = "of records that were under way in no injection that took effect"
CUT = "were written down; when the others were sent is unknown"


def test_a_loss_that_only_a_fault_permits_is_a_doubt_if_its_record_met_none() -> None:
    assert any(OUTSIDE in detail for detail in details("acks_1", "LOST", LATE))
    assert not any(OUTSIDE in detail for detail in details("acks_1", "LOST", EFFECT_AT))


def test_copies_that_need_no_fault_are_no_doubt_if_their_records_met_none() -> None:
    assert not any(OUTSIDE in detail for detail in details("acks_all", "DUPLICATED", LATE))


def test_not_all_copies_were_written_down_is_a_doubt_only_where_copies_are_permitted() -> None:
    assert any(CUT in detail for detail in details("acks_all", "DUPLICATED", EFFECT_AT, cut=True))
    assert not any(CUT in detail for detail in details("idempotent", "DUPLICATED", EFFECT_AT, cut=True))
