"""How a member commits offsets. A commit tells the member's group which records the group must not deliver again. The
journal gets the result of each commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from delivery_verifier.applications.clients import MemberConsumer
from delivery_verifier.applications.journal import Journal, What
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.errors import VerifierError

COMMIT_S = 30.0
"""If a commit fails, but is not refused, a member repeats it for this many seconds."""
_AGAIN_S = 0.1
REFUSED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._NO_OFFSET,
    }
)
"""The errors by which a group refuses a commit, because the member has lost its partitions or is about to lose them. It
is useless to repeat such a commit."""


class CommitUnknown(VerifierError, RuntimeError):
    """The member does not know whether the group accepted a commit. Either the answer was lost, or the group accepted
    the offsets of some partitions and refused others."""


class Record(NamedTuple):
    """One record that the client has handed over to the member."""

    partition: int
    offset: int
    value: bytes


def next_offsets(records: Sequence[Record]) -> dict[int, int]:
    """Returns, for each partition in `records`, the offset after the last record of the partition. The records of a
    partition must be in the order of their offsets."""
    return {record.partition: record.offset + 1 for record in records}


class Commits:
    """Commits the offsets of a member in one of its incarnations. `client` is the consumer of the member."""

    def __init__(self, client: MemberConsumer, journal: Journal) -> None:
        self._client, self._journal = client, journal

    def commit(self, topic: str, records: Sequence[Record], batch: int, what: What = "committed") -> bool | None:
        """Commits, for each partition, the offset after the last of `records`. Waits for the group's answer, and adds
        the answer to the journal as the event `what`.

        Returns True if all offsets were accepted, False if all were refused, and None if it is unknown whether some
        were accepted.

        An error may be no refusal, e.g. while the coordinator moves to another broker. After such an error, repeats the
        commit. Returns None after `COMMIT_S` seconds of repeats.
        """
        offsets = next_offsets(records)
        asked = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        end, is_known = time.monotonic() + COMMIT_S, True
        while True:
            error, is_of_all = self._ask(asked)
            # An earlier commit whose answer was lost may have been accepted, and so may a part of this one.
            is_known = is_known and (error is None or (is_of_all and error.code() in REFUSED))
            if error is None or error.code() in REFUSED or time.monotonic() >= end:
                break
            pause(_AGAIN_S)
        answer = error.name() if error else None
        for partition, offset in offsets.items():
            self._journal.note(what, batch, partition, until=offset, answer=answer)
        if error is None:
            return True
        return False if is_known else None

    def _ask(self, offsets: list[TopicPartition]) -> tuple[KafkaError | None, bool]:
        """Commits `offsets` once. Returns two values. The first is the first error, or None if there is no error. The
        second says whether all offsets have the same result: True if all failed or none failed, False if only some
        failed."""
        try:
            answers = self._client.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as error:
            return error.args[0], True
        errors = [answer.error for answer in answers if answer.error]
        return (errors[0] if errors else None), len(errors) in (0, len(answers))

    def store(self, topic: str, record: Record, batch: int) -> None:
        """Stores the offset after `record` in the client. The client commits the stored offset later, on a timer.

        Adds an event to the journal only if the client refuses to store the offset. The client refuses if the member
        has lost the partition.
        """
        try:
            self._client.store_offsets(offsets=[TopicPartition(topic, record.partition, record.offset + 1)])
        except KafkaException as error:
            self._journal.note("stored", batch, record.partition, until=record.offset + 1, answer=error.args[0].name())

    def give_back(self, topic: str, records: Sequence[Record]) -> None:
        """Makes the client hand over `records` once more. Leaves out the records of partitions that the member has
        lost."""
        first = {record.partition: record.offset for record in reversed(records)}
        for partition, offset in first.items():
            with suppress(KafkaException):  # the partition belongs to another member, which is given the records
                self._client.seek(TopicPartition(topic, partition, offset))
