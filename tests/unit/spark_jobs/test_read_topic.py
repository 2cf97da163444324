"""Tests of which offsets are read from Kafka, if some of them are unreadable."""

from __future__ import annotations

from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.model.unreadable import Unreadable
from spark_jobs.reading.read_topic import RAW_VIEW, _reads
from spark_jobs.reading.unreadable import count, readable


def _partition(number: int, *ranges: tuple[int, int, int]) -> PartitionSnapshot:
    """Returns a partition of 100 offsets. `ranges`: (offset behind the last data record before, first, end)."""
    parts = tuple(Unreadable(shown_until=shown, first=first, end=end, detail="") for shown, first, end in ranges)
    known = {"start": 0, "end": 100, "live_end": 102, "leader": 1, "leader_epoch": 0}
    return PartitionSnapshot(arm="one", topic="t", partition=number, unreadable=parts, **known)


def _offsets(*partitions: PartitionSnapshot) -> Offsets:
    return Offsets(bootstrap_servers="nowhere:1", taken_at_us=0, partitions=list(partitions))


def test_a_readable_topic_is_read_at_once_to_its_end() -> None:
    (only,) = _reads(_offsets(_partition(0), _partition(1)), RAW_VIEW)
    assert only == (("subscribe", "t"), {"t": {"0": 0, "1": 0}}, {})


def test_exactly_the_unreadable_offsets_and_the_control_records_before_them_are_left_out() -> None:
    damaged = _partition(1, (0, 0, 5), (39, 40, 60), (98, 99, 102))
    assert readable(damaged) == [(5, 39), (60, 98), (102, -1)]
    assert count(damaged) == 5 + 20 + 1, "markers behind the snapshot are no records"
    assert list(_reads(_offsets(_partition(0), damaged), RAW_VIEW)) == [
        (("assign", '{"t": [0, 1]}'), {"t": {"0": 0, "1": 5}}, {"t": {"0": -1, "1": 39}}),
        (("assign", '{"t": [1]}'), {"t": {"1": 60}}, {"t": {"1": 98}}),
        (("assign", '{"t": [1]}'), {"t": {"1": 102}}, {"t": {"1": -1}}),
    ]
