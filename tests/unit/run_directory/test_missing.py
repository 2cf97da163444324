"""Tests that an attempt which was not found balances the counts only where unreadable offsets may hold it."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from support.evidence import RUN, SUBJECT, evidence_of, the_rows

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.model.unreadable import Unreadable
from spark_jobs.checks.invariants import _outcome_invariants
from spark_jobs.reading.unreadable import missing


def offsets(first: int = 40) -> Offsets:
    """Returns a snapshot in which partition 1 of the subject has unreadable offsets from `first` on."""
    snapshot = evidence_of(RUN).offsets
    damage = (Unreadable(first=first, end=first + 2, shown_until=first, detail="a batch"),)
    parts = [
        msgspec.structs.replace(part, unreadable=damage) if (part.arm, part.partition) == (SUBJECT, 1) else part
        for part in snapshot.partitions
    ]
    return msgspec.structs.replace(snapshot, partitions=parts)


def absent(partition: int, **changes: Any) -> dict[str, Any]:
    """Returns a row of SIGNATURES: 4 reported attempts that are neither found nor LOST."""
    row = {"role": "attempt", "arm": SUBJECT, "partition": partition, "first_partition": None, "outcome": "ACKED"}
    return row | {"kind": None, "records": 4} | changes


def test_only_partitions_with_unreadable_offsets_have_missing_attempts() -> None:
    assert missing([absent(0), absent(1), absent(1), absent(2)], offsets()) == {f"missing/{SUBJECT}/1": 8}
    behind = max(part.end for part in evidence_of(RUN).offsets.partitions)
    assert missing([absent(1)], offsets(behind)) == {}, "no record of the load stands behind the snapshot"
    others = [absent(1, kind=Anomaly.LOST), absent(1, first_partition=1), absent(1, outcome="FAILED")]
    assert missing([*others, absent(1, role="line")], offsets()) == {}


@pytest.mark.parametrize(("partition", "balanced"), [(0, False), (1, True)])
def test_an_attempt_that_vanishes_from_the_tally_breaks_the_invariant_where_all_offsets_can_be_read(
    partition: int, balanced: bool
) -> None:
    rows = the_rows(RUN)["counts/producers.parquet"]
    row = next(row for row in rows if (row["arm"], row["partition"]) == (SUBJECT, partition) and row["found"] > 4)
    row["found"] -= 4
    invariants = _outcome_invariants(pa.Table.from_pylist(rows), missing([absent(partition)], offsets()))
    broken = {
        (invariant.invariant, invariant.arm, invariant.partition)
        for invariant in invariants
        if invariant.left != invariant.right
    }
    assert broken == (set() if balanced else {("reported_sum", SUBJECT, partition)})
