"""A member at work: consumes an arm's topic in batches, applies each record, and commits as its discipline says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from delivery_verifier.applications.clients import MemberConsumer
from delivery_verifier.applications.commits import Commits, CommitUnknown, Record
from delivery_verifier.applications.control import Control, State, Word
from delivery_verifier.applications.incarnations import note_marker
from delivery_verifier.applications.journal import Journal, What
from delivery_verifier.applications.parking import Parking
from delivery_verifier.applications.sink import Effects
from delivery_verifier.applications.slots import is_marker
from delivery_verifier.applications.spec import MemberSpec, incarnation_folder
from delivery_verifier.model.application import ASSIGNED, CrashPoint

POLL_S = 0.1
"""Seconds that a member waits for the first record of a batch. After that, it checks whether it must end."""
LIST_S = 30.0
"""Seconds in which a broker must tell the partitions of the topic to a member that assigns them to itself."""
FILL_S = 0.3
"""If no further record comes for this many seconds, a batch is complete, even if it has fewer records than it may
have."""
AFTER_APPLIED: tuple[CrashPoint, ...] = ("produced", "offsets_sent", "ending", "rows_committed", "offset_written")
"""The crash points between the last effect of a batch and the commit. The discipline of a member may lack the step that
a crash point names. The member then parks after the last effect of the batch."""


class Member:
    """One incarnation of a member. `client` is a consumer that has not subscribed yet. The member writes its effects to
    `effects`.

    A batch is complete when it has `spec.batch` records, or when no record has come for `FILL_S` seconds.
    """

    def __init__(self, spec: MemberSpec, client: MemberConsumer, effects: Effects) -> None:
        self.spec, self.client, self.effects = spec, client, effects
        self.control = Control(Path(spec.folder))
        self.journal = Journal(incarnation_folder(spec))
        self.is_stopping = False
        self._parking = Parking(self.control, self.journal, lambda: self.is_stopping)
        self._commits = Commits(client, self.journal)
        self._batch = -1
        self._collected = list[Record]()

    def stop(self) -> None:
        """Makes `run` return once the batch in progress is applied and committed. A member that is parked at a crash
        point goes on with its work then."""
        self.is_stopping = True

    def run(self) -> None:
        """Consumes and applies records until `stop` is called. Raises KafkaException after a fatal client error."""
        self.journal.note("started")
        self._take_partitions()
        while not self.is_stopping:
            if records := self._next_batch():
                self._batch += 1
                self._note_batch(records)
                self._parking.begin_batch()
                self._work(records)
        self.client.close()
        self.journal.note("closed")
        self.control[Word.STATE] = State.CLOSED

    def _take_partitions(self) -> None:
        """Subscribes to the topic, or assigns all partitions of the topic to the member itself. The discipline decides
        which.

        A self-assigned partition gets no start offset here. So the client asks the group for the committed offset. The
        client repeats the question while the coordinator of the group moves to another broker.
        """
        topic = self.spec.topic
        if self.spec.discipline not in ASSIGNED:
            self.client.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
            return
        described = self.client.list_topics(topic, timeout=LIST_S).topics[topic]
        if described.error is not None:
            raise KafkaException(described.error)
        partitions = [TopicPartition(topic, number) for number in described.partitions]
        self.client.assign(partitions)
        self._on_assign(self.client, partitions)

    def _on_assign(self, _: MemberConsumer, partitions: list[TopicPartition]) -> None:
        self._note_partitions("assigned", partitions)
        self.control[Word.ASSIGNMENTS] += 1
        self.control[Word.STATE] = State.ASSIGNED

    def _on_revoke(self, _: MemberConsumer, partitions: list[TopicPartition]) -> None:
        self._note_partitions("revoked", partitions)
        self._let_go(partitions)

    def _on_lost(self, _: MemberConsumer, partitions: list[TopicPartition]) -> None:
        self._note_partitions("revoked", partitions, "lost")
        self._let_go(partitions)

    def _let_go(self, partitions: list[TopicPartition]) -> None:
        """Drops the records of `partitions` from the batch that is being collected, because the group delivers these
        records again.

        With the discipline `at_handover`, keeps the records in the batch, because the client stored their offsets when
        it handed them over.
        """
        if self.spec.discipline == "at_handover":
            return
        revoked = {partition.partition for partition in partitions}
        others = [record for record in self._collected if record.partition not in revoked]
        self.control[Word.HANDED_OVER] -= len(self._collected) - len(others)
        self._collected = others

    def _note_partitions(self, what: What, partitions: list[TopicPartition], answer: str | None = None) -> None:
        """Adds the event `what` to the journal for each of `partitions`."""
        for partition in partitions:
            self.journal.note(what, partition=partition.partition, first=max(partition.offset, -1), answer=answer)

    def _next_batch(self) -> list[Record]:
        """Returns the next batch. The batch is empty if no record came within `POLL_S` seconds.

        While the member collects the batch, the client may call `_on_revoke` or `_on_lost`.
        """
        self._collected = self._receive(self.spec.batch, POLL_S)
        while 0 < len(self._collected) < self.spec.batch:
            more = self._receive(self.spec.batch - len(self._collected), FILL_S)
            if not more:
                break
            self._collected += more
        batch, self._collected = self._collected, []
        return batch

    def _receive(self, most: int, timeout_s: float) -> list[Record]:
        """Returns the records that the client hands over within `timeout_s` seconds, at most `most`. Raises
        KafkaException for a fatal client error."""
        records = list[Record]()
        for message in self.client.consume(most, timeout_s):
            error = message.error()
            if error is None:
                records.append(Record(message.partition() or 0, message.offset() or 0, message.value() or b""))
                continue
            partition = -1 if (number := message.partition()) is None else number
            if error.code() == KafkaError._PARTITION_EOF:
                offset = message.offset()
                self.journal.note("end", self._batch, partition, -1 if offset is None else offset)
                continue
            self.journal.note("error", self._batch, partition, answer=error.name())
            if error.fatal():
                raise KafkaException(error)
        self.control[Word.HANDED_OVER] += len(records)
        return records

    def _note_batch(self, records: Sequence[Record]) -> None:
        """Adds an event to the journal for each partition in the batch. The event has the range of offsets that was
        handed over."""
        for partition in sorted({record.partition for record in records}):
            offsets = [record.offset for record in records if record.partition == partition]
            self.journal.note("handed_over", self._batch, partition, offsets[0], offsets[-1] + 1)

    def _work(self, records: Sequence[Record]) -> None:
        """Applies a batch. The discipline says what happens to the offsets of the batch. The member commits them before
        or after it applies the batch, or stores them in the client meanwhile."""
        discipline = self.spec.discipline
        self._parking.stand("polled", self._batch)
        is_committed = self._commit(records) if discipline == "commit_first" else True
        if is_committed is None:  # to apply the batch, or to ask for it again, may break what commit_first promises
            raise CommitUnknown(f"batch {self._batch}: nobody knows whether its offsets were committed")
        if not is_committed:
            self._commits.give_back(self.spec.topic, records)
            self.control[Word.HANDED_OVER] -= len(records)
            return
        self._parking.stand("committed_first", self._batch)
        for number, record in enumerate(records, 1):
            self._apply(record)
            if discipline == "store_after":
                self._commits.store(self.spec.topic, record, self._batch)
            self._parking.stand("applied", self._batch, number)
        for point in AFTER_APPLIED:
            self._parking.stand(point, self._batch)
        if discipline == "commit_after" and not self._commit(records):
            self.control[Word.COMMITTED] += len(records)  # refused for good: no longer in progress
        self._parking.stand("committed", self._batch)

    def _commit(self, records: Sequence[Record]) -> bool | None:
        """Commits the offsets after `records`. If the commit succeeds, counts the records as committed. Returns what
        `Commits.commit` returns."""
        is_accepted = self._commits.commit(self.spec.topic, records, self._batch)
        if is_accepted:
            self.control[Word.COMMITTED] += len(records)
        elif is_accepted is False:
            self.control[Word.REFUSALS] += 1
        return is_accepted

    def _apply(self, record: Record) -> None:
        self._write(record)
        self._count(record)

    def _write(self, record: Record) -> None:
        spec = self.spec
        self.effects.append(record.partition, record.offset, self._batch, record.value, spec.run_token, spec.arm)

    def _count(self, record: Record) -> None:
        """Counts a record as applied, because its effect survives the end of the process. If the record is a marker,
        notes it in the folder of the incarnation."""
        self.control[Word.APPLIED] += 1
        if is_marker(record.value):
            self.control[Word.MARKERS] += 1
            note_marker(incarnation_folder(self.spec), record.partition, record.offset)
