"""A transform at work: a member that applies a record by writing it to an output topic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.applications.clients import MemberConsumer, MemberProducer, producer_of
from delivery_verifier.applications.commits import CommitUnknown, Record
from delivery_verifier.applications.control import Word
from delivery_verifier.applications.member import AFTER_APPLIED, Member
from delivery_verifier.applications.output import Output
from delivery_verifier.applications.spec import MemberSpec
from delivery_verifier.model.application import IN_TRANSACTIONS, output_topic


class Transform(Member):
    """One incarnation of a member whose effects are records of the output topic.

    With a discipline in IN_TRANSACTIONS, a batch and its offsets are written in one transaction. The previous
    incarnation may have left a transaction open. This incarnation ends that transaction before it asks its group for
    partitions. The client then fetches the committed offsets. It repeats the fetch while the coordinator of the group
    moves to another broker.
    """

    def __init__(self, spec: MemberSpec, client: MemberConsumer, producer: MemberProducer | None = None) -> None:
        super().__init__(spec, client, _NOWHERE)
        writer = producer or producer_of(spec, client)
        self._output = Output(writer, output_topic(spec.topic), int(Path(spec.folder).name), spec.incarnation)
        self._in_transactions = spec.discipline in IN_TRANSACTIONS

    def run(self) -> None:
        """Consumes and writes records until `stop` is called. Raises KafkaException after a fatal client error, and
        OutputFailed if records are not acknowledged or a transaction cannot be ended."""
        if self._in_transactions:
            self._output.init()
        super().run()

    def _work(self, records: Sequence[Record]) -> None:
        """Writes a batch to the output topic, and commits the offsets of the batch at the moment that the discipline
        says."""
        first = self.spec.discipline == "transform_first"
        self._parking.stand("polled", self._batch)
        is_committed = self._commit(records) if first else True
        if is_committed is None:
            raise CommitUnknown(f"batch {self._batch}: nobody knows whether its offsets were committed")
        if not is_committed:
            return self._give_back(records)
        self._parking.stand("committed_first", self._batch)
        if self._in_transactions:
            return self._work_in_transaction(records)
        self._write_all(records)
        self._count_all(records)
        for point in AFTER_APPLIED:
            self._parking.stand(point, self._batch)
        if not first and not self._commit(records):
            self.control[Word.COMMITTED] += len(records)  # refused for good: no longer in progress
        self._parking.stand("committed", self._batch)

    def _work_in_transaction(self, records: Sequence[Record]) -> None:
        """Writes a batch and its offsets in one transaction. If the transaction must be aborted, no record of the batch
        is applied. It must be aborted e.g. if the group has given the partitions to another member."""
        self._output.begin()
        try:
            self._write_all(records)
            self._parking.stand("produced", self._batch)
            self._parking.stand("rows_committed", self._batch)
            offsets = {record.partition: record.offset + 1 for record in records}
            self._output.send_offsets(self.spec.topic, offsets, self.client)
            self._parking.stand("offsets_sent", self._batch)
            self._parking.stand("offset_written", self._batch)
            self._parking.begin_call("ending", self._batch)
            self._output.commit()
            self._parking.end_call()
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            if not error.txn_requires_abort():
                raise
            self._output.abort()
            self._parking.end_call()
            self.journal.note("aborted", self._batch, answer=error.name())
            self.control[Word.REFUSALS] += 1
            return self._give_back(records)
        for partition, offset in offsets.items():
            self.journal.note("committed", self._batch, partition, until=offset)
        self._count_all(records)
        self.control[Word.COMMITTED] += len(records)
        self._parking.stand("committed", self._batch)

    def _write_all(self, records: Sequence[Record]) -> None:
        """Writes a batch to the output topic, and waits until all its records are acknowledged."""
        for number, record in enumerate(records, 1):
            self._output.write(record.partition, record.offset, self._batch, record.value)
            self._parking.stand("applied", self._batch, number)
        self._output.flush()

    def _give_back(self, records: Sequence[Record]) -> None:
        self._commits.give_back(self.spec.topic, records)
        self.control[Word.HANDED_OVER] -= len(records)

    def _count_all(self, records: Sequence[Record]) -> None:
        for record in records:
            self._count(record)


class _Nowhere:
    """Stands in for a sink, and takes no effects, because the effects of a transform are the records of its output
    topic."""

    def append(self, partition: int, offset: int, batch: int, value: bytes, run_token: str, arm_ordinal: int) -> None:
        """Raises NotImplementedError."""
        raise NotImplementedError("a transform writes to its output topic")


_NOWHERE = _Nowhere()
