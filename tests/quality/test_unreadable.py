"""Tests that offsets which nobody can read convict as CORRUPTED, and prove no loss.

The records at some offsets are taken out of the log of a stored run, and these offsets are called unreadable, as if
bytes on the leader's disk had changed before the step settle.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from support.stored_data import HELD, VIOLATED, stored_judgement, stored_run
from support.stored_runs import arm, doubts, judge_again, reseal

from delivery_verifier.model.snapshot import PartitionSnapshot, read_offsets
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.reading import unreadable

WHY = "a batch of 4096 bytes that says it holds other offsets has CRC 1 in its header, and its bytes have CRC 2"


def make_unreadable(run: RunDirectory, spark: SparkSession, name: str, partition: int, first: int, end: int) -> None:
    """Makes the offsets [first, end) of a partition of the arm `name` unreadable, as settle and the reading would."""
    offsets = read_offsets((run.path / "offsets.json").read_bytes())
    damage = (Unreadable(first=first, end=end, shown_until=first, detail=WHY),)

    def changed(part: PartitionSnapshot) -> PartitionSnapshot:
        is_damaged = (part.arm, part.partition) == (name, partition)
        return msgspec.structs.replace(part, unreadable=damage) if is_damaged else part

    offsets = msgspec.structs.replace(offsets, partitions=[changed(part) for part in offsets.partitions])
    reseal(run, "settle", offsets=msgspec.to_builtins(offsets))
    files = sorted((run.path / "log").glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    place = pc.and_(pc.equal(rows["arm"], name), pc.equal(rows["partition"], partition))
    removed = pc.and_(place, pc.and_(pc.greater_equal(rows["offset"], first), pc.less(rows["offset"], end)))
    lines = unreadable.lines(spark, offsets)
    assert lines is not None
    kept = rows.filter(pc.invert(removed))
    for file in files[1:]:
        pq.write_table(rows.slice(0, 0), file)
    pq.write_table(pa.concat_tables([kept, lines.toArrow().select(rows.column_names).cast(rows.schema)]), files[0])
    counts = dict(run.manifest("read_topic").counts)
    for view, count in (("raw", f"read/{name}"), ("committed", f"read_committed/{name}")):
        gone = rows.filter(removed).filter(pc.equal(rows.filter(removed)["view"], view)).num_rows
        if count in counts:
            counts[count] -= gone
    reseal(run, "read_topic", counts)


def convicting(verdict: ArmVerdict) -> set[str]:
    return {finding.anomaly for finding in verdict.findings if finding.broken}


def test_records_that_nobody_can_read_convict_with_the_checksums_as_evidence(
    tmp_path: Path, spark: SparkSession
) -> None:
    run = stored_run(VIOLATED, tmp_path)
    make_unreadable(run, spark, "control-safe", 1, 100, 120)
    verdict = judge_again(run, spark)
    hurt = arm(verdict, "control-safe")
    assert hurt.verdict == "VIOLATED" and convicting(hurt) == {"CORRUPTED"}
    assert [hurt.tally[name] for name in ("corrupted", "lost", "unattributed")] == [20, 0, 0]
    assert hurt.tally["found"] == hurt.tally["reported"]
    assert {kind for kind, _ in doubts(verdict, "control-safe")} == {"coverage"}
    (doubt,) = [doubt for doubt in hurt.doubts if doubt.name == "log_unreadable"]
    leader = read_offsets((run.path / "offsets.json").read_bytes()).partitions[7].leader
    evidence = f"offsets 100 to 119 of the leader, broker {leader}, cannot be read, because {WHY}"
    assert doubt.detail == f"control-safe/1: {evidence}"
    assert f"20 corrupted (20 of them cannot be read: in partition 1, {evidence}), which" in hurt.sentence
    assert "control-safe has damaged records: the invariant second_opinion was not checked for it." in verdict.limits


def test_what_may_stand_at_an_unreadable_offset_is_not_called_lost(tmp_path: Path, spark: SparkSession) -> None:
    """acks=0 has no offsets: any of its records that were not found may stand there.

    test_stored_runs_judged_again.py shows that the undamaged run is judged as it was when it was stored.
    """
    lost_before = stored_judgement(VIOLATED)["arms"]["control-acks_0"]["tally"]["lost"]
    run = stored_run(VIOLATED, tmp_path)
    make_unreadable(run, spark, "control-acks_0", 0, 50, 60)
    verdict = judge_again(run, spark)
    hurt = arm(verdict, "control-acks_0")
    assert hurt.verdict == "VIOLATED" and lost_before > 0
    assert [hurt.tally[name] for name in ("corrupted", "unattributed", "lost")] == [10, 10, 0]
    missing = hurt.tally["reported"] - hurt.tally["found"]
    assert missing == lost_before + 10, "all that was lost was lost in this partition"
    assert run.manifest("reconcile").counts["missing/control-acks_0/0"] == missing
    (doubt,) = [doubt for doubt in hurt.doubts if doubt.name == "log_unreadable"]
    assert f"; {missing} of its reported records were not found, and are not called lost, because" in doubt.detail
    assert {kind for kind, _ in doubts(verdict, "control-acks_0")} == {"coverage"}


def test_unreadable_records_of_transactions_are_neither_torn_nor_visible(tmp_path: Path, spark: SparkSession) -> None:
    run = stored_run(HELD, tmp_path)
    make_unreadable(run, spark, "transactional", 0, 3, 8)
    verdict = judge_again(run, spark)
    hurt = arm(verdict, "transactional")
    assert hurt.verdict == "VIOLATED" and convicting(hurt) == {"CORRUPTED"}, hurt.doubts
    assert [hurt.tally[name] for name in ("corrupted", "torn", "also_torn", "aborted_visible")] == [5, 0, 0, 0]


def test_unreadable_offsets_that_the_tally_do_not_count_are_a_doubt(tmp_path: Path, spark: SparkSession) -> None:
    run = stored_run(VIOLATED, tmp_path)
    make_unreadable(run, spark, "control-safe", 1, 100, 120)
    offsets = read_offsets((run.path / "offsets.json").read_bytes())
    forgotten = [msgspec.structs.replace(part, unreadable=()) for part in offsets.partitions]
    reseal(run, "settle", offsets=msgspec.to_builtins(msgspec.structs.replace(offsets, partitions=forgotten)))
    verdict = judge_again(run, spark)
    assert arm(verdict, "control-safe").verdict == "INCONCLUSIVE"
    assert ("checker", "counts_unbalanced:view_rows") in doubts(verdict, "control-safe")
