"""One producer process: sends its share of an arm's load, and writes the outcome of every record into its live ledger.

Run it as `python -m delivery_verifier.load.producer SPEC`. SPEC is the path of a `ProducerSpec` as JSON.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from confluent_kafka import KafkaException

from delivery_verifier.host.java.jvm import ClientDied
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.client import HandOver, LoadClient
from delivery_verifier.load.client_errors import ending, refusal
from delivery_verifier.load.java.client import JavaClient
from delivery_verifier.load.layout import LoadLayout
from delivery_verifier.load.librdkafka_client import LibrdkafkaClient
from delivery_verifier.load.live_ledger import Control, Gate, LiveLedger, State, Word
from delivery_verifier.load.producer_process import BEFORE_LOAD, ENDED_EARLY, IN_LOAD
from delivery_verifier.load.resends import (
    attempt_folder,
    next_round,
    partition_shifts,
    read_rounds,
    recount,
    still_open,
    unanswered,
    write_round,
)
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.load.transactions import transactions_of
from delivery_verifier.model import record
from delivery_verifier.model.client import Client
from delivery_verifier.model.partition_growth import WARM_UP_ROUNDS

CLIENTS: dict[Client, type[LibrdkafkaClient] | type[JavaClient]] = {"librdkafka": LibrdkafkaClient, "java": JavaClient}
"""The class of each client library, by the name that an arm gives it."""
GRACE_S = 20.0
"""How many seconds flush() may take on SIGTERM. Those who send SIGTERM send SIGKILL a while later. Kubernetes, e.g.,
waits for 30 s (terminationGracePeriodSeconds)."""


class SequencedProducer:
    """Sends blocks of records in the order of their sequence numbers.

    * `sequence`: the number of the first record that was never sent.
    * `resent`: the number of resends so far. `shifts`: this number per partition (see `partition_shifts`).
    * `client`: the client that sends (see `client.LoadClient`).
    * `fatal`: what ended the load early: a fatal client error, a refused warm-up, an unended transaction. Else None.
    * `terminated`: whether SIGTERM has reached the producer in its load.
    """

    def __init__(self, spec: ProducerSpec) -> None:
        self.spec = spec
        self.layout = LoadLayout(spec.block, spec.partitions, spec.first_partitions, spec.first_rounds)
        self.control, self.ledger = Control(Path(spec.folder)), LiveLedger(Path(spec.folder))
        self.encoder = self._encoder(0)
        self.sequence, self.resent = self.control[Word.ANNOUNCED], 0
        self.shifts = partition_shifts(read_rounds(Path(spec.folder)), self.layout)
        self.fatal: str | None = None
        self.terminated = False
        self.client: LoadClient = CLIENTS[spec.client](spec, self.control)
        self.hand_over = self.client.into(self.ledger)
        self.transactions = transactions_of(spec, self.client)

    def _encoder(self, attempt: int) -> record.BlockEncoder:
        spec = self.spec
        return record.BlockEncoder(spec.run_token, spec.arm, spec.producer, spec.session, attempt, spec.payload_bytes)

    def send_block(self) -> None:
        """Counts the next block as sent, and hands it over to the client."""
        block, first = self.spec.block, self.sequence
        if self.layout.grows_at(first):
            self.client.await_partitions(self.spec.partitions, self.spec.deadline_s)
        self._make_room()
        if self.terminated:
            return
        if self.transactions:
            self.transactions.before_block()
        self.ledger.open(first, block, time.time_ns())
        self.control[Word.ANNOUNCED] = first + block
        partition_sequence = self.layout.partition_sequence(first) + self.shifts[self.layout.partition(first)]
        self.sequence = first + block
        self.hand_over(first, self.layout.partition(first), self.encoder.encode(first, partition_sequence, block))
        if self.transactions:
            self.transactions.after_block(self.sequence)

    def _make_room(self) -> None:
        """Waits until the client's queue is short enough, or SIGTERM ends the load. So the load never outruns the
        client."""
        while len(self.client) > self.client.limit and not self.terminated:
            self.client.poll(0.005)

    def send_again(self, include_open: bool) -> None:
        """Does one round of resends: sends a new attempt of each record whose last attempt is INDETERMINATE. With
        `include_open`, an attempt without a delivery report counts as INDETERMINATE, too. Set `include_open` only if
        the process that sent the attempt is gone."""
        folder, control = Path(self.spec.folder), self.control
        earlier = read_rounds(folder)
        sequences = unanswered(folder, self.sequence, earlier, include_open)
        resends = next_round(sequences, self.sequence, earlier, self.layout)
        ledgers = {resend.attempt: LiveLedger(attempt_folder(folder, resend.attempt)) for resend in resends.ranges}
        encoders = {attempt: self._encoder(attempt) for attempt in ledgers}
        hand_over: dict[int, HandOver] = {attempt: self.client.into(ledger) for attempt, ledger in ledgers.items()}
        for resend in resends.ranges:
            ledgers[resend.attempt].open(resend.first, resend.count, time.time_ns())
        write_round(folder, len(earlier) + 1, resends)
        control[Word.RESENT] += resends.attempts
        control[Word.LAST_ROUND] = resends.attempts
        self.resent += resends.attempts
        for resend in resends.ranges:
            self._make_room()
            ledgers[resend.attempt].open(resend.first, resend.count, time.time_ns())
            values = encoders[resend.attempt].encode(resend.first, resend.partition_sequence, resend.count)
            hand_over[resend.attempt](resend.first, self.layout.partition(resend.first), values)
        self.client.await_taken()
        self.shifts = partition_shifts([*earlier, resends], self.layout)

    def _send_again_if_asked(self) -> None:
        if self.control[Word.ROUNDS_DONE] < self.control[Word.ROUNDS]:
            self.send_again(include_open=False)
            self.control[Word.ROUNDS_DONE] += 1

    def take_over(self) -> None:
        """Resumes after a kill or SIGTERM. First counts the outcomes in the ledger. After a kill, a producer without
        transactions then resends the records without a certain outcome. A producer with transactions resends nothing,
        because the transaction that was open at the kill may have been committed. After SIGTERM, a producer resends
        nothing: its program ended in good order, and believes that it has sent all."""
        self.resent = recount(Path(self.spec.folder), self.control, self.sequence)[Word.RESENT]
        if self.transactions:
            self.transactions.take_over(self.sequence)
        elif self.control[Word.SIGNAL] != signal.SIGTERM:
            self.send_again(include_open=True)

    def warm_up(self) -> None:
        """Sends a block to each partition. Ends the load if a record has no outcome in time, or if all are refused."""
        self._send_rounds(WARM_UP_ROUNDS)
        if unsettled := self.client.flush(self.spec.deadline_s):
            self.fatal = f"{unsettled} warm-up records were not settled within {self.spec.deadline_s:g} s"
        else:
            self.fatal = refusal(Path(self.spec.folder), self.sequence) or None

    def _send_rounds(self, rounds: int) -> None:
        """Sends blocks until each partition that is there has got those of the first `rounds` rounds."""
        for _ in range(self.sequence, self.layout.end_of_rounds(rounds), self.spec.block):
            self.send_block()

    def load(self) -> None:
        """Sends at the planned rate. Ends on SIGTERM, or when `spec.records` are sent and the supervisor has opened
        Gate.RELEASE."""
        spec, control = self.spec, self.control
        start, sequence_at_start = time.monotonic(), self.sequence
        while self.fatal is None and not self.terminated:
            self._send_again_if_asked()
            if self.sequence >= spec.records and control[Word.GATE] >= Gate.RELEASE:
                return
            elapsed = time.monotonic() - start
            due = sequence_at_start + int(elapsed * spec.rate) if spec.rate is not None else self.sequence + spec.block
            if self.sequence + spec.block <= due:
                self.send_block()
            else:
                self.client.poll(min(0.01, (self.sequence + spec.block - due) / spec.rate) if spec.rate else 0)

    def play(self) -> None:
        """Sends a scripted load: sends each block when the fault plan asks for it. When the supervisor opens
        Gate.RELEASE, sends one more block to each partition and returns. On SIGTERM, returns at once."""
        control, warm_up_records = self.control, self.layout.end_of_rounds(WARM_UP_ROUNDS)
        while self.fatal is None and not self.terminated:
            self._send_again_if_asked()
            if self.sequence - warm_up_records < control[Word.DUE]:
                self.send_block()
                control[Word.HANDED_OVER] = self.sequence - warm_up_records
            elif control[Word.GATE] >= Gate.RELEASE:
                break
            else:
                self.client.poll(0.002)
        if self.fatal is None and not self.terminated:
            self._send_rounds(self.layout.rounds(self.sequence) + 1)

    def run(self) -> bool:
        """Sends the warm-up and then the load. Waits for Gate.WARM_UP and for Gate.GO before. A producer that was
        ended and started again sends no warm-up, and resumes its load at once. If SIGTERM ends the load, the producer
        neither counts its attempts nor is it DONE: a restart resumes the load. Returns whether the load has begun."""
        if self.spec.on_sigterm:
            signal.signal(signal.SIGTERM, self._note_sigterm)
        goes_on = self._unless_fatal(self._begin)
        if goes_on:
            self.control[Word.STATE] = State.LOADING
            self._unless_fatal(self.play if self.spec.scripted else self.load)
            if self.terminated and self.fatal is None and self._unless_fatal(self._end_on_sigterm):
                return True
            if self.transactions and self.fatal is None:
                self._unless_fatal(self.transactions.end)
        # A fatal error ends a flush, and the next one serves what is left. What has no report then is INDETERMINATE.
        while error := ending(lambda: self.client.flush(self.spec.deadline_s)):
            self.fatal = self.fatal or error
        self.client.close()  # no report may come after the count
        self.control[Word.ABANDONED] += still_open(self.control)
        self.control[Word.ATTEMPTED] = self.sequence + self.resent
        if has_begun := goes_on or self.spec.incarnation > 0:
            self.control[Word.STATE] = State.DONE
        return has_begun

    def _note_sigterm(self, *_: object) -> None:
        # The handler may interrupt any line, so it only notes the signal. The load ends before its next block.
        self.terminated = True

    def _end_on_sigterm(self) -> None:
        """Does what the program does before it exits on SIGTERM. Writes down how many attempts have no report when
        SIGTERM has come, and how many at the end."""
        self.control[Word.AT_SIGTERM] = still_open(self.control)
        if self.spec.on_sigterm == "flush":
            self.client.flush(GRACE_S)
        self.client.close()
        self.control[Word.AT_EXIT] = still_open(self.control)

    def _begin(self) -> None:
        """Does all that comes before the load."""
        if self.transactions:
            self.transactions.init()
        if self.spec.incarnation:
            return self.take_over()
        self.client.connect(self.spec.deadline_s)
        self._wait_for(Gate.WARM_UP)
        self.warm_up()
        if self.fatal is None:
            self.control[Word.STATE] = State.WARM
            self._wait_for(Gate.GO)

    def _unless_fatal(self, work: Callable[[], object]) -> bool:
        """Calls `work`. If a fatal client error or Unended stops `work`, notes the error in `fatal`. Raises any other
        error. Returns whether the load may go on."""
        self.fatal = ending(work) or self.fatal
        return self.fatal is None

    def _wait_for(self, gate: Gate) -> None:
        def is_open() -> bool:
            self.client.poll(0)
            return self.control[Word.GATE] >= gate

        wait_until(is_open, f"gate {gate.name}", self.spec.deadline_s, every_s=0.005)


def main() -> int:
    """Runs one producer. Returns the exit code: 0 if the load was sent or SIGTERM has ended it, 1 if the client refused
    its settings or died. After IN_LOAD or BEFORE_LOAD, the file ENDED_EARLY says which error ended the producer."""
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=ProducerSpec)
    if spec.client == "librdkafka":
        wheels.require_imported(spec.client_version)
    try:
        producer = SequencedProducer(spec)
    except KafkaException as error:
        print(f"producer settings refused: {error.args[0].str()}", file=sys.stderr)
        return 1
    except ClientDied as died:
        print(died, file=sys.stderr)
        return 1
    producer.control[Word.ATTEMPTED] = producer.control[Word.AT_SIGTERM] = -1
    producer.control[Word.STATE] = State.READY
    gc.disable()  # the load makes millions of objects, but no reference cycles: the search for cycles would find none
    try:
        has_begun = producer.run()
    except ClientDied as died:  # reports may be missing, so there is nothing to judge
        print(died, file=sys.stderr)
        return 1
    if producer.fatal is None:
        return 0
    (Path(spec.folder) / ENDED_EARLY).write_text(producer.fatal)
    return IN_LOAD if has_begun else BEFORE_LOAD


if __name__ == "__main__":
    sys.exit(main())
