"""A stand-in for the consumer of a member, the records that it hands over, and the spec of the member."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from delivery_verifier.applications.spec import MemberSpec, incarnation_folder
from delivery_verifier.model import record
from delivery_verifier.model.application import Discipline

RUN, ARM = "abcdefgh", 3


def message(offset: int, producer: int = 0, partition: int = 0) -> Any:
    value = record.encode(RUN, ARM, producer, 0, offset, 0, offset, 100)
    return SimpleNamespace(error=lambda: None, partition=lambda: partition, offset=lambda: offset, value=lambda: value)


class Client:
    """A consumer that hands over `messages`, and then asks `when_empty`. `did` lists what it was asked for.

    `answers` are the errors with which the next commits are answered.
    """

    def __init__(self, messages: list[Any], when_empty: Callable[[], object]) -> None:
        self.messages, self.when_empty = messages, when_empty
        self.did: list[tuple[Any, ...]] = []
        self.answers: list[int] = []
        self.callbacks: dict[str, Any] = {}
        self.when_handed: Callable[[], object] | None = None

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.did.append(("subscribe", *topics))
        self.callbacks = callbacks
        callbacks["on_assign"](self, [TopicPartition(topics[0], 0)])

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.did.append(("assign", *(partition.offset for partition in partitions)))

    def consume(self, most: int, timeout: float) -> list[Any]:
        if not self.messages:
            self.when_empty()
        now, self.messages = self.messages[:most], self.messages[most:]
        if now and self.when_handed:
            self.when_handed()
        return now

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        if asynchronous:  # has no answer
            self.did.append(("report", *(offset.offset for offset in offsets)))
            return None
        self.did.append(("commit", *(offset.offset for offset in offsets)))
        if self.answers:
            raise KafkaException(KafkaError(self.answers.pop(0)))
        return []

    def store_offsets(self, offsets: list[TopicPartition]) -> None:
        self.did.append(("store", *(offset.offset for offset in offsets)))

    def seek(self, partition: TopicPartition) -> None:
        self.did.append(("seek", partition.offset))

    def close(self) -> None:
        self.callbacks["on_revoke"](self, [TopicPartition("the-topic", 0)])
        self.did.append(("close",))


def spec_of(folder: Path, discipline: Discipline, batch: int = 2, incarnation: int = 0) -> MemberSpec:
    spec = MemberSpec(
        folder=str(folder),
        incarnation=incarnation,
        connection={},
        settings={"auto.offset.reset": "earliest"},
        topic="the-topic",
        run_token=RUN,
        arm=ARM,
        discipline=discipline,
        batch=batch,
    )
    incarnation_folder(spec).mkdir(parents=True)
    return spec
