"""Tests of the words on where a lost record was cut off. They follow from the replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.report.truncation import Truncations
from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.table import arrow_schema

SNAPSHOT = PartitionSnapshot(
    arm="acks_1", topic="t", partition=0, start=0, end=90, live_end=92, leader=2, leader_epoch=4
)


def replica(broker: int, *epochs: tuple[int, int], **more: Any) -> dict[str, Any]:
    """Returns a row of a replica with leader epochs, each with its first offset."""
    row = {"arm": "acks_1", "partition": 0, "broker": broker, "digest": "d", "read_until": 90, "batches": 9}
    return row | {"epochs": [epoch for epoch, _ in epochs], "epoch_starts": [start for _, start in epochs]} | more


def text(*rows: dict[str, Any], offset: int | None = 50, kind: str = "LOST") -> str:
    material = Material(Path("run"), None, offsets=Offsets(bootstrap_servers="", taken_at_us=1, partitions=[SNAPSHOT]))
    if rows:
        material.tables["replicas"] = pa.Table.from_pylist(list(rows), schema=arrow_schema(REPLICAS))
    return Truncations(material).text({"arm": "acks_1", "partition": 0, "kind": kind, "acked_offset": offset})


CUT = [replica(broker, (0, 0), (1, 20), (3, 45), (4, 60)) for broker in (1, 2, 3)]


def test_the_last_leader_epoch_that_begins_before_the_offset_is_named() -> None:
    assert text(*CUT) == (
        "leader epoch 3 begins at offset 45: what earlier leaders had from there on was cut off; "
        "still at its offset on no replica"
    )


def test_a_replica_that_still_has_an_older_epoch_at_the_offset_is_named() -> None:
    assert text(*CUT[:2], replica(3, (0, 0), (1, 20), (4, 60))).endswith("; still at its offset on broker 3")
    assert text(*CUT[:2], replica(3, (0, 0), (1, 20), read_until=50)).endswith("on no replica"), "it ends before"


def test_an_offset_behind_the_snapshot_was_cut_off_too() -> None:
    assert text(*CUT, offset=90) == (
        "leader epoch 4 begins at offset 60: what earlier leaders had from there on was cut off, "
        "and the snapshot ends before its offset"
    )


UNREAD = replica(2, digest=None, read_until=None, epochs=None, epoch_starts=None)


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ((), {}),
        (CUT, {"offset": None}),
        (CUT, {"kind": "DUPLICATED"}),
        (CUT, {"offset": 19}),
        ([CUT[0], UNREAD, CUT[2]], {}),
    ],
    ids=["no replica", "no offset", "not lost", "before the second leader", "the leader was not read"],
)
def test_nothing_is_said_of_what_was_not_observed(rows: list[dict[str, Any]], more: dict[str, Any]) -> None:
    assert text(*rows, **more) == ""
