"""Tests of what an audit tells beside its verdict: what each ruling rests on, and which counts are named."""

from __future__ import annotations

from typing import Any

import pytest
from support.evidence import Rows, arm, doubts, lost
from support.judged_audits import audited

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.verdict import Finding, RunVerdict


def finding(verdict: RunVerdict, anomaly: Anomaly) -> Finding:
    return next(each for each in arm(verdict).findings if each.anomaly == anomaly)


def test_without_settings_each_ruling_says_what_it_rests_on() -> None:
    verdict = audited(claim="at_least_once", profile="acks_1", settings_known=False)
    copies, losses, damage = (finding(verdict, each) for each in (Anomaly.DUPLICATED, Anomaly.LOST, Anomaly.CORRUPTED))
    assert copies.sentence == "The producer's settings are not known, so nothing says that they forbid this."
    assert (copies.rule, copies.source) == ("audit.settings_unknown", "no --producer-config was given")
    claimed = "The claim at_least_once forbids it. The producer's settings are not known."
    assert losses.sentence.startswith(claimed) and losses.source == "the claim of this audit"
    assert "settings are not known" not in damage.sentence, "no settings permit it"


def test_with_settings_no_ruling_says_that_they_are_unknown() -> None:
    for claim in ("contract", "at_least_once"):
        findings = arm(audited(claim=claim, profile="acks_1")).findings
        assert not any("not known" in each.sentence for each in findings)


def test_what_was_held_is_where_it_was_acknowledged() -> None:
    assert "stand in the log exactly once, where they were acknowledged, in the order" in audited().sentence


def test_a_ledger_in_which_nothing_was_counted_has_no_limit_and_no_note_of_a_count() -> None:
    """Also one that an earlier version audited, which did not count all of this."""
    verdict = audited()
    assert [limit.split(".")[0].split(":")[0] for limit in verdict.limits] == [
        "Judged of the claims in acks",
        "Nobody watched the cluster while the records were sent",
        "Only the logs of the leaders were read",
        "A ledger has the acknowledged partition, and not the one that was asked for",
    ]
    assert verdict.notes == []


def test_each_count_is_told_by_its_number() -> None:
    counts = {"resent": 8, "adopted": 9, "control_records": 4, "aborted_records": 3, "open_records": 2}
    told = " ".join(audited(counts=counts).limits)
    assert "the order of 8 attempts" in told and "acknowledged offset and checksum: 9." in told
    assert "none of the 3 records of aborted transactions and 2 of open ones" in told


def test_counts_that_an_earlier_version_did_not_make_are_none() -> None:
    verdict = audited(counts={"control_records": 4, "aborted_records": 3, "shared": 1})
    assert any("aborted transactions and 0 of open ones" in limit for limit in verdict.limits)
    assert ["1 x, to 0 attempts in all" in note for note in verdict.notes] == [True]


@pytest.mark.parametrize(
    "missing", [{"complete": False}, {"cut": "line 9 of acks.jsonl, its last, is torn"}, {"others_write": True}]
)
def test_each_reason_not_to_look_for_foreign_records_is_a_limit_alone(missing: dict[str, Any]) -> None:
    assert [limit for limit in audited().limits if "PHANTOM" in limit] == []
    assert len([limit for limit in audited(**missing).limits if "PHANTOM" in limit]) == 1


def test_inferred_attempts_are_counted_beside_the_claims_and_claims_that_were_left_out_are_not() -> None:
    verdict = audited(claims=1197, counts={"inferred": 5, "left_out": 2})
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    (doubt,) = arm(audited(lost(3), claims=1197, counts={"inferred": 4, "left_out": 2})).doubts
    assert (doubt.kind, doubt.name) == ("checker", "claims_missing")
    assert doubt.detail == "the counts have 1,200 attempts; claims and inferred attempts are 1,199"


def test_counts_without_attempts_have_none() -> None:
    def without(rows: Rows) -> None:
        for row in rows["counts/producers.parquet"]:
            del row["attempted"]

    verdict = audited(without)
    details = [doubt.detail for doubt in arm(verdict).doubts if doubt.name == "claims_missing"]
    assert verdict.verdict == "INCONCLUSIVE"
    assert details == ["the counts have 0 attempts; claims and inferred attempts are 1,200"]
