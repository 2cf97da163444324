"""The output topics of transforms: counts how many of their records a read_committed consumer must get."""

from __future__ import annotations

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.host.waiting import wait_until

STABLE_S = 120.0
"""Every transaction in an output topic must have ended within this number of seconds. The wait begins when no member
runs any more."""


class VisibleRecords:
    """Counts the visible records of topics in `cluster`, from the offsets and from the headers of the leaders' batches.
    Shares no code with the consumer that reads the same records."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(self, topic: str) -> int:
        """Returns how many records of `topic` a read_committed consumer must get.

        Raises DeadlinePassed if a transaction stays open, and ConnectionError if a leader gives no answer.
        """
        client = topics.admin(self._cluster.connection)
        leaders = self._cluster.partitions([topic])
        if not leaders:
            raise ConnectionError(f"no broker knows the partitions of {topic}")
        partitions = list(leaders)
        wait_until(
            lambda: topics.last_stable_offsets(client, partitions) == topics.high_watermarks(client, partitions),
            f"the transactions in {topic} to end",
            STABLE_S,
        )
        starts, ends = topics.start_offsets(client, partitions), topics.high_watermarks(client, partitions)
        visible = 0
        for key, state in leaders.items():
            unseen = batches.unseen(self._cluster.address(state.leader), *key, starts[key], ends[key])
            visible += ends[key] - starts[key] - unseen.control - unseen.aborted
        return visible
