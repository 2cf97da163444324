"""Tests that a run of the current format needs a table of its replicas, in which they agree."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from support.current_runs import agreeing_replicas, current_run, with_replicas
from support.older_runs import NAMES, older_run, stored_judgement
from support.stored_runs import judge_again

from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.store.replicas import REPLICAS

HELD = NAMES[0]


def test_an_older_run_is_judged_as_before_without_the_table(tmp_path: Path) -> None:
    run = older_run(HELD, tmp_path)
    assert json.loads((run.path / "settle.json").read_bytes()).get("format_version", 1) < REPLICAS.since
    assert load_and_judge(run.path).verdict == stored_judgement(HELD)["verdict"] == "HELD"


def test_a_run_of_this_format_is_held_with_its_table_and_not_without_or_with_one_that_differs(
    tmp_path: Path, spark: SparkSession
) -> None:
    run = current_run(HELD, tmp_path)
    assert judge_again(run, spark).verdict == "HELD"
    whole = agreeing_replicas(run)
    digests = pc.if_else(pc.equal(whole["broker"], 3), "other", whole["digest"])
    with_replicas(run, whole.set_column(whole.column_names.index("digest"), "digest", digests))
    assert judge_again(run).verdict == "INCONCLUSIVE"
    with_replicas(run, None)
    bare = judge_again(run)
    assert bare.verdict == "INCONCLUSIVE"
    of_subjects = [item for item in bare.arms if item.role == "subject"]
    assert {doubt.name for item in of_subjects for doubt in item.doubts} == {"replica_not_read"}, of_subjects
