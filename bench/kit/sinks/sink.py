"""A program that writes each record of a topic as a line of a file. Its first argument says when it commits.

Only `honest` is right: it commits what it has written. The other ways are faults that people have reported about their
programs and client libraries. Each skips or repeats records, most of them only when the program is killed.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

BATCH, WORK_S, SLOW_S, FLUSH_S, FAILS = 100, 0.003, 0.03, 1.5, 701
"""Records of a batch; seconds of work on a record; seconds of work on a slow one; seconds between two writes of a
buffer; and every how many records the handler fails."""


class Sink:
    """The file, the consumer and the signal to stop."""

    def __init__(self, brokers: str, topic: str, group: str, file: str, *, commits_by_timer: bool) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.is_running = True
        signal.signal(signal.SIGTERM, self._stop)
        self.consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "enable.auto.commit": commits_by_timer,
                "auto.commit.interval.ms": 1000,
            }
        )
        self.consumer.subscribe([topic])

    def _stop(self, *_: object) -> None:
        self.is_running = False

    def batch(self) -> list[Message]:
        """Returns the next records."""
        return [message for message in self.consumer.consume(BATCH, 0.1) if message.error() is None]

    def write(self, *messages: Message) -> None:
        """Writes records, and survives a SIGKILL from then on."""
        os.write(self._file, b"".join((message.value() or b"") + b"\n" for message in messages))

    def commit(self, **what: object) -> None:
        """Commits the position of each partition, or what it is told."""
        try:
            self.consumer.commit(asynchronous=False, **what)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                print("commit:", error, file=sys.stderr, flush=True)


def honest(sink: Sink) -> None:
    """Writes a batch, record by record, and commits it then."""
    while sink.is_running:
        for message in (batch := sink.batch()):
            time.sleep(WORK_S)
            sink.write(message)
        if batch:
            sink.commit()


def ahead(sink: Sink) -> None:
    """Commits what it was handed, and writes its buffer later."""
    buffer, written_s = list[Message](), time.monotonic()
    while sink.is_running:
        if batch := sink.batch():
            buffer += batch
            sink.commit()
        if time.monotonic() - written_s > FLUSH_S:
            sink.write(*buffer)
            buffer, written_s = [], time.monotonic()
    sink.write(*buffer)


def timer(sink: Sink) -> None:
    """Lets the client's timer commit (enable.auto.commit=true), which commits what was handed over."""
    while sink.is_running:
        for message in sink.batch():
            time.sleep(WORK_S)
            sink.write(message)


def gap(sink: Sink) -> None:
    """Leaves every tenth record to a slow worker, and commits the position of the batch without it."""
    slow = queue.Queue[Message | None]()

    def work() -> None:
        while (message := slow.get()) is not None:
            time.sleep(SLOW_S)
            sink.write(message)

    worker = threading.Thread(target=work)
    worker.start()
    while sink.is_running:
        for number, message in enumerate(batch := sink.batch()):
            slow.put(message) if number % 10 == 5 else sink.write(message)
        if batch:
            sink.commit()
    slow.put(None)
    worker.join()


def swallow(sink: Sink) -> None:
    """Logs the exception of a handler, and commits the batch all the same."""
    count = 0
    while sink.is_running:
        for message in (batch := sink.batch()):
            count += 1
            try:
                if count % FAILS == 0:
                    raise TimeoutError("the database did not answer")
                sink.write(message)
            except TimeoutError as error:
                print("handler:", error, file=sys.stderr, flush=True)
        if batch:
            sink.commit()


def one_partition(sink: Sink) -> None:
    """Commits the last record of a batch, and with it only one partition of several."""
    while sink.is_running:
        if batch := sink.batch():
            sink.write(*batch)
            sink.commit(message=batch[-1])


WAYS: dict[str, Callable[[Sink], None]] = {
    way.__name__: way for way in (honest, ahead, timer, gap, swallow, one_partition)
}


def main() -> None:
    """Runs until SIGTERM. The arguments: the way, the brokers, the topic, the group, and the file."""
    way, *arguments = sys.argv[1:]
    sink = Sink(*arguments, commits_by_timer=way == timer.__name__)
    WAYS[way](sink)
    sink.consumer.close()


if __name__ == "__main__":
    main()
