"""Tests that a run needs a table of its replicas, in which they agree."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from support.stored_data import HELD, relink, stored_run
from support.stored_runs import judge_again, reseal, rewrite

from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.run_directory import RunDirectory


def test_a_run_is_held_with_its_table_and_not_without_or_with_one_that_differs(tmp_path: Path) -> None:
    run = stored_run(HELD, tmp_path)
    assert judge_again(run).verdict == "HELD"
    rewrite(run.path / REPLICAS.file, _other_digests_on_broker_1)
    reseal(run, "settle")
    relink(run)
    assert doubts_of(run) == {"replicas_differ"}
    (run.path / REPLICAS.file).unlink()
    manifest = json.loads((run.path / "settle.json").read_bytes())
    del manifest["files"][REPLICAS.file]
    (run.path / "settle.json").write_text(json.dumps(manifest))
    relink(run)
    assert doubts_of(run) == {"replica_not_read"}


def _other_digests_on_broker_1(table: pa.Table) -> pa.Table:
    """Broker 1 leads no partition of the stored run."""
    digests = pc.if_else(pc.equal(table["broker"], 1), "other", table["digest"])
    return table.set_column(table.column_names.index("digest"), "digest", digests)


def doubts_of(run: RunDirectory) -> set[str]:
    verdict = judge_again(run)
    assert verdict.verdict == "INCONCLUSIVE"
    return {doubt.name for item in verdict.arms if item.role == "subject" for doubt in item.doubts}
