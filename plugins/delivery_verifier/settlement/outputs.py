"""The output topics of applications: how many of their records a read_committed consumer must be handed, whether the
cluster has lost some of them, and whether an open transaction holds some back.

A record below a high watermark may not vanish. If it does, an effect is missing through no fault of the application.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from delivery_verifier.applications.incarnations import application_folder
from delivery_verifier.applications.watermarks import Watermark, highest_watermarks
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.held_back import held_back
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.application import output_topic
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.run_directory.group_log_tables import OUTPUTS
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.run_directory.table import arrow_schema

STABLE_S = 120.0
"""How many seconds the transactions in an output topic have to end. The wait begins when no member runs any more."""


class VisibleRecords:
    """Counts the visible records of topics in `cluster`, from the offsets and from the headers of the leaders' batches.
    Shares no code with the consumer that reads the same records."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __call__(self, topic: str) -> int:
        """Returns how many records of `topic` a read_committed consumer must get. It gets none behind a transaction
        that stays open. Raises ConnectionError if a leader gives no answer."""
        client = topics.admin(self._cluster.connection)
        leaders = self._cluster.partitions([topic])
        if not leaders:
            raise ConnectionError(f"no broker knows the partitions of {topic}")
        partitions = list(leaders)
        with suppress(DeadlinePassed):  # `write_outputs` names the transaction that is still open
            wait_until(
                lambda: topics.last_stable_offsets(client, partitions) == topics.high_watermarks(client, partitions),
                f"the transactions in {topic} to end",
                STABLE_S,
            )
        starts, ends = topics.start_offsets(client, partitions), topics.last_stable_offsets(client, partitions)
        visible = 0
        for key, state in leaders.items():
            unseen = batches.unseen(self._cluster.requests, state.leader, *key, starts[key], ends[key])
            visible += ends[key] - starts[key] - unseen.control - unseen.aborted
        return visible


def write_outputs(scenario: Scenario, cluster: Cluster, output: StepOutput) -> None:
    """Writes the table OUTPUTS to `output`. Call it when the effects of all applications have been read.

    The table is empty if no application writes to an output topic. Raises KafkaException and ConnectionError if a
    leader gives no answer.
    """
    with_output = [arm for arm in scenario.loaded if arm.application is not None and arm.application.has_output_topic]
    rows = [row for arm in with_output for row in _rows(arm, cluster)]
    output.write_table(OUTPUTS.name, pa.Table.from_pylist(rows, arrow_schema(OUTPUTS)))


def _rows(arm: Arm, cluster: Cluster) -> Iterator[dict[str, object]]:
    """Yields the row of each partition of the arm's output topic."""
    client, topic = topics.admin(cluster.connection), output_topic(arm.topic_name)
    leaders = cluster.partitions([topic])
    partitions = list(leaders)
    starts, ends = topics.start_offsets(client, partitions), topics.high_watermarks(client, partitions)
    stable = topics.last_stable_offsets(client, partitions)
    marks = highest_watermarks(application_folder(cluster.workspace, arm.name))
    for key, state in leaders.items():
        row: dict[str, object] = {"arm": arm.name, "partition": key[1], "start": starts[key], "end": ends[key]}
        row |= {"leader": state.leader, "leader_epoch": state.leader_epoch}
        if stable[key] < ends[key]:
            row["held_back"] = held_back(cluster, *key, state.leader, stable[key]).in_words
        for mark in marks:
            kept_until = (
                _end_of_epoch(cluster, key, state, mark, ends[key]) if mark.partition == key[1] else mark.offset
            )
            if kept_until < mark.offset:
                row |= {"watermark": mark.offset, "epoch": mark.epoch, "kept_until": kept_until}
                break
        yield row


def _end_of_epoch(cluster: Cluster, key: tuple[str, int], state: PartitionState, mark: Watermark, end: int) -> int:
    """Returns the offset at which the leader epoch of `mark` ends in the log of the leader. If the epoch is unknown,
    returns `end`, the present high watermark."""
    return end if mark.epoch < 0 else cluster.requests.epoch_end(state.leader, *key, mark.epoch)
