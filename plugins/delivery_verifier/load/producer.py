"""One producer process: sends its share of an arm's load and writes down what it was told about every record.

Run as `python -m delivery_verifier.load.producer SPEC`, SPEC being the path of a `ProducerSpec` as JSON.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.layout import LoadLayout, room
from delivery_verifier.load.live_ledger import (
    ACKED_NOWHERE,
    FAILED,
    INDETERMINATE,
    MASK,
    SENT,
    SHIFT,
    Control,
    Gate,
    LiveLedger,
    State,
    Word,
    encode_error,
)
from delivery_verifier.load.resends import (
    census,
    folder_of,
    next_round,
    read_rounds,
    shifts,
    unanswered,
    write_round,
)
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.load.transactions import Transactions, Unended
from delivery_verifier.model import record

QUEUE_RECORDS = 200_000
QUEUE_BYTES = 400_000_000


class SequencedProducer:
    """Sends blocks in sequence; one delivery callback for all records."""

    def __init__(self, spec: ProducerSpec) -> None:
        self.spec = spec
        self.layout = LoadLayout(spec.block, spec.partitions)
        self.control = Control(Path(spec.folder))
        self.ledger = LiveLedger(Path(spec.folder))
        self.encoder = self._encoder(0)
        self.sequence, self.resent = self.control[Word.ANNOUNCED], 0
        self.put_off = shifts(read_rounds(Path(spec.folder)), self.layout)
        self.limit = max(4 * spec.block, min(QUEUE_RECORDS, QUEUE_BYTES // spec.payload_bytes))
        if (own := room(spec.settings, spec.payload_bytes)) is not None:
            self.limit = max(0, min(self.limit, own - 2 * spec.block))  # below 0 no queue is ever short enough
        self.fatal: str | None = None
        self.client = Producer(
            {
                **spec.connection,
                "queue.buffering.max.messages": self.limit + 2 * spec.block,
                "queue.buffering.max.kbytes": 2_000_000,
                "error_cb": self._on_error,
                "log_level": 3,
                **spec.settings,
            }
        )
        self.report = self._callback(self.ledger)
        self.transactions = (
            Transactions(self.client, Path(spec.folder), spec.transaction_records, spec.abort_every, spec.deadline_s)
            if spec.transaction_records
            else None
        )

    def _encoder(self, attempt: int) -> record.BlockEncoder:
        spec = self.spec
        return record.BlockEncoder(spec.run_token, spec.arm, spec.producer, spec.session, attempt, spec.payload_bytes)

    def _callback(self, ledger: LiveLedger) -> Callable[[KafkaError | None, Message], None]:
        """The delivery callback. It runs once per record, so everything it needs is a local.

        No error proves that a record was not written (docs/adr/0004): an earlier try may have been.
        """
        segments, words, clock = ledger.segments, self.control._words, time.time_ns
        # With acks=0 librdkafka sometimes makes an offset up (seen: 0, 1, 2 ... after a lost connection): never believe
        # it.
        unasked = str(self.spec.settings["acks"]) == "0"
        where, reported, indeterminate = record.SEQUENCE, int(Word.REPORTED), int(Word.INDETERMINATE)

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            sequence = int(message.value()[where])  # type: ignore[index]
            result, _, settled, _ = segments[sequence >> SHIFT]
            slot = sequence & MASK
            settled[slot] = clock()
            if error is None:
                offset = None if unasked else message.offset()
                if offset is not None and offset >= 0:
                    result[slot] = offset + 1
                else:
                    result[slot] = SENT if unasked else ACKED_NOWHERE
                words[reported] += 1
            else:
                result[slot] = encode_error(INDETERMINATE, error.code())
                words[indeterminate] += 1

        return on_delivery

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = str(error)

    def send_block(self) -> None:
        """Announces and hands over the next block; what the client refuses at once is FAILED."""
        block, first = self.spec.block, self.sequence
        self._make_room()
        if self.transactions:
            self.transactions.before_block()
        self.ledger.open(first, block, time.time_ns())
        self.control[Word.ANNOUNCED] = first + block
        numbered = self.layout.partition_sequence(first) + self.put_off[self.layout.partition(first)]
        self.sequence = first + block
        self._hand_over(self.ledger, first, self.encoder.encode(first, numbered, block), self.report)
        if self.transactions:
            self.transactions.after_block(self.sequence)

    def _make_room(self) -> None:
        while len(self.client) > self.limit:
            self.client.poll(0.005)

    def _hand_over(
        self, ledger: LiveLedger, first: int, values: list[bytes], report: Callable[[KafkaError | None, Message], None]
    ) -> None:
        batch: list[dict[str, Any]] = [{"value": value} for value in values]
        queued = self.client.produce_batch(
            self.spec.topic, batch, partition=self.layout.partition(first), on_delivery=report
        )
        if queued != len(values):
            self._refused(ledger, first, batch)
        self.client.poll(0)

    def _refused(self, ledger: LiveLedger, first: int, batch: list[dict[str, Any]]) -> None:
        """Never queued, so certainly not written. Back-pressure keeps the queue from ever being full."""
        for place, entry in enumerate(batch):
            if (error := entry.get("_error")) is not None:
                result, _, settled, _ = ledger.segments[(first + place) >> SHIFT]
                result[(first + place) & MASK] = encode_error(FAILED, error.code())
                settled[(first + place) & MASK] = time.time_ns()
                self.control[Word.FAILED] += 1

    def send_again(self, open_too: bool) -> None:
        """Sends again, as a new attempt, every record of which it cannot know whether it is written. `open_too`: also
        what was not answered, the process that it was sent by being gone."""
        folder, control = Path(self.spec.folder), self.control
        before = read_rounds(folder)
        made = next_round(unanswered(folder, self.sequence, before, open_too), self.sequence, before, self.layout)
        ledgers = {run.attempt: LiveLedger(folder_of(folder, run.attempt)) for run in made.runs}
        tools = {attempt: (self._encoder(attempt), self._callback(ledger)) for attempt, ledger in ledgers.items()}
        for run in made.runs:
            ledgers[run.attempt].open(run.first, run.count, time.time_ns())
        write_round(folder, len(before) + 1, made)
        control[Word.RESENT] += made.attempts
        control[Word.LAST_ROUND] = made.attempts
        self.resent += made.attempts
        for run in made.runs:
            self._make_room()
            encoder, report = tools[run.attempt]
            ledgers[run.attempt].open(run.first, run.count, time.time_ns())
            values = encoder.encode(run.first, run.partition_sequence, run.count)
            self._hand_over(ledgers[run.attempt], run.first, values, report)
        self.put_off = shifts([*before, made], self.layout)

    def _again_if_told(self) -> None:
        if self.control[Word.ROUNDS_DONE] < self.control[Word.ROUNDS]:
            self.send_again(open_too=False)
            self.control[Word.ROUNDS_DONE] += 1

    def take_over(self) -> None:
        """The first thing in a new life: counts what the last one left, and sends again what nobody answered."""
        found = census(Path(self.spec.folder), self.sequence)
        for word, count in found.items():
            self.control[word] = count
        self.resent = found[Word.RESENT]
        self.send_again(open_too=True)

    def warm_up(self) -> None:
        """Sends one block to each partition and waits until all are settled."""
        for _ in range(self.spec.partitions):
            self.send_block()
        left = self.client.flush(self.spec.deadline_s)
        if left:
            raise TimeoutError(f"{left} warm-up records were not settled within {self.spec.deadline_s:g} s")

    def load(self) -> None:
        """Sends at the planned rate until the floor is reached and the supervisor has released the load."""
        spec, control = self.spec, self.control
        start, already = time.monotonic(), self.sequence
        while self.fatal is None:
            self._again_if_told()
            if self.sequence >= spec.records and control[Word.GATE] >= Gate.RELEASE:
                return
            elapsed = time.monotonic() - start
            due = already + int(elapsed * spec.rate) if spec.rate is not None else self.sequence + spec.block
            if self.sequence + spec.block <= due:
                self.send_block()
            else:
                self.client.poll(min(0.01, (self.sequence + spec.block - due) / spec.rate) if spec.rate else 0)

    def play(self) -> None:
        """A scripted load: sends what it is told to, and after the release one block more to each partition."""
        control, already = self.control, self.spec.block * self.spec.partitions
        while self.fatal is None:
            self._again_if_told()
            if self.sequence - already < control[Word.DUE]:
                self.send_block()
                control[Word.HANDED_OVER] = self.sequence - already
            elif control[Word.GATE] >= Gate.RELEASE:
                break
            else:
                self.client.poll(0.002)
        for _ in range(self.spec.partitions if self.fatal is None else 0):
            self.send_block()

    def run(self) -> None:
        """The whole life of a producer, gate by gate."""
        if self.transactions:
            self.transactions.init()
        if self.spec.life:
            self._unless_fatal(self.take_over)
        else:
            self._wait_for(Gate.WARM_UP)
            self.warm_up()
            self.control[Word.STATE] = State.WARM
            self._wait_for(Gate.GO)
        self.control[Word.STATE] = State.LOADING
        self._unless_fatal(self.play if self.spec.scripted else self.load)
        if self.transactions and self.fatal is None:
            self._unless_fatal(self.transactions.end)
        self._unless_fatal(lambda: self.client.flush(self.spec.deadline_s))  # what is left open then is INDETERMINATE
        self.control[Word.ATTEMPTED] = self.sequence + self.resent
        self.control[Word.STATE] = State.DONE

    def _unless_fatal(self, work: Callable[[], object]) -> None:
        """Works until it is done, or until the client can do no more.

        `poll` raises that as a KafkaException, `flush` as the bare error, which is no Exception.
        """
        try:
            work()
        except (KafkaException, KafkaError) as raised:  # type: ignore[misc]  # the C library raises against Python's rules
            error = raised.args[0] if isinstance(raised, KafkaException) else raised
            if not error.fatal():
                raise
            self.fatal = str(error)
        except Unended as error:
            self.fatal = str(error)

    def _wait_for(self, gate: Gate) -> None:
        def opened() -> bool:
            self.client.poll(0)
            return self.control[Word.GATE] >= gate

        wait_until(opened, f"gate {gate.name}", self.spec.deadline_s, every_s=0.005)


def main() -> int:
    """Exit codes: 0 done, 3 a fatal client error ended the load early, 1 anything else."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=ProducerSpec)
    try:
        producer = SequencedProducer(spec)
    except KafkaException as error:
        print(f"producer settings refused: {error.args[0].str()}", file=sys.stderr)
        return 1
    producer.control[Word.ATTEMPTED] = -1
    producer.control[Word.STATE] = State.READY
    producer.run()
    if producer.fatal:
        print(f"fatal client error: {producer.fatal}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
