"""Commits: how a member lets go of records. Every answer of the broker goes into the journal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from delivery_verifier.applications.journal import Journal
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.errors import VerifierError

COMMIT_S = 30.0
"""Seconds for which a member asks again for a commit that no broker has refused."""
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
"""The errors with which a group refuses the commit of a member that has lost its partitions or is about to. It is
useless to ask again."""


class CommitUnknown(VerifierError, RuntimeError):
    """Nobody knows whether the group accepted a commit, because an answer was lost, or not all answers were alike."""


class Record(NamedTuple):
    """One record that the client has handed over."""

    partition: int
    offset: int
    value: bytes


class Commits:
    """The commits of one life of a member, which consumes through `client`."""

    def __init__(self, client: Consumer, journal: Journal) -> None:
        self._client, self._journal = client, journal

    def commit(self, topic: str, records: Sequence[Record], batch: int) -> bool | None:
        """Commits the offsets behind `records`, and waits for the answer. Returns whether all offsets were accepted;
        None if nobody knows whether some of them were.

        Asks again after an error that is no refusal, e.g. while the coordinator moves to another broker. After
        `COMMIT_S` seconds the commit counts as refused.
        """
        offsets = {record.partition: record.offset + 1 for record in records}
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
            self._journal.note("committed", batch, partition, until=offset, answer=answer)
        if error is None:
            return True
        return False if is_known else None

    def _ask(self, offsets: list[TopicPartition]) -> tuple[KafkaError | None, bool]:
        """Commits `offsets`. Returns the first error, or None; and whether the answers for all offsets are alike."""
        try:
            answers = self._client.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as error:
            return error.args[0], True
        errors = [answer.error for answer in answers if answer.error]
        return (errors[0] if errors else None), len(errors) in (0, len(answers))

    def store(self, topic: str, record: Record, batch: int) -> None:
        """Stores the offset behind `record`, which the client's timer commits later.

        Notes in the journal only that the client refused to store it, because the member has lost the partition.
        """
        try:
            self._client.store_offsets(offsets=[TopicPartition(topic, record.partition, record.offset + 1)])
        except KafkaException as error:
            self._journal.note("stored", batch, record.partition, until=record.offset + 1, answer=error.args[0].name())

    def give_back(self, topic: str, records: Sequence[Record]) -> None:
        """Makes the client hand over `records` again, unless the group has taken their partitions away."""
        first = {record.partition: record.offset for record in reversed(records)}
        for partition, offset in first.items():
            with suppress(KafkaException):  # the partition belongs to another member, which is given the records
                self._client.seek(TopicPartition(topic, partition, offset))
