"""Tests of what an audit may conclude: the doubts by name, the rulings while nobody watched, and the words."""

from __future__ import annotations

from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import SUBJECT, Rows, a_scenario, arm, cases, doubts, evidence_of, judged, lost

from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.audit import Audit, Identity
from delivery_verifier.model.scenario import Claim, Scenario
from delivery_verifier.run_directory.tally import START_ZERO
from delivery_verifier.verdict.audits import DOUBTS
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.unproven import DOUBTS as UNPROVEN_DOUBTS

SOUND = Audit(
    files=("acks.jsonl",),
    claims=1200,
    format="jsonl",
    identity=Identity(kind="header", expression="id"),
    complete=True,
    settings_known=True,
    hash="crc32",
    ordered=True,
    attempts=True,
    timed=True,
)


def a_ledger(profile: str = "idempotent", claim: Claim = "contract", **changes: Any) -> Scenario:
    """Returns the scenario of an audit in which nothing is missing, but for `changes`."""
    made = a_scenario(profile, "none")
    subject, *_ = made.arms
    arms = (replace(subject, name="idempotent", claim=claim), made.canary)
    return replace(made, arms=arms, audit=replace(SOUND, **changes))


def audited(of: Scenario, change: Any = lambda rows: None, **more: Any) -> Evidence:
    def without_start(rows: Rows) -> None:
        rows["counts/invariants.parquet"] = [
            row for row in rows["counts/invariants.parquet"] if row["invariant"] != START_ZERO
        ]
        change(rows)

    return replaced(evidence_of(of, without_start), **{"observations": [], "injections": [], **more})


def test_a_whole_ledger_is_held_and_only_of_its_claims() -> None:
    verdict = judged(audited(a_ledger()))
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    assert "of the claims in acks.jsonl" in verdict.sentence and "quiet day" not in verdict.sentence
    assert any("Nobody watched the cluster" in limit for limit in verdict.limits)
    assert not any("START_ZERO" in limit for limit in verdict.limits)


@pytest.mark.parametrize(
    ("missing", "name"),
    [
        ({"complete": False}, "ledger_partial"),
        ({"cut": "line 9 of acks.jsonl, its last, is torn"}, "ledger_cut"),
        ({"settings_known": False}, "settings_unknown"),
        ({"others_write": True}, "others_write"),
        ({"without_offset": 3}, "no_markers"),
        ({"hash": ""}, "values_not_hashed"),
        ({"without_hash": 1}, "values_not_hashed"),
        ({"empty": ("b.jsonl",)}, "complete_contradicted"),
    ],
)
def test_what_is_missing_forbids_held_by_its_name_and_not_violated(missing: dict[str, Any], name: str) -> None:
    of = a_ledger(claim="at_least_once", **missing)
    verdict = judged(audited(of))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", name)})
    broken = judged(audited(of, lost(3)))
    assert broken.verdict == "VIOLATED" and doubts(broken) == {("coverage", name)}
    assert "3 lost" in broken.sentence


@pytest.mark.parametrize("missing", [{"attempts": False}, {"timed": False}])
def test_what_takes_away_a_kind_alone_is_a_limit_and_no_doubt(missing: dict[str, Any]) -> None:
    verdict = judged(audited(a_ledger(**missing)))
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    assert sum(limit.startswith("Not judged, for lack of") for limit in verdict.limits) == 1


def test_without_an_order_of_sending_nothing_is_held_that_forbids_another_order() -> None:
    verdict = judged(audited(a_ledger(ordered=False)))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", "order_unknown")})
    verdict = judged(audited(a_ledger("acks_1", ordered=False)))
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    assert "order" not in verdict.sentence and any("the order (REORDERED)" in limit for limit in verdict.limits)


@pytest.mark.parametrize(
    ("counts", "name"),
    [
        ({"unordered": 1}, "order_unknown"),
        ({"open_transactions": 1, "aborted_records": 0}, "transaction_open"),
        ({"control_records": 1, "aborted_records": 1, "transaction_unknown": 1}, "transaction_unknown"),
        ({"expired": 1}, "expired"),
        ({"expired_present": 1}, "expired"),
        ({"younger": 1}, "topic_younger"),
        ({"guessed": 1}, "attempts_guessed"),
        ({"gaps": 1}, "complete_contradicted"),
        ({"foreign_writers": 1}, "identity_missing"),
        ({"tombstones": 1}, "values_not_hashed"),
    ],
)
def test_what_ledger_and_log_leave_open_forbids_held_by_its_name_and_not_violated(
    counts: dict[str, int], name: str
) -> None:
    verdict = judged(audited(a_ledger(), audit_counts=counts))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", name)})
    broken = judged(audited(a_ledger(), lost(3), audit_counts=counts))
    assert broken.verdict == "VIOLATED" and doubts(broken) == {("coverage", name)}


@pytest.mark.parametrize("profile", ["idempotent", "acks_1"])
def test_a_log_that_has_lost_its_beginning_may_have_lost_copies_and_overtaking_records(profile: str) -> None:
    whole = audited(a_ledger(profile))
    parts = [replace(part, start=7) for part in whole.offsets.partitions]
    verdict = judged(replaced(whole, offsets=replace(whole.offsets, partitions=parts)))
    assert (("coverage", "expired") in doubts(verdict)) is (profile == "idempotent")


def counted(**counts: int) -> Any:
    """Returns a change that adds to the first row of the subject's counts."""

    def change(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == SUBJECT and row["producer"] == 0)
        row.update(counts)

    return change


@pytest.mark.parametrize("claim", ["contract", "ordered"])
def test_a_late_attempt_of_unknown_outcome_is_a_doubt_where_order_is_promised(claim: Claim) -> None:
    def late(rows: Rows) -> None:
        counted(acked=398, reported=398, found=398, indeterminate=2, resolved_present=2, resolved_late=2)(rows)

    verdict = judged(audited(a_ledger(claim=claim), late))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", "late_unknown")})


PHANTOMS = counted(phantoms=3, phantom=3)


def copies(count: int = 2) -> Any:
    return counted(duplicated=count, extra_copies=count, log_records=400 + count)


@pytest.mark.parametrize("partitions", [[0, 0], [0, 1]])
@pytest.mark.parametrize(
    "uncertain", [{}, {"complete": False}, {"empty": ("b.jsonl",)}, {"counts": {"guessed": 1}}, {"counts": {"gaps": 1}}]
)
def test_permitted_copies_convict_in_two_partitions_and_are_a_doubt_elsewhere(
    partitions: list[int], uncertain: dict[str, Any]
) -> None:
    counts = dict(uncertain).pop("counts", {})
    of = a_ledger("acks_all", **{name: value for name, value in uncertain.items() if name != "counts"})
    row = {"arm": SUBJECT, "kind": "DUPLICATED", "producer": 0, "partition": 0, "partitions": partitions}
    verdict = judged(audited(of, copies(1), cases=cases(row), audit_counts=counts))
    convicts = partitions == [0, 1] and not uncertain
    assert verdict.verdict == ("VIOLATED" if convicts else "INCONCLUSIVE")
    assert (("coverage", "copies_not_examined") in doubts(verdict)) is not convicts


@pytest.mark.parametrize(
    ("change", "more", "counts"),
    [
        (copies(), {"others_write": True}, {}),
        (counted(corrupted=2), {"others_write": True}, {}),
        (PHANTOMS, {"others_write": True}, {}),
        (PHANTOMS, {"complete": False}, {"failed_elsewhere": 3}),
        (PHANTOMS, {"cut": "its last line is torn"}, {"failed_elsewhere": 3}),
        (PHANTOMS, {"empty": ("b.jsonl",)}, {"failed_elsewhere": 1, "unclaimed": 2}),
        (PHANTOMS, {}, {"gaps": 1, "unclaimed": 3}),
        (copies(), {"complete": False}, {}),
        (copies(), {"cut": "its last line is torn"}, {}),
        (copies(), {"empty": ("b.jsonl",)}, {}),
        (copies(), {}, {"gaps": 1}),
        (counted(reordered=2), {"complete": False, "attempts": False}, {}),
        (lost(3), {}, {"unproven_lost": 3}),
        (counted(misplaced=2), {}, {"unproven_misplaced": 2}),
        (copies(), {}, {"unproven_duplicated": 2}),
    ],
)
def test_cases_that_have_another_explanation_convict_nobody_and_one_without_it_does(
    change: Any, more: dict[str, Any], counts: dict[str, int]
) -> None:
    verdict = judged(audited(a_ledger(**more), change, audit_counts=counts))
    assert verdict.verdict == "INCONCLUSIVE"
    (doubt,) = [doubt for doubt in arm(verdict).doubts if doubt.name.startswith("unproven:")]
    assert "Nothing proves these cases" in doubt.detail
    fewer = {name: count - 1 for name, count in counts.items()}
    proven = judged(audited(a_ledger(), change, audit_counts=fewer))
    assert proven.verdict == "VIOLATED"
    partly = [doubt.detail for doubt in arm(proven).doubts if doubt.name.startswith("unproven:")]
    assert len(partly) == any(name.startswith("unproven_") for name in counts)


COMMITTED = {"control_records": 4, "aborted_records": 9}
"""The counts of an audit of a topic with transactions, judged as a read_committed consumer sees it."""


def test_a_topic_with_transactions_is_held_and_its_records_convict_as_read_committed_sees_them() -> None:
    verdict = judged(audited(a_ledger(), audit_counts=COMMITTED))
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    assert any("none of the 9 records of aborted transactions" in limit for limit in verdict.limits)
    assert judged(audited(a_ledger(), copies(), audit_counts=COMMITTED)).verdict == "VIOLATED"


@pytest.mark.parametrize(("counts", "start"), [({"end_unknown": 1}, 0), ({"sent_again": 1}, 0), ({}, 7), ({}, None)])
def test_an_order_convicts_only_if_nothing_can_have_been_sent_again_without_a_number(
    counts: dict[str, int], start: int | None
) -> None:
    evidence = audited(a_ledger(), counted(reordered=2), audit_counts=COMMITTED | counts)
    parts = [replace(part, start=start or 0) for part in evidence.offsets.partitions]
    verdict = judged(replaced(evidence, offsets=replace(evidence.offsets, partitions=parts)))
    assert verdict.verdict == ("VIOLATED" if start is None else "INCONCLUSIVE")
    assert (("coverage", "unproven:REORDERED") in doubts(verdict)) is (start is not None)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lost(3), "committed_hidden"),
        (counted(misplaced=3), "committed_hidden_there"),
        (PHANTOMS, "aborted_found"),
    ],
)
@pytest.mark.parametrize(
    ("profile", "claim", "convicts"),
    [
        ("transactional", "exactly_once", True),
        ("transactional", "contract", False),
        ("idempotent", "exactly_once", True),
        ("idempotent", "contract", False),  # a transactional.id may stand in the code
    ],
)
def test_a_transaction_that_ended_otherwise_convicts_only_where_that_is_forbidden(
    change: Any, name: str, profile: str, claim: Claim, convicts: bool
) -> None:
    of = a_ledger(profile, claim)
    verdict = judged(audited(of, change, audit_counts=COMMITTED | {name: 3}))
    assert verdict.verdict == ("VIOLATED" if convicts else "INCONCLUSIVE")
    assert any(note.startswith("3 ") and "transaction" in note for note in verdict.notes)
    assert judged(audited(of, change, audit_counts=COMMITTED | {name: 2})).verdict == "VIOLATED"


def test_the_doubt_about_hidden_records_also_holds_of_unanswered_sends_and_of_open_transactions() -> None:
    verdict = judged(audited(a_ledger(), audit_counts=COMMITTED | {"transaction_unknown": 2}))
    (doubt,) = arm(verdict).doubts
    assert doubt.detail.startswith("2 claims have a record in transactions that were aborted or have not ended")
    assert doubt.detail.endswith("and the ledger does not call them aborted")


def test_a_violation_by_a_loss_names_what_it_assumes() -> None:
    verdict = judged(audited(a_ledger(), lost(3)))
    assumed = "if no broker lost its power, nobody asked for an unclean election, and the topic was not created anew"
    assert verdict.verdict == "VIOLATED" and assumed in verdict.sentence
    (finding,) = [finding for finding in arm(verdict).findings if finding.anomaly == Anomaly.LOST]
    assert assumed in finding.sentence
    assert assumed not in judged(audited(a_ledger(), copies())).sentence


def test_values_that_are_the_identity_need_no_checksum() -> None:
    verdict = judged(audited(a_ledger(hash="", identity=Identity(kind="value"))))
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())


@pytest.mark.parametrize("profile", ["idempotent", "safe", "acks_all"])
def test_a_loss_that_no_everyday_fault_permits_is_violated_though_nobody_watched(profile: str) -> None:
    verdict = judged(audited(a_ledger(profile), lost(3)))
    assert (verdict.verdict, doubts(verdict)) == ("VIOLATED", set())


def test_a_loss_that_a_new_leader_would_permit_is_neither_held_nor_violated() -> None:
    verdict = judged(audited(a_ledger("acks_1"), lost(3)))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", "cluster_not_observed")})
    (doubt,) = arm(verdict).doubts
    assert "3 LOST" in doubt.detail and "leader change" in doubt.detail
    assert judged(audited(a_ledger("acks_1"))).verdict == "HELD"  # nothing to permit


def test_without_settings_the_claim_alone_forbids() -> None:
    for claim, verdict in (("at_least_once", "VIOLATED"), ("at_most_once", "INCONCLUSIVE")):
        of = a_ledger("acks_1", claim, settings_known=False)  # type: ignore[arg-type]
        assert judged(audited(of, lost(3))).verdict == verdict


def test_without_settings_what_no_settings_permit_is_forbidden_all_the_same() -> None:
    rulings = audited(a_ledger("acks_1", "ordered", settings_known=False)).arms[0].rulings
    forbidden = {anomaly for anomaly, ruling in rulings.items() if ruling.ruling == "FORBIDDEN"}
    assert {Anomaly.CORRUPTED, Anomaly.PHANTOM, Anomaly.REORDERED} <= forbidden
    assert not {Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.MISPLACED} & forbidden


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"audit_counts": {"past_the_end": 2}}, "ack_past_the_end"),
        ({"audit_notes": {"not_quiet": "partition 0 did not stand still"}}, "not_quiet"),
        ({"audit_notes": {"isr_not_full": "partition 0 has a replica"}}, "isr_not_full"),
        ({"audit_notes": {"canary_too_small": "only 3 sound records"}}, "canary_too_small"),
        ({"audit_notes": {"canary_wrong": "10 offsets are claimed twice, and 9 were found"}}, "canary_wrong"),
        ({"audit_counts": {"inferred": 1}}, "claims_missing"),
        ({"audit_counts": {"left_out": 1}}, "claims_missing"),
    ],
)
def test_what_makes_the_check_itself_doubtful_forbids_both(told: dict[str, Any], name: str) -> None:
    for change in (lambda rows: None, lost(3)):
        verdict = judged(audited(a_ledger(), change, **told))
        assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("checker", name)})


def test_what_may_have_expired_and_what_was_not_planted_forbid_held() -> None:
    verdict = judged(audited(a_ledger(), audit_counts={"unknowable": 2}, not_planted={"REORDERED": "too few records"}))
    assert verdict.verdict == "INCONCLUSIVE"
    assert doubts(verdict) == {("coverage", "expired_unknown"), ("coverage", "not_planted:REORDERED")}


def test_expired_claims_foreign_writers_and_gaps_are_reported_with_their_number_and_are_no_anomaly() -> None:
    counts = {"expired": 1234, "foreign_writers": 5, "unclaimed": 6, "gaps": 7}
    verdict = judged(audited(a_ledger(), audit_counts=counts))
    assert not any(finding.broken for finding in arm(verdict).findings)
    told = " ".join(verdict.limits)
    assert "EXPIRED, and left out: 1,234" in told
    assert (
        "without an identity: 5" in told
        and "stands in no line of the ledger: 6" in told
        and "neither ledger nor log have: 7" in told
    )


def test_two_acknowledgements_of_one_offset_are_a_finding_that_is_told() -> None:
    counts, notes = {"shared": 1, "shared_acks": 2}, {"shared": "partition 0, offset 5: acks.jsonl, line 7 and line 9"}
    verdict = judged(audited(a_ledger(), audit_counts=counts, audit_notes=notes))
    (note,) = verdict.notes
    assert note.startswith("Two acknowledgements name one offset: 1 x") and "line 7" in note
    assert "a finding against the client or the broker" in note


def test_a_canary_that_is_wrong_forbids_both() -> None:
    of = a_ledger()
    wrong = dict(audited(of).canary_expected) | {"lost": 99}
    assert ("checker", "canary_wrong") in doubts(judged(audited(of, lost(3), canary_expected=wrong)))


def test_a_run_of_our_own_still_needs_its_start_and_its_observer() -> None:
    of = a_scenario("idempotent", "none")
    verdict = judged(replaced(evidence_of(of), observations=[], injections=[]))
    assert ("checker", "observer_blind") in doubts(verdict)
    assert doubts(judged(audited(replace(of, audit=None)))) >= {("checker", "invariant_missing")}


def test_each_doubt_of_an_audit_has_advice() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/audit.md").read_text()
    assert [name for name in DOUBTS if name not in ADVICE] == []
    assert [name for name in UNPROVEN_DOUBTS if f"`{name}" not in page] == []
