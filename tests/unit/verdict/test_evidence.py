"""Tests of the evidence: what stands in place of a count that the counts lack, and what the canary has
not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from support.evidence import (
    EFFECT_AT,
    RUN,
    SUBJECT,
    WEAK,
    Rows,
    case,
    cases,
    evidence_of,
    setting,
    the_injections,
)
from support.stored_data import NAMES, relink, stored_run

from delivery_verifier.model.verdict import Exposure
from delivery_verifier.run_directory.counts import LATE, UNPROVEN
from delivery_verifier.run_directory.run_directory import IncompleteRun
from delivery_verifier.run_directory.tally import Tally
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence, is_power_loss

PRODUCERS = "counts/producers.parquet"


def arm_of(evidence: Evidence, name: str = SUBJECT) -> ArmEvidence:
    return next(arm for arm in evidence.arms if arm.name == name)


def test_late_records_count_only_where_brokers_refuse_them() -> None:
    late = {name: setting(PRODUCERS, "resolved_late", 3, arm=name, producer=0) for name in (SUBJECT, WEAK, "canary")}
    assert arm_of(evidence_of(RUN, late[SUBJECT])).totals[LATE] == 3
    for name in (WEAK, "canary"):
        arm = arm_of(evidence_of(RUN, late[name]), name)
        assert not arm.late_convicts and LATE not in arm.totals and arm.totals["resolved_late"] >= 3


def test_tally_without_a_column_of_late_records_have_none() -> None:
    def without(rows: Rows) -> None:
        for row in rows[PRODUCERS]:
            del row["resolved_late"]

    totals = arm_of(evidence_of(RUN, without)).totals
    assert LATE not in totals and totals["reported"] == 1200


def test_an_arm_has_the_unproven_losses_of_its_own_partitions() -> None:
    evidence = replace(evidence_of(RUN), missing={(SUBJECT, 0): 2, (SUBJECT, 2): 3, (WEAK, 0): 7})
    assert {arm.name: arm.totals.get(UNPROVEN) for arm in evidence.arms} == {SUBJECT: 5, WEAK: 7, "canary": None}
    assert set(arm_of(evidence).totals) - {UNPROVEN} == set(arm_of(evidence_of(RUN)).totals)


def test_an_exposure_that_is_null_is_none_and_an_unknown_injection_is_of_no_cycle() -> None:
    def change(rows: Rows) -> None:
        rows["counts/exposure.parquet"] = [
            {"arm": SUBJECT, "injection": 9, "reported": None, "outstanding": None},
            {"arm": SUBJECT, "injection": 1, "reported": 5, "outstanding": 6},
        ]

    injections = [msgspec.structs.replace(the_injections(RUN)[0], cycle=4)]
    evidence = evidence_of(RUN, change, injections=injections)
    assert arm_of(evidence).exposure == [
        Exposure(injection=1, reported=5, outstanding=6, cycle=4),
        Exposure(injection=9, reported=0, outstanding=0, cycle=0),
    ]
    assert arm_of(evidence, WEAK).exposure == []


@pytest.mark.parametrize("column", ["injection", "reported", "outstanding"])
def test_tally_without_the_columns_of_exposure_expose_nothing(column: str) -> None:
    evidence = evidence_of(RUN)
    tables = dict(evidence.tally.tables)
    name = "counts/exposure.parquet"
    bare: pa.Table = tables[name].drop_columns([column])
    assert arm_of(replace(evidence, tally=Tally.from_tables(tables | {name: bare}))).exposure == []


def test_cases_belong_to_injections_in_loaded_arms_and_only_if_there_are_any() -> None:
    with_cases = evidence_of(
        RUN, cases=cases(case(EFFECT_AT, EFFECT_AT, arm=SUBJECT), case(EFFECT_AT, EFFECT_AT, arm="canary"))
    )
    assert arm_of(with_cases).cases_by_injection == {"LOST": [1]}
    assert arm_of(with_cases, WEAK).cases_by_injection == {}
    assert arm_of(with_cases, "canary").cases_by_injection is None
    without = evidence_of(RUN)
    assert without.cases is None and without.cases_by_injection is None and without.kinds_sent_afterwards == {}
    assert arm_of(without).cases_by_injection is None and arm_of(without).kinds_sent_afterwards == set()


def test_only_losses_of_power_that_bit_end_before_what_was_sent_afterwards() -> None:
    (kill,) = the_injections(RUN)
    power = msgspec.structs.replace(kill, action="power_off")
    late = cases(case(1, 2, arm=SUBJECT))
    afterwards = {SUBJECT: {"LOST"}}
    for injection, sent in (
        (kill, afterwards),
        (power, {}),
        (msgspec.structs.replace(power, took_effect=False), afterwards),
    ):
        assert evidence_of(RUN, cases=late, injections=[injection]).kinds_sent_afterwards == sent
    assert [is_power_loss(each) for each in (kill, power)] == [False, True]
    assert not is_power_loss(msgspec.structs.replace(kill, action="of another version"))


def test_arms_with_load_are_all_but_the_canary_and_the_load_began_at_no_known_time() -> None:
    evidence = evidence_of(RUN)
    assert [arm.name for arm in evidence.loaded] == [SUBJECT, WEAK] and evidence.canary.name == "canary"
    assert evidence.load_began_us == 0
    assert evidence.effective == the_injections(RUN)
    assert (
        evidence_of(RUN, injections=[msgspec.structs.replace(the_injections(RUN)[0], took_effect=False)]).effective
        == []
    )


@pytest.mark.parametrize("step", ["produce", "inject_fault", "settle", "reconcile"])
def test_a_run_without_a_step_is_no_evidence(tmp_path: Path, step: str) -> None:
    run = stored_run(NAMES[0], tmp_path)
    (run.path / f"{step}.json").unlink()
    with pytest.raises(IncompleteRun, match=step):
        Evidence.load(run.path)


def test_a_run_without_what_was_done_to_the_cluster_is_no_evidence(tmp_path: Path) -> None:
    run = stored_run(NAMES[0], tmp_path)
    assert Evidence.load(run.path).ended_early == {}
    for name in ("injections.json", "observations.json", "offsets.json"):
        other = shutil.copytree(run.path, tmp_path / name)
        (other / name).unlink()
        with pytest.raises(IncompleteRun):
            Evidence.load(other)


def test_only_notes_of_loads_that_ended_early_say_so(tmp_path: Path) -> None:
    run = stored_run(NAMES[0], tmp_path)
    manifest = json.loads((run.path / "produce.json").read_text())
    manifest["notes"] = {"ended_early/a/0/0": "fatal client error: _FENCED", "versions": "of the clients"}
    (run.path / "produce.json").write_text(json.dumps(manifest))
    relink(run)
    assert Evidence.load(run.path).ended_early == {"a/0/0": "fatal client error: _FENCED"}
