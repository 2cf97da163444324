"""Tests that damage copies of one good stored run in many ways. Each copy must end INCONCLUSIVE, with a doubt that
names the damage.

The files are sealed again after the damage, i.e. the manifest gets their new checksums. So only the invariants of the
counts, the canary and the judge can notice the damage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.stored_data import HELD, stored_run
from support.stored_runs import arm, copy_of, doubts, judge_again, reseal, rewrite

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.verdict.checker_doubts import INVARIANT_DOUBTS
from delivery_verifier.verdict.evaluation import CANARY, INVARIANTS, INVARIANTS_OF_EFFECTS

SUBJECT = "transactional"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> RunDirectory:
    """A stored run that ends HELD and green."""
    run = stored_run(HELD, tmp_path_factory.mktemp("good"))
    verdict = judge_again(run, spark)
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("HELD", True, 0)
    return run


@pytest.fixture
def copy(good: RunDirectory, request: pytest.FixtureRequest) -> RunDirectory:
    return copy_of(good, f"copy-{abs(hash(request.node.name)):x}"[:40])


def assert_doubted(verdict: RunVerdict, name: str, where: str = SUBJECT) -> None:
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("INCONCLUSIVE", False, 2)
    assert arm(verdict, where).verdict == "INCONCLUSIVE"
    assert ("checker", name) in doubts(verdict, where)


def _without_partition(run: RunDirectory) -> None:
    """Removes all records of partition 1 of the subject from log/, as if they had not been read."""
    for file in (run.path / "log").glob("*.parquet"):
        table = pq.read_table(file)
        pq.write_table(table.filter(pc.invert(_of(table, SUBJECT, 1))), file)
    reseal(run, "read_topic")


def _of(table: pa.Table, arm_name: str, partition: int) -> Any:
    return pc.and_(pc.equal(table["arm"], arm_name), pc.equal(table["partition"], partition))


def _ledger_cut_short(run: RunDirectory) -> None:
    """Removes the last ten attempts from the ledger, as after an incomplete write."""
    (file,) = (run.path / "ledger").glob(f"{SUBJECT}-0-0.parquet")
    rewrite(file, lambda table: table.slice(0, table.num_rows - 10))
    reseal(run, "produce")


def _acked_sealed_as_indeterminate(run: RunDirectory) -> None:
    """Ten attempts that were acknowledged are INDETERMINATE in the ledger, so that they could not be LOST."""

    def forget(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        for row in rows[:10]:
            row |= {"outcome": "INDETERMINATE", "offset": None}
        return pa.Table.from_pylist(rows, schema=table.schema)

    rewrite(run.path / f"ledger/{SUBJECT}-0-0.parquet", forget)
    reseal(run, "produce")


def _canary_altered(run: RunDirectory) -> None:
    """Makes one of the three losses that were planted in the canary an attempt of unknown outcome, so that only two
    losses are found."""

    def forget_a_loss(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        lost = next(row for row in rows if row["sequence"] == 20)
        lost |= {"outcome": "INDETERMINATE", "offset": None}
        return pa.Table.from_pylist(rows, schema=table.schema)

    rewrite(run.path / "ledger/canary.parquet", forget_a_loss)
    reseal(run, "settle")


def _log_doubled(run: RunDirectory) -> None:
    """Adds a copy of one file to log/, as if a task had written its output twice. The file has what every reader sees
    of the subject's topic: which other views have the records, too, is compared by an invariant."""
    raw = (pc.field("arm") == SUBJECT) & (pc.field("view") == "raw")
    file = next(file for file in sorted((run.path / "log").glob("*.parquet")) if pq.read_table(file, filters=raw))
    file.with_name(f"again-{file.name}").write_bytes(file.read_bytes())
    manifest = run.manifest("read_topic")
    with run.writing("read_topic") as output:
        for name in [*manifest.files, f"log/again-{file.name}"]:
            (output.staging / name).parent.mkdir(parents=True, exist_ok=True)
            (output.staging / name).write_bytes((run.path / name).read_bytes())
        output.counts |= manifest.counts


@pytest.mark.parametrize(
    ("damage", "doubt"),
    [
        (_without_partition, "read_incomplete"),
        (_ledger_cut_short, "ledger_incomplete"),
        (_acked_sealed_as_indeterminate, "counts_unbalanced:outcomes_agree"),
        (_canary_altered, "canary_wrong"),
        (_log_doubled, "read_incomplete"),
    ],
)
def test_damage_to_what_was_read_or_claimed_is_a_doubt(
    copy: RunDirectory, spark: SparkSession, damage: Callable[[RunDirectory], None], doubt: str
) -> None:
    damage(copy)
    assert_doubted(judge_again(copy, spark), doubt)


def test_every_invariant_that_does_not_balance_is_a_doubt_of_its_own(copy: RunDirectory) -> None:
    # no arm has an application
    invariants = [invariant for invariant in INVARIANTS if invariant not in (CANARY, *INVARIANTS_OF_EFFECTS)]

    def unbalance(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        for invariant in invariants:
            next(row for row in rows if (row["invariant"], row["arm"]) == (invariant, SUBJECT))["left"] += 1
        return pa.Table.from_pylist(rows, schema=table.schema)

    rewrite(copy.path / "counts/invariants.parquet", unbalance)
    reseal(copy, "reconcile")
    verdict = judge_again(copy)
    for invariant in invariants:
        assert_doubted(verdict, INVARIANT_DOUBTS.get(invariant, f"counts_unbalanced:{invariant}"))
    assert arm(verdict, "control-acks_0").doubts == []


@pytest.mark.parametrize("table", ["producers", "invariants", "partitions"])
def test_an_empty_table_of_the_tally_is_a_doubt(copy: RunDirectory, table: str) -> None:
    rewrite(copy.path / f"counts/{table}.parquet", lambda rows: rows.slice(0, 0))
    reseal(copy, "reconcile")
    doubt = {"producers": "partition_missing", "invariants": "invariant_missing", "partitions": "partition_missing"}[
        table
    ]
    assert_doubted(judge_again(copy), doubt)


def test_a_column_of_nothing_but_nulls_is_a_doubt(copy: RunDirectory) -> None:
    def forget(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("lost")
        return table.set_column(at, pa.field("lost", pa.int64()), pa.nulls(table.num_rows, pa.int64()))

    rewrite(copy.path / "counts/producers.parquet", forget)
    reseal(copy, "reconcile")
    assert_doubted(judge_again(copy), "nulls")


def test_a_suite_that_lost_an_expectation_is_a_doubt(copy: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    from expectations import suites

    load = suites.load

    def shortened(name: Any) -> Any:
        suite = load(name)
        suite.expectations = [one for one in suite.expectations if one.meta["about"] != "LOST"]
        return suite

    monkeypatch.setattr(suites, "load", shortened)
    assert_doubted(judge_again(copy), "expectation_not_evaluated")


def test_an_observer_that_saw_nothing_is_a_doubt(copy: RunDirectory) -> None:
    reseal(copy, "settle", observations=[])
    assert_doubted(judge_again(copy), "observer_blind")
