"""The output topic as a sink. The effects of a transform are the records of the output topic that a read_committed
consumer is handed.

Records of open or aborted transactions are no effects.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from delivery_verifier.applications.lives import LifeEnd, lives_of, members_of, read_end, write_end
from delivery_verifier.applications.output import Origin, Output, OutputFailed, origin_of
from delivery_verifier.applications.sink import (
    EFFECT,
    LifeEffects,
    PlannedEffect,
    Sink,
    SinkInputs,
    count_of_life,
    identity,
)
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.application import output_topic

READING_S = 300.0
"""Seconds after which the reading of an output topic is given up."""
_READER: dict[str, str | int | bool] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    "log_level": 0,
}
CANARY_PRODUCER: dict[str, str | int | bool] = {
    "acks": "all",
    "enable.idempotence": True,
    "log_level": 0,
}
"""The settings of the producer that writes the canary's effects, without its transactional.id."""


class OutputTopic(Sink):
    """The sink of transforms."""

    def read(self, inputs: SinkInputs) -> Iterator[LifeEffects]:
        """Yields the effects of each life. Compares the number of records that were read with `inputs.count_visible`. A
        difference is added to the count of the last life. This count then breaks the law `effects_read`.

        Raises OutputFailed for a record that no member wrote, KafkaException if the topic cannot be read, and
        FileNotFoundError if the supervisor did not write down how a life ended.
        """
        topic = output_topic(inputs.arm.topic_name)
        rows = defaultdict[tuple[int, int], list[tuple[int, tuple[int, ...]]]](list)
        count = 0
        for message in read_committed(topic, inputs.connection):
            origin = origin_of(message)
            rows[origin.member, origin.life].append((origin.nth, _row(message, origin, inputs)))
            count += 1
        missing = inputs.count_visible(topic) - count
        lives = [
            (member, life, path)
            for member, folder in members_of(inputs.folder).items()
            for life, path in lives_of(folder).items()
        ]
        if strangers := rows.keys() - {(member, life) for member, life, _ in lives}:
            raise OutputFailed(f"{topic} has records of lives that nobody began: {sorted(strangers)}")
        for number, (member, life, path) in enumerate(lives, 1):
            effects = _in_order(rows[member, life])
            counted = count_of_life(read_end(path), len(effects), inputs.batch)
            yield LifeEffects(member, life, effects, counted + (missing if number == len(lives) else 0))

    def plant(self, inputs: SinkInputs, effects: Sequence[PlannedEffect]) -> None:
        """Writes `effects` to the output topic in one transaction, as member 0 would in its life 0. Then writes the
        same effects in a transaction that is aborted. So a reader that wrongly takes aborted records for effects is
        found out."""
        name = f"kdv-{inputs.run_token}-canary-output"
        client = Producer({**inputs.connection, **CANARY_PRODUCER, "transactional.id": name})
        output = Output(client, output_topic(inputs.arm.topic_name), member=0, life=0)
        output.init()
        for end in (output.commit, output.abort):
            output.begin()
            for effect in effects:
                output.write(effect.partition, effect.offset, 0, effect.value)
            output.flush()
            end()
        folder = inputs.folder / "0" / "0"
        folder.mkdir(parents=True)
        write_end(folder, LifeEnd(applied=len(effects), exit_code=0, killed=False))


def read_committed(
    topic: str, connection: Mapping[str, str], begin: Mapping[int, int] = MappingProxyType({})
) -> Iterator[Message]:
    """Yields every record of `topic` that a read_committed consumer is handed, up to the end of each partition.

    `begin` maps partitions to the offsets from which they are read. Any partition that is not in `begin` is read from
    its start.

    Raises KafkaException for an error of the client, and DeadlinePassed after `READING_S` seconds.
    """
    consumer = Consumer({**connection, **_READER, "group.id": f"{topic}-reader"})
    end, ended = time.monotonic() + READING_S, set[int | None]()
    try:
        described = consumer.list_topics(topic, timeout=30).topics[topic]
        if described.error is not None:
            raise KafkaException(described.error)
        places = {partition: begin.get(partition, OFFSET_BEGINNING) for partition in described.partitions}
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in places.items()])
        while len(ended) < len(described.partitions):
            if time.monotonic() >= end:
                raise DeadlinePassed(f"waited {READING_S:g} s for the end of {topic}")
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def _row(message: Message, origin: Origin, inputs: SinkInputs) -> tuple[int, ...]:
    """Returns a record of the output topic as an effect, in the form EFFECT (the NumPy type of an effect). The `order`
    of the effect is the offset of `message` in the output topic."""
    sequence, partition_sequence, producer, session, attempt, flags = identity(
        message.value(), inputs.run_token, inputs.arm.ordinal
    )
    _, written_ms = message.timestamp()
    row = {
        "offset": origin.offset,
        "order": message.offset() or 0,
        "sequence": sequence,
        "partition_sequence": partition_sequence,
        "partition": origin.partition,
        "producer": producer,
        "session": session,
        "attempt": attempt,
        "batch": origin.batch,
        "flags": flags,
        "applied_at": written_ms * 1000,
    }
    return tuple(row[name] for name in EFFECT.names or ())


def _in_order(rows: list[tuple[int, tuple[int, ...]]]) -> npt.NDArray[np.void]:
    """Returns the effects of one life in the order in which the life wrote them. `rows` has pairs of a number and an
    effect: the number is `Origin.nth`."""
    return np.array([row for _, row in sorted(rows)], EFFECT)
