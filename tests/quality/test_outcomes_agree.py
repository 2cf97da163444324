"""Tests that a ledger whose outcomes were altered convicts and acquits nobody.

The ledger of a stored run is sealed as a defect would seal it. Then the run is reconciled, validated and judged anew.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.stored_data import HELD, VIOLATED, relink, stored_judgement, stored_run
from support.stored_runs import arm, doubts, judge_again, reseal, rewrite

from delivery_verifier.canary import FORGOTTEN
from delivery_verifier.load import publish_ledger
from delivery_verifier.load.lossy_mock import send_and_forget
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.run_directory.ledger import outcomes_key
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.settlement.sealing import seal_ledgers

DOUBT = ("checker", "counts_unbalanced:outcomes_agree")


def as_indeterminate(table: pa.Table, sequences: pa.Array | None = None) -> pa.Table:
    """Turns ACKED attempts into INDETERMINATE attempts: those of `sequences`, or all if that is None."""
    acked = pc.equal(table["outcome"], "ACKED")
    if sequences is not None:
        acked = pc.and_(acked, pc.is_in(table["sequence"], sequences))
    outcomes = pc.if_else(acked, pa.scalar("INDETERMINATE"), table["outcome"])
    offsets = pc.if_else(acked, pa.scalar(None, pa.int64()), table["offset"])
    names = table.column_names
    return table.set_column(names.index("outcome"), table.schema.field("outcome"), outcomes).set_column(
        names.index("offset"), table.schema.field("offset"), offsets
    )


def _forget_records(run: RunDirectory) -> None:
    """Writes the ledger of the canary's real producer anew, as the step `settle` does."""
    before = run.manifest("settle")
    with run.writing("settle") as output:
        for name in before.files:
            (output.staging / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(run.path / name, output.staging / name)
        output.counts |= before.counts
        seal_ledgers([send_and_forget(run.read_scenario(), run.path.parent / "workspace", FORGOTTEN)], output)
    relink(run)


@pytest.mark.parametrize("only_the_lost", [True, False])
def test_losses_that_the_seal_hides_are_a_doubt(tmp_path: Path, spark: SparkSession, only_the_lost: bool) -> None:
    run = stored_run(VIOLATED, tmp_path)
    cases = pq.read_table(run.path / "anomalies/cases.parquet")
    lost = cases.filter(pc.and_(pc.equal(cases["arm"], "acks_1"), pc.equal(cases["kind"], "LOST")))["sequence"]
    hidden = lost.combine_chunks() if only_the_lost else None
    rewrite(run.path / "ledger/acks_1-0-0.parquet", lambda table: as_indeterminate(table, hidden))
    reseal(run, "produce")
    verdict = judge_again(run, spark)
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("INCONCLUSIVE", False, 2)
    hurt = arm(verdict, "acks_1")
    assert stored_judgement(VIOLATED)["arms"]["acks_1"]["tally"]["lost"] > hurt.tally["lost"] == 0
    assert hurt.tally["found"] == hurt.tally["reported"], "the counts balance all the same"
    assert {doubt for doubt in doubts(verdict, "acks_1") if doubt[0] == "checker"} == {DOUBT}
    assert DOUBT not in doubts(verdict, "control-safe")


def test_a_canary_whose_ledger_was_sealed_otherwise_is_a_doubt_about_every_arm(
    tmp_path: Path, spark: SparkSession
) -> None:
    run = stored_run(HELD, tmp_path)
    key = outcomes_key(Outcome.ACKED, "canary/0/0")
    reseal(run, "settle", {key: run.manifest("settle").counts[key] + 1})
    verdict = judge_again(run, spark)
    assert all(DOUBT in doubts(verdict, item.arm) for item in verdict.arms)


def test_a_seal_that_hides_losses_hides_those_of_the_canarys_real_producer_too(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored_run(HELD, tmp_path)
    monkeypatch.setattr(publish_ledger, "outcome_of", lambda result: Outcome.INDETERMINATE)
    _forget_records(run)
    verdict = judge_again(run, spark)
    lost = [doubt.detail for doubt in arm(verdict, "transactional").doubts if doubt.name == "canary_wrong"]
    assert any(detail.startswith("the canary's lost must be") for detail in lost)
    assert {item.verdict for item in verdict.arms} == {"INCONCLUSIVE"}


@pytest.mark.parametrize("missing", ["produce", "settle"])
def test_a_run_of_the_current_format_without_its_producers_counts_is_not_held(
    tmp_path: Path, spark: SparkSession, missing: str
) -> None:
    run = stored_run(HELD, tmp_path)
    file = run.path / f"{missing}.json"
    manifest = json.loads(file.read_bytes())
    manifest["counts"] = {name: n for name, n in manifest["counts"].items() if not name.startswith("outcomes_")}
    file.write_text(json.dumps(manifest))
    relink(run)
    verdict = judge_again(run, spark)
    assert verdict.verdict == "INCONCLUSIVE"
    assert DOUBT in doubts(verdict, "transactional")


def test_a_run_without_the_canarys_real_producer_is_not_held(tmp_path: Path, spark: SparkSession) -> None:
    run = stored_run(HELD, tmp_path)
    name = "ledger/canary-1-0.parquet"
    (run.path / name).unlink()
    manifest = json.loads((run.path / "settle.json").read_bytes())
    del manifest["files"][name]
    (run.path / "settle.json").write_text(json.dumps(manifest))
    relink(run)
    verdict = judge_again(run, spark)
    assert verdict.verdict == "INCONCLUSIVE"
    assert ("checker", "canary_wrong") in doubts(verdict, "transactional")
