"""Tests of what the second opinion (spark_jobs.checks.second_opinion) does to a verdict: counts that another program
does not confirm convict and acquit nobody."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.run_directories import table
from support.stored_data import HELD, VIOLATED, judgement, stored_run
from support.stored_runs import arm, doubts, judge_again, rewrite

from delivery_verifier.run_directory import tally
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs import reconcile as job
from spark_jobs.checks import second_opinion

DOUBT = ("checker", "counts_unbalanced:second_opinion")


def _equations(run: RunDirectory) -> Counter[str]:
    """Returns the number of equations of the invariant per arm."""
    return Counter(
        row["arm"] for row in table(run, "counts/invariants.parquet") if row["invariant"] == tally.SECOND_OPINION
    )


def test_tally_with_one_count_altered_are_a_doubt_that_no_other_invariant_raises(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The matching calls one lost record found. Counts and cases agree with each other, and balance."""
    run, match = stored_run(VIOLATED, tmp_path), job.match

    def wrong(*inputs: Any) -> tuple[pa.Table, dict[tuple[str, str], int]]:
        producers, written = match(*inputs)
        rows = producers.to_pylist()
        row = next(row for row in rows if row["arm"] == "acks_1" and row["lost"])
        row |= {"lost": row["lost"] - 1, "found": row["found"] + 1}
        written["acks_1", "LOST"] -= 1
        return pa.Table.from_pylist(rows, schema=producers.schema), written

    monkeypatch.setattr(job, "match", wrong)
    verdict = judge_again(run, spark)
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("INCONCLUSIVE", False, 2)
    assert {doubt for doubt in doubts(verdict, "acks_1") if doubt[0] == "checker"} == {DOUBT}
    details = {doubt.detail for doubt in arm(verdict, "acks_1").doubts if doubt.kind == "checker"}
    lost = arm(verdict, "acks_1").tally["lost"]
    assert f"acks_1: lost, counted by DuckDB = {lost + 1}, but lost, counted by Spark = {lost}" in details
    assert all(DOUBT not in doubts(verdict, name) for name in ("control-safe", "control-acks_0", "canary"))


def test_a_ledger_from_which_a_row_is_gone_after_the_tally_is_a_doubt(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, count = stored_run(HELD, tmp_path), second_opinion.count

    def after_a_removal(run_dir: Path, *inputs: Any) -> second_opinion.Opinion:
        # In a copy, because the search for shared offsets reads the ledger at the same time.
        less = tmp_path / "less"
        for name in ("ledger", "log"):
            shutil.copytree(run_dir / name, less / name)
        rewrite(less / "ledger/transactional-0-0.parquet", lambda rows: rows.slice(1))
        return count(less, *inputs)

    monkeypatch.setattr(second_opinion, "count", after_a_removal)
    verdict = judge_again(run, spark)
    assert verdict.verdict == "INCONCLUSIVE"
    assert {doubt for doubt in doubts(verdict, "transactional") if doubt[0] == "checker"} == {DOUBT}


def test_a_verdict_says_where_the_second_opinion_is_missing(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored_run(HELD, tmp_path)
    confirmed = judge_again(run, spark)
    assert confirmed.verdict == "HELD" and not [text for text in confirmed.limits if "second_opinion" in text]
    arms = run.read_scenario().arm_names
    counts = 1 + len(second_opinion.COUNTS)
    assert _equations(run) == Counter({name: 1 if name == "canary" else counts for name in arms})
    manifest = run.manifest("reconcile")
    assert "second_opinion_ms" in manifest.counts and not [name for name in manifest.files if "opinion" in name]
    assert not [file for file in run.path.rglob("*") if "opinion" in file.name]

    monkeypatch.setattr(tally, "SECOND_OPINION_RECORDS", 10)
    alone = judge_again(run, spark, report=True)
    assert judgement(alone) == judgement(confirmed) and not _equations(run)
    (limit,) = [text for text in alone.limits if "second_opinion" in text]
    assert limit.startswith("This run has ") and limit in (run.path / "report.html").read_text()


def test_tally_without_the_invariant_that_their_size_asks_for_are_a_doubt(tmp_path: Path, spark: SparkSession) -> None:
    run = stored_run(HELD, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "SECOND_OPINION_RECORDS", 10)
        judge_again(run, spark)
    assert not pq.read_table(
        run.path / "counts/invariants.parquet", filters=[("invariant", "=", tally.SECOND_OPINION)]
    ).num_rows
    verdict = judge_again(run)
    assert verdict.verdict == "INCONCLUSIVE"
    assert {("checker", "invariant_missing"), ("checker", "expectation_not_evaluated")} & doubts(
        verdict, "transactional"
    )
