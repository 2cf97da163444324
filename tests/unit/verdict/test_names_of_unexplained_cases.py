"""Which records a finding names as unexplained or doubtful, and where nobody asks for an explanation at all."""

from __future__ import annotations

from typing import Any

import pytest
from support.evidence import EFFECT_AT, SECOND, a_scenario, arm, both, case, cases, evidence_of, judged, setting

from delivery_verifier.model.verdict import ArmVerdict, Finding

RUN, NAME = a_scenario("acks_1"), "acks_1"
AT, AFTER = EFFECT_AT, EFFECT_AT + 4_500_000
"""While the old leader was gone, and after the new one was seen."""


def judged_with(*rows: dict[str, object], counts: dict[str, int], **more: Any) -> ArmVerdict:
    where: dict[str, Any] = {"arm": NAME, "producer": 0, "partition": 0}
    changes = [setting("counts/producers.parquet", column, count, **where) for column, count in counts.items()]
    return arm(judged(evidence_of(RUN, both(*changes), cases=cases(*rows), **more)), NAME)


def findings(verdict: ArmVerdict, anomaly: str) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.anomaly == anomaly]


def a_loss(sent_us: int) -> dict[str, object]:
    return case(sent_us, sent_us + 100_000, "LOST", arm=NAME)


def test_records_that_nothing_explains_and_records_that_nobody_can_explain_are_named() -> None:
    unknown = case(AT, None, "LOST", arm=NAME, overwritten=False)
    verdict = judged_with(a_loss(AT), a_loss(AFTER), unknown, counts={"lost": 3, "found": 397})
    permitted, forbidden = findings(verdict, "LOST")
    assert (forbidden.ruling, forbidden.count, forbidden.unexplained) == ("FORBIDDEN", 1, ["0/0/1/0"])
    assert (permitted.ruling, permitted.doubtful, permitted.unexplained) == ("PERMITTED", 1, ["0/0/2/0"])


@pytest.mark.parametrize("sent_us", [AT, AFTER])
def test_where_only_an_unplanned_change_permits_a_loss_no_record_is_explained_or_convicts(sent_us: int) -> None:
    verdict = judged_with(a_loss(sent_us), counts={"lost": 1, "found": 399}, injections=[])
    (finding,) = findings(verdict, "LOST")
    assert verdict.verdict == "INCONCLUSIVE"
    assert (finding.explained_by, finding.doubtful, finding.unexplained) == ([], 0, [])


def test_a_misplaced_record_of_which_no_partition_was_written_down_is_explained_by_its_lost_copy() -> None:
    """An earlier version did not write down where copies stand."""
    row = case(AT, AT + 100_000, "MISPLACED", arm=NAME, partitions=None)
    verdict = judged_with(row, counts={"misplaced": 1})
    (finding,) = findings(verdict, "MISPLACED")
    assert [each.count for each in finding.explained_by] == [1] and verdict.verdict == "HELD"


def test_an_order_that_a_retry_cannot_make_convicts_also_of_a_damaged_record() -> None:
    row = case(AT, AT + SECOND, "CORRUPTED", "REORDERED", arm=NAME, partitions=[1])
    verdict = judged_with(row, counts={"corrupted": 1, "also_reordered": 1})
    assert [each.also for each in findings(verdict, "REORDERED") if each.broken] == [1]
