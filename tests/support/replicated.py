"""A fake cluster with two partitions, whose three replicas agree, and the snapshot of these partitions."""

from __future__ import annotations

from delivery_verifier.model.snapshot import PartitionSnapshot
from support.fake_cluster import FakeCluster
from support.record_batches import batch

LOG = [batch(0, 5), batch(5, 5, epoch=1), batch(10, 1, epoch=1)]
SNAPSHOT = [
    PartitionSnapshot(arm="safe", topic="t", partition=at, start=0, end=10, live_end=11, leader=2, leader_epoch=1)
    for at in (0, 1)
]
"""The partitions of topic `t`. Their leader is broker 2."""


def replicated() -> FakeCluster:
    """Returns the cluster. Each replica holds LOG."""
    fake = FakeCluster()
    for at in (0, 1):
        fake.set_partition("t", at, leader=2, epoch=1)
        fake.logs |= {(broker, "t", at): list(LOG) for broker in fake.brokers}
    return fake
