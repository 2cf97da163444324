"""New leaders: asks each new leader of a partition which leader epochs its log had at its election, and where they
began.

This is the leader epoch cache (KIP-101), which a leader extends by its own epoch when it is elected. The start of its
own epoch is the end that its log had at that moment. No election can take a record that stood below this end and that
the new leader had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from delivery_verifier.cluster.protocol.epochs import EpochEnd, Partition, Question
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.model.history import TRANSACTION_STATE, Observation

EpochStarts = dict[int, int]
"""Maps each leader epoch of a log to its first offset, in the order of the log."""


class EpochRequests(Protocol):
    """The one request of `BrokerRequests` that this module sends."""

    def epoch_ends(self, broker: int, questions: Mapping[Partition, Question]) -> dict[Partition, EpochEnd]:
        """Returns where leader epochs end in the logs of `broker`."""
        ...


class NewLeaders:
    """The leaders that were elected while they were watched, and that have not answered yet.

    If a leader is deposed before it answers, its successor answers for both. An epoch without a leader has nobody to
    answer. The topic of the transaction coordinators is left out, because no rule asks for its epochs. Only one thread
    at a time may use this object.
    """

    def __init__(self) -> None:
        self._answered: dict[Partition, int] = {}
        self._leaders: dict[Partition, PartitionState] = {}

    def note(self, partition: Partition, state: PartitionState) -> None:
        """Notes a new state of a partition. The leader in the first state was elected before anybody watched."""
        if partition[0] != TRANSACTION_STATE and state.leader >= 0:
            self._answered.setdefault(partition, state.leader_epoch)
            self._leaders[partition] = state

    def unanswered(self, broker: int) -> dict[Partition, int]:
        """Returns the partitions that `broker` was elected for, and of which it has not answered, with their epochs."""
        return {
            partition: state.leader_epoch
            for partition, state in self._leaders.items()
            if state.leader == broker and self._answered[partition] < state.leader_epoch
        }

    def answered(self, partition: Partition, epoch: int) -> None:
        """Notes that the leader of a partition in `epoch` has answered."""
        self._answered[partition] = max(self._answered[partition], epoch)


def epoch_starts(requests: EpochRequests, broker: int, led: Mapping[Partition, int]) -> dict[Partition, EpochStarts]:
    """Returns the epochs in the logs of `broker`, up to its own epoch, by partition. `led` maps each partition to the
    epoch in which `broker` leads it.

    Leaves out a partition that `broker` does not lead in this epoch, or no longer leads. Raises OSError if the broker
    does not answer.
    """
    starts: dict[Partition, list[tuple[int, int]]] = {partition: [] for partition in led}
    above, questions = dict(led), {partition: Question(epoch, epoch - 1) for partition, epoch in led.items()}
    while questions:
        answers = requests.epoch_ends(broker, questions)
        asked, questions = questions, {}
        for partition, question in asked.items():
            below = answers.get(partition)
            if below is None or below.end < 0 or below.epoch > question.epoch:
                del starts[partition]
                continue
            starts[partition].append((above[partition], below.end))  # an epoch starts where the one below it ends
            if below.end > 0:
                above[partition] = below.epoch
                if below.epoch > 0:
                    questions[partition] = Question(question.led, below.epoch - 1)
                else:
                    starts[partition].append((0, 0))
    return {partition: dict(reversed(own)) for partition, own in starts.items()}


def observed(at_us: int, partition: Partition, leader: int, starts: EpochStarts) -> Observation:
    """Returns the observation that `leader` had the epochs `starts` in its log of a partition when it was elected."""
    topic, number = partition
    return Observation(
        at_us=at_us,
        kind="epochs",
        topic=topic,
        partition=number,
        leader=leader,
        leader_epoch=max(starts),
        epochs=list(starts),
        epoch_starts=list(starts.values()),
    )
