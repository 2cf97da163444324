"""Leaders: asks each new leader of a partition how far its log reached, and each deposed one whether it knows of it.

A new leader says which leader epochs its log had at its election, and where they began. This is the leader epoch cache
(KIP-101), which a leader extends by its own epoch when it is elected. The start of its own epoch is the end that its
log had at that moment. A record that the new leader had below this end is not taken by the election.

A deposed leader goes on acknowledging until it learns of its successor. Once it refuses a question in the new epoch
because it does not lead, it acknowledges nothing any more in its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from delivery_verifier.cluster.protocol.requests import BrokerRequests, EpochQuestion, Partition, PartitionState
from delivery_verifier.model.history import TRANSACTION_STATE, Observation

EpochStarts = dict[int, int]
"""Maps each leader epoch of a log to its first offset, in the order of the log."""
Epochs = Mapping[Partition, int]
"""Maps a partition to a leader epoch."""


class Due(NamedTuple):
    """What one broker is to be asked. `elected`: the partitions that it was elected for, with its epochs. `deposed`:
    those that it led before, with the epochs of its successors."""

    elected: Epochs
    deposed: Epochs


class Leaders:
    """The leaders still to be asked: they were elected or deposed while they were watched, and have not answered yet.

    If a leader is deposed before it says how far its log reached, its successor answers for both. If an epoch was
    missed, every replica may have led in it. The topic of the transaction coordinators is left out, because no rule
    asks for its epochs. Only one thread at a time may use this object.
    """

    def __init__(self) -> None:
        self._states: dict[Partition, PartitionState] = {}
        self._answered: dict[Partition, int] = {}
        self._deposed: dict[Partition, dict[int, int]] = {}

    def note(self, partition: Partition, state: PartitionState) -> None:
        """Notes a new state of a partition. The leader in the first state was elected before anybody watched."""
        if partition[0] == TRANSACTION_STATE or (partition not in self._states and state.leader < 0):
            return
        before = self._states.get(partition, state)
        self._states[partition] = state
        self._answered.setdefault(partition, state.leader_epoch)
        if state.leader_epoch > before.leader_epoch:
            missed = state.leader_epoch > before.leader_epoch + 1
            deposed = self._deposed.setdefault(partition, {})
            deposed |= dict.fromkeys(state.replicas if missed else (before.leader,), state.leader_epoch)
            deposed.pop(state.leader, None)
            deposed.pop(-1, None)

    def due(self, broker: int) -> Due:
        """Returns what `broker` is to be asked now."""
        elected = {
            partition: state.leader_epoch
            for partition, state in self._states.items()
            if state.leader == broker and self._answered[partition] < state.leader_epoch
        }
        deposed = {partition: epochs[broker] for partition, epochs in self._deposed.items() if broker in epochs}
        return Due(elected, deposed)

    def answered(self, answer: Observation) -> None:
        """Notes an answer, so that nobody asks for it again."""
        partition = answer.topic, answer.partition
        if answer.kind == "epochs":
            self._answered[partition] = max(self._answered[partition], answer.leader_epoch)
        elif self._deposed[partition].get(answer.broker) == answer.leader_epoch:
            del self._deposed[partition][answer.broker]


def ask(requests: BrokerRequests, broker: int, due: Due) -> list[Observation]:
    """Returns the answers of `broker`, as observations without a time. An answer that it does not give yet is missing.

    Raises OSError if the broker does not answer.
    """
    starts = epoch_starts(requests, broker, due.elected) if due.elected else {}
    deposed = requests.not_leading(broker, due.deposed) if due.deposed else set()
    return [
        *(_elected(partition, broker, starts_of) for partition, starts_of in starts.items()),
        *(_deposed(partition, broker, due.deposed[partition]) for partition in sorted(deposed)),
    ]


def epoch_starts(requests: BrokerRequests, broker: int, led: Epochs) -> dict[Partition, EpochStarts]:
    """Returns the epochs in the logs of `broker`, up to its own epoch, by partition. `led` maps each partition to the
    epoch in which `broker` leads it.

    Leaves out a partition that `broker` does not lead in this epoch, or no longer leads. Raises OSError if the broker
    does not answer.
    """
    starts: dict[Partition, list[tuple[int, int]]] = {partition: [] for partition in led}
    above, questions = dict(led), {partition: EpochQuestion(epoch, epoch - 1) for partition, epoch in led.items()}
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
                    questions[partition] = EpochQuestion(question.led, below.epoch - 1)
                else:
                    starts[partition].append((0, 0))
    return {partition: dict(reversed(own)) for partition, own in starts.items()}


def _elected(partition: Partition, leader: int, starts: EpochStarts) -> Observation:
    topic, number = partition
    return Observation(
        at_us=0,
        kind="epochs",
        topic=topic,
        partition=number,
        leader=leader,
        leader_epoch=max(starts),
        epochs=list(starts),
        epoch_starts=list(starts.values()),
    )


def _deposed(partition: Partition, broker: int, epoch: int) -> Observation:
    topic, number = partition
    return Observation(at_us=0, kind="deposed", topic=topic, partition=number, broker=broker, leader_epoch=epoch)
