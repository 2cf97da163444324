"""From the evidence of an arm to the causes of its cases: which cases count, and which transactions were whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from support.evidence import EFFECT_AT, SECOND, SUBJECT, Change, evidence_of, setting, with_arm
from support.judged_applications import PRODUCERS, applied_by

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.model.history import Injection
from delivery_verifier.run_directory.group_log import GroupLog
from delivery_verifier.verdict.causes import cause_of_case, causes, group_of, others, skipped
from delivery_verifier.verdict.causes.cases import COLUMNS
from delivery_verifier.verdict.evidence import ArmEvidence

KILL = Injection(
    id=1, cycle=0, action="kill_application", brokers=[], hit={}, requested_at_us=EFFECT_AT, effect_at_us=EFFECT_AT
)


def case(kind: str, offset: int, **more: Any) -> dict[str, Any]:
    row = {"arm": SUBJECT, "kind": kind, "producer": 0, "sequence": offset, "partition": 0, "offsets": [offset]}
    return row | {"sent_at": EFFECT_AT - SECOND, "detail": "applied by member 0 in incarnation 0"} | more


def an_arm(*rows: dict[str, Any], profile: str = "idempotent", change: Change = lambda rows: None) -> ArmEvidence:
    """Returns an arm with a program of the user's own, whose group committed offset 10 just before it was killed."""
    run = with_arm(applied_by("own"), SUBJECT, profile=PROFILES[profile])
    commit = {"arm": SUBJECT, "topic": run.arm(SUBJECT).topic_name, "partition": 0, "committed": True}
    commits = [
        commit | {"offset": offset, "at": EFFECT_AT - early_s * SECOND, "log_offset": offset}
        for offset, early_s in ((5, 3), (10, 1))
    ]
    cases = pa.Table.from_pylist(list(rows))
    made = evidence_of(run, change, injections=[KILL], cases=cases, group_log=GroupLog(commits, [], [], []))
    return next(arm for arm in made.arms if arm.name == SUBJECT)


def what(arm: ArmEvidence, row: dict[str, Any]) -> str:
    group = group_of(arm)
    assert group is not None
    cause = cause_of_case(arm, group, row)
    assert cause is not None
    return cause.what


def test_the_cause_of_a_record_depends_on_the_other_records_with_its_anomaly_alone() -> None:
    row = case("SKIPPED", 7)
    beside = [case("SKIPPED", 8), case("SKIPPED", 9)]
    assert what(an_arm(row, *beside), row) == skipped.AHEAD.what
    again = [each | {"kind": "REAPPLIED"} for each in beside]
    assert what(an_arm(row, *again), row) == skipped.OVER_A_GAP.what, "others behind it were applied"


def test_a_list_of_cases_with_no_more_than_the_needed_columns_has_causes() -> None:
    arm = an_arm(case("SKIPPED", 9))
    assert arm.run.cases is not None and set(arm.run.cases.column_names) == {"arm", *COLUMNS}
    assert [cause.what for cause in causes(arm)] == [skipped.AHEAD.what]
    bare = replace(arm, run=replace(arm.run, cases=arm.run.cases.drop(["detail"])))
    assert causes(bare) == []


def found(column: str) -> Change:
    """Returns a change that makes one record of the subject lost or torn."""
    return setting(PRODUCERS, column, 1, arm=SUBJECT, producer=0)


GHOST = case("GHOST", 7, offsets=[])


def test_what_a_program_applied_of_a_transaction_is_its_own_doing_only_if_the_log_lost_nothing() -> None:
    (cause,) = causes(an_arm(GHOST, profile="transactional"))
    assert cause.what == others.UNCOMMITTED.what
    for column in ("lost", "torn"):
        assert causes(an_arm(GHOST, profile="transactional", change=found(column))) == []
    assert causes(an_arm(GHOST)) == [], "without transactions, the log may have lost it since"
