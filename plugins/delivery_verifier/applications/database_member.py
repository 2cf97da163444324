"""A member that applies records to a database. It writes rows and offsets in two transactions or in one, as its
discipline says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from delivery_verifier.applications.clients import MemberConsumer
from delivery_verifier.applications.commits import Record, next_offsets
from delivery_verifier.applications.control import Word
from delivery_verifier.applications.database import Database
from delivery_verifier.applications.member import Member
from delivery_verifier.applications.spec import MemberSpec


class DatabaseMember(Member):
    """One incarnation of a member that applies records to the database of its application.

    The member starts from the offsets in the database. It also commits these offsets to its group, so that whoever
    watches the group sees its progress. It never starts from the offsets of the group.
    """

    def __init__(self, spec: MemberSpec, client: MemberConsumer) -> None:
        folder = Path(spec.folder)
        self.database = Database(folder.parent, int(folder.name), spec.incarnation)
        super().__init__(spec, client, self.database)
        self._expected: dict[int, int] = {}

    def _on_assign(self, client: MemberConsumer, partitions: list[TopicPartition]) -> None:
        self._expected = self.database.offsets()
        first = OFFSET_BEGINNING if self.spec.settings["auto.offset.reset"] == "earliest" else OFFSET_END
        for partition in partitions:
            partition.offset = self._expected.get(partition.partition, first)
        client.assign(partitions)
        self._report(client, partitions)
        super()._on_assign(client, partitions)

    def _report(self, client: MemberConsumer, partitions: list[TopicPartition]) -> None:
        """Commits the offsets in the database to the group, because the group's offsets may have been set back. The
        member never starts from the group's offsets, but whoever watches the group sees from them how far the
        application is."""
        if known := [partition for partition in partitions if partition.partition in self._expected]:
            client.commit(offsets=known, asynchronous=True)

    def _work(self, records: Sequence[Record]) -> None:
        """Writes the rows of a batch and the batch's offsets, and commits rows and offsets. With the discipline
        `database_compared`, raises OffsetMoved if the database has another offset than the member expects. The process
        then ends, and the open transaction is rolled back."""
        is_apart = self.spec.discipline == "database_apart"
        self._parking.stand("polled", self._batch)
        self._parking.stand("committed_first", self._batch)
        self.database.begin()
        for number, record in enumerate(records, 1):
            self._write(record)
            self._parking.stand("applied", self._batch, number)
        if is_apart:
            self._commit_rows(records)
        self._parking.stand("produced", self._batch)
        self._parking.stand("rows_committed", self._batch)
        if is_apart:
            self.database.begin()
        self._write_offsets(records)
        self._parking.stand("offsets_sent", self._batch)
        self._parking.stand("ending", self._batch)
        self._parking.stand("offset_written", self._batch)
        if is_apart:
            self.database.commit()
        else:
            self._commit_rows(records)
        self._note_commit(records)
        self._commits.commit(self.spec.topic, records, self._batch, "reported")
        self._parking.stand("committed", self._batch)

    def _commit_rows(self, records: Sequence[Record]) -> None:
        """Commits the transaction in which the rows of `records` were written, and counts the records as applied."""
        self.database.commit()
        for record in records:
            self._count(record)

    def _write_offsets(self, records: Sequence[Record]) -> None:
        offsets = next_offsets(records)
        if self.spec.discipline == "database_compared":
            self.database.move_offsets(offsets, self._expected)
        else:
            self.database.set_offsets(offsets)
        self._expected |= offsets

    def _note_commit(self, records: Sequence[Record]) -> None:
        """Counts `records` as committed, because the database has committed their offsets. Adds these offsets to the
        journal."""
        self.control[Word.COMMITTED] += len(records)
        for partition, offset in next_offsets(records).items():
            self.journal.note("committed", self._batch, partition, until=offset)
