"""Copies in an audit: those in two partitions are no retries of one request, and convict where retries may copy."""

from __future__ import annotations

from typing import Any

from support.evidence import SUBJECT, Rows, arm, cases, judged
from support.judged_audits import evidence_of_audit

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.verdict import ArmVerdict, Finding
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.unexplained import unexplained_counts, with_unexplained


def copied(*partitions: int, also: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "arm": SUBJECT,
        "kind": "DUPLICATED",
        "also": list(also),
        "producer": 0,
        "partition": 0,
        "partitions": list(partitions),
    }


def evidence(*rows: dict[str, Any], profile: str = "acks_all", **counts: int) -> Evidence:
    """Returns the evidence of an audit with these cases. `counts`: columns of the counts of the first producer."""

    def change(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == SUBJECT and row["producer"] == 0)
        row.update(counts)

    return evidence_of_audit(change, profile=profile, cases=cases(*rows))


def of_copies(verdict: ArmVerdict) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.anomaly == "DUPLICATED"]


THREE = {"duplicated": 3, "extra_copies": 3, "log_records": 403}


def test_copies_in_two_partitions_are_a_finding_of_their_own_that_names_their_records() -> None:
    made = evidence(copied(0, 1), copied(0, 0), copied(0, 1), **THREE)
    permitted, forbidden = of_copies(arm(judged(made)))
    assert (permitted.ruling, permitted.count, permitted.unexplained) == ("PERMITTED", 1, [])
    assert (forbidden.ruling, forbidden.count, forbidden.unexplained) == ("FORBIDDEN", 2, ["0/0/0/0", "0/0/2/0"])


def test_copies_convict_as_well_of_a_record_that_is_late_too() -> None:
    made = evidence(copied(0, 1, also=("REORDERED",)), also_reordered=1, **{**THREE, "duplicated": 1})
    verdict = arm(judged(made))
    assert [each.count for each in of_copies(verdict) if each.broken] == [1]
    examined = [doubt.detail for doubt in verdict.doubts if doubt.name == "copies_not_examined"]
    assert not any("DUPLICATED" in detail for detail in examined), "every copy was examined"


def test_great_expectations_counts_these_copies_in_the_rows_of_their_producer() -> None:
    made = evidence(copied(0, 1), copied(0, 0), copied(0, 1), **THREE)
    subject = next(each for each in made.arms if each.name == SUBJECT)
    assert unexplained_counts(subject)[Anomaly.DUPLICATED] == 2
    rows = with_unexplained(made.tally.rows("producers", arm=SUBJECT), subject).to_pylist()
    found = {(row["producer"], row["partition"]): row["duplicated_unexplained"] for row in rows}
    assert {place: count for place, count in found.items() if count} == {(0, 0): 2}


def test_what_the_settings_forbid_needs_no_second_partition() -> None:
    verdict = judged(evidence(copied(0, 1), copied(0, 0), copied(0, 1), profile="idempotent", **THREE))
    (finding,) = of_copies(arm(verdict))
    assert verdict.verdict == "VIOLATED" and (finding.count, finding.broken, finding.unexplained) == (3, True, [])
