"""The output topic of a user application: each record that a read_committed consumer is handed is one effect."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from confluent_kafka import IsolationLevel, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from delivery_verifier.applications.output import DEADLINE_S
from delivery_verifier.applications.output_topic import CANARY_PRODUCER, read_committed
from delivery_verifier.applications.own.scan import MAGIC, RecordPattern, Scan, scan_values
from delivery_verifier.applications.watermarks import Watermark, Watermarks
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.sink_location import SinkLocation

PATIENCE_S = 30.0
"""Seconds in which a leader must tell the end of its partition, e.g. after a change of the leader."""
_PORTION = 10_000


class Topic:
    """Reads effects from the topic `name`. `location` says which part of a record, value or key, identifies the applied
    record. `connection` has the client properties. `count_visible`: see SinkInputs. `folder` is the folder of the
    application, in which watermarks are noted."""

    def __init__(
        self,
        name: str,
        connection: Mapping[str, str],
        location: SinkLocation,
        count_visible: Callable[[str], int],
        folder: Path,
    ) -> None:
        self._name, self._connection, self._location = name, connection, location
        self._count_visible = count_visible
        self._watermarks = Watermarks(folder)
        self._admin: AdminClient | None = None
        self._partitions = list[int]()

    def sizes(self) -> dict[str, int]:
        """Maps each partition, as `<topic>/<partition>`, to its high watermark, which it also notes as seen. Raises
        KafkaException."""
        answers = self._answers(IsolationLevel.READ_UNCOMMITTED)
        marks = (Watermark(key, _epoch(answer), answer.offset) for key, answer in answers.items())
        self._watermarks.note(marks)
        return {f"{self._name}/{key}": answer.offset for key, answer in answers.items()}

    def scans(self, pattern: RecordPattern) -> Iterator[tuple[str, Scan]]:
        """Yields the effects. Their positions are offsets. Raises KafkaException, and DeadlinePassed."""
        yield from self._scans(pattern, {})

    def count(self, pattern: RecordPattern) -> int:
        """Returns how many effects there are. Leaves out records of the topic that hold only records of other runs.
        `count_visible` counts by the headers of the batches. While members run, `count_visible` gives no number. Then
        counts the records that were read."""
        total = foreign = 0
        for message in read_committed(self._name, self._connection):
            value = self._identity(message) or b""
            total += 1
            foreign += MAGIC in value and pattern.beginning not in value
        visible = self._count_visible(self._name)
        return (total if visible < 0 else visible) - foreign

    def markers(self, pattern: RecordPattern, searched: dict[str, int]) -> Iterator[tuple[int, int]]:
        """Yields the partition and the round of each marker from the offsets in `searched` on. Updates `searched`."""
        ends = self._ends(IsolationLevel.READ_COMMITTED)
        if all(searched.get(name, 0) >= end for name, end in ends.items()):
            return
        begin = {int(name.rpartition("/")[2]): min(offset, ends[name]) for name, offset in searched.items()}
        for _, part in self._scans(pattern, begin):
            for row in part.rows[part.rows["producer"] == MARKER_PRODUCER]:
                yield int(row["attempt"]), int(row["sequence"])
        searched |= ends

    def undecided(self) -> int:
        """Returns how many offsets are not decided: those from the oldest open transaction to the end of each
        partition."""
        stable = self._ends(IsolationLevel.READ_COMMITTED)
        return sum(end - stable[name] for name, end in self.sizes().items())

    def is_open_below(self, ends: Mapping[str, int]) -> bool:
        """Returns whether an open transaction began below `ends`, which maps partitions to offsets."""
        stable = self._ends(IsolationLevel.READ_COMMITTED) if ends else {}
        return any(offset < ends.get(name, 0) for name, offset in stable.items())

    def keep(self) -> None:
        """Does nothing, because the offset of a record shows in which incarnation the record was written."""

    def plant(self, values: Sequence[bytes]) -> None:
        """Writes records with the identities `values` in one transaction. Then writes the same records in a transaction
        that is aborted. So a reader that wrongly returns aborted records is found out."""
        client = Producer({**self._connection, **CANARY_PRODUCER, "transactional.id": f"kdv-canary-{self._name}"})
        client.init_transactions(DEADLINE_S)
        for end in (client.commit_transaction, client.abort_transaction):
            client.begin_transaction()
            for value in values:
                key = value if self._location.column == "key" else None
                client.produce(self._name, None if key else value, key, partition=0)
            client.flush(DEADLINE_S)
            end(DEADLINE_S)

    def _scans(self, pattern: RecordPattern, begin: Mapping[int, int]) -> Iterator[tuple[str, Scan]]:
        """Yields the effects of each partition, from the partition's offset in `begin` on. Reads a partition from its
        start if `begin` has no offset for it."""
        messages = read_committed(self._name, self._connection, begin)
        while portion := list(islice(messages, _PORTION)):
            by_partition = defaultdict[int, list[Message]](list)
            for message in portion:
                by_partition[message.partition() or 0].append(message)
            for partition, group in by_partition.items():
                offsets = [message.offset() or 0 for message in group]
                part = scan_values([self._identity(message) for message in group], pattern, offsets)
                yield f"{self._name}/{partition}", part

    def _identity(self, message: Message) -> bytes | None:
        text = message.key() if self._location.column == "key" else message.value()
        return text.encode() if isinstance(text, str) else text

    def _ends(self, isolation: IsolationLevel) -> dict[str, int]:
        """Maps each partition, as `<topic>/<partition>`, to its end."""
        return {f"{self._name}/{key}": answer.offset for key, answer in self._answers(isolation).items()}

    def _answers(self, isolation: IsolationLevel) -> dict[int, ListOffsetsResultInfo]:
        """Maps each partition to the leader's answer about its end. Asks again for `PATIENCE_S` seconds if a leader
        gives no answer."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                client = self._client()
                specs = {TopicPartition(self._name, number): OffsetSpec.latest() for number in self._partitions}
                answers = client.list_offsets(specs, isolation_level=isolation, request_timeout=10.0)
                return {key.partition: future.result(10.0) for key, future in answers.items()}
            except KafkaException:
                if time.monotonic() >= end_s:
                    raise
                self._admin = None  # it may keep the epoch of a leader that is no more (FENCED_LEADER_EPOCH)
                pause(0.2)

    def _client(self) -> AdminClient:
        if self._admin is None:
            client = AdminClient({**self._connection, "allow.auto.create.topics": False, "log_level": 0})
            described = client.list_topics(self._name, timeout=PATIENCE_S).topics[self._name]
            if described.error is not None:
                raise KafkaException(described.error)
            self._admin, self._partitions = client, sorted(described.partitions)
        return self._admin


def _epoch(answer: ListOffsetsResultInfo) -> int:
    """Returns the leader epoch of the leader that gave `answer`; -1 if it did not tell the epoch."""
    epoch = answer.leader_epoch
    return -1 if epoch is None else int(epoch)
