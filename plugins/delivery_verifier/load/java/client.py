"""The Java client of a producer, as its producer process uses it.

Values of records go to the JVM through a pipe. Outcomes come back through the live ledger, so the client's queue is
what the control block says is open. Answers of the JVM say only that it has taken a block, or how a call has ended.
"""

from __future__ import annotations

import itertools
import struct
import time
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.host.java.jvm import ClientDied, Jvm, command, packed, text
from delivery_verifier.load import error_codes
from delivery_verifier.load.client import HandOver
from delivery_verifier.load.java import errors, settings
from delivery_verifier.load.live_ledger import (
    ACKED_NOWHERE,
    FAILED,
    INDETERMINATE,
    SENT,
    SHIFT,
    Control,
    LiveLedger,
    Word,
)
from delivery_verifier.load.resends import still_open
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.client import CLIENTS

PROGRAM = Path(__file__).with_name("LoadClient.java")
HEAP_MB = 160
"""The heap of a JVM beside what its records take, in MB."""
AHEAD = 1
"""How many blocks may be on their way to the JVM when a call returns that has handed over a block of a load with its
own pace. A scripted load waits for each block."""
_LOOK_S = 0.005
"""How long one look at the answers of the JVM waits for one, in seconds."""


class JavaClient:
    """See `client.LoadClient`. Starts the JVM, and waits until it has its producer.

    Raises KafkaException if the Java client refuses the settings, BadInput if a setting cannot be translated, JavaError
    or JarError if there is no Java or no client in this version, and ClientDied if the JVM does not start in time.
    """

    def __init__(self, spec: ProducerSpec, control: Control) -> None:
        self._spec, self._control = spec, control
        self._ledgers, self._calls = itertools.count(), itertools.count()
        self._pending: tuple[str, int] | None = None
        self._answers: dict[int, str] = {}
        self._untaken, self._is_closed = 0, False
        properties, start = require_java(spec)
        self.limit = settings.room(properties, spec.settings, spec.payload_bytes, spec.block, spec.partitions)
        self._jvm = Jvm(Path(spec.folder), start, spec.deadline_s, "producer")
        try:
            self._jvm.write(packed(self._layout()) + packed({**properties, **spec.connection}))
            self._await_start()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The pid of the JVM."""
        return self._jvm.pid

    def _layout(self) -> dict[str, str]:
        """Returns what the JVM must know of the live ledger and of errors."""
        words = (Word.REPORTED, Word.FAILED, Word.INDETERMINATE, Word.REPEATED)
        results = {"SENT": SENT, "ACKED_NOWHERE": ACKED_NOWHERE, "FAILED": FAILED, "INDETERMINATE": INDETERMINATE}
        return {
            "topic": self._spec.topic,
            "control": str(Path(self._spec.folder) / "control"),
            "shift": str(SHIFT),
            "refusals": errors.table(errors.REFUSALS),
            "errors": errors.table(errors.OTHERS),
            "code.UNLISTED": str(error_codes.UNLISTED),
            **{f"word.{word.name}": str(word.value) for word in words},
            **{f"result.{name}": str(value) for name, value in results.items()},
        }

    def _await_start(self) -> None:
        end = time.monotonic() + self._spec.deadline_s
        while time.monotonic() < end:
            for line in self._jvm.lines(_LOOK_S):
                if line == "ready":
                    return
                kind, _, said = line.partition(" ")
                if kind == "refused":
                    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, said))
                raise _unknown(line)
        raise ClientDied(f"the JVM of this producer has no producer after {self._spec.deadline_s:g} s")

    def __len__(self) -> int:
        return still_open(self._control)

    def into(self, ledger: LiveLedger) -> HandOver:
        number, value_bytes = next(self._ledgers), self._spec.payload_bytes
        self._jvm.write(b"L" + struct.pack(">i", number) + text(str(ledger.folder)))

        def hand_over(first: int, partition: int, values: list[bytes]) -> None:
            head = struct.pack(">ciiqii", b"S", number, partition, first, len(values), value_bytes)
            self._untaken += 1
            self._jvm.write(head + b"".join(values))
            self._await_taken(0 if self._spec.scripted else AHEAD)

        return hand_over

    def await_taken(self) -> None:
        self._await_taken(0)

    def _await_taken(self, ahead: int) -> None:
        end = time.monotonic() + self._spec.deadline_s
        while self._untaken > ahead:
            self.poll(_LOOK_S)
            if time.monotonic() > end:
                raise ClientDied(f"the JVM of this producer has taken no block for {self._spec.deadline_s:g} s")

    def poll(self, timeout_s: float) -> None:
        for line in self._jvm.lines(timeout_s):
            if line == "taken":
                self._untaken -= 1
                continue
            kind, number, said = f"{line}  ".split(" ", 2)
            if kind not in ("done", "error") or not number.isdigit():
                raise _unknown(line)
            self._answers[int(number)] = f"{kind} {said.strip()}"

    def flush(self, timeout_s: float) -> int:
        end = time.monotonic() + timeout_s
        if self._is_closed:
            return len(self)
        self._jvm.write(b"F")
        while (unreported := len(self)) and time.monotonic() < end:
            self.poll(_LOOK_S)
        return unreported

    def connect(self, timeout_s: float) -> None:
        try:
            self._call("connect", timeout_s)
        except KafkaException:
            self._pending = None  # whoever then sends records notices that, too

    def await_partitions(self, count: int, timeout_s: float) -> None:
        """Does nothing: the Java client asks for the partitions anew when it does not know the one of a record, and
        waits for the answer up to max.block.ms."""

    def init_transactions(self, timeout_s: float) -> None:
        self._call("init_transactions", timeout_s)

    def begin_transaction(self) -> None:
        self._call("begin_transaction", self._spec.deadline_s)

    def commit_transaction(self, timeout_s: float) -> None:
        self._call("commit_transaction", timeout_s)

    def abort_transaction(self, timeout_s: float) -> None:
        self._call("abort_transaction", timeout_s)

    def _call(self, method: str, timeout_s: float) -> None:
        """Calls a method of the Java client, and waits at most `timeout_s` seconds for its end. If an earlier call of
        the same method has not ended, waits for this one. Raises KafkaException."""
        if self._pending is None or self._pending[0] != method:
            self._pending = method, next(self._calls)
            self._jvm.write(b"C" + struct.pack(">i", self._pending[1]) + text(method))
        number, end = self._pending[1], time.monotonic() + timeout_s
        while number not in self._answers:
            self.poll(_LOOK_S)
            if time.monotonic() > end and number not in self._answers:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{method} has not ended", retriable=True))
        self._pending = None
        kind, _, said = self._answers.pop(number).partition(" ")
        if kind == "error":
            code, types, message = said.split(" ", 2)
            raise errors.of_call(method, types.split(","), int(code), message)

    def close(self) -> None:
        self._is_closed = True
        self._jvm.close()


def require_java(spec: ProducerSpec) -> tuple[dict[str, str], list[str]]:
    """Returns the properties of the producer that `spec` describes, and the command that starts its JVM. Fetches
    missing jars.

    Raises BadInput if a setting cannot be translated, JavaError if there is no usable Java, and JarError if the client
    cannot be had in this version.
    """
    properties = settings.properties(spec.settings, spec.java_properties, spec.payload_bytes, spec.deadline_s)
    return properties, command(PROGRAM, spec.client_version or CLIENTS["java"].default, _heap_mb(properties))


def _heap_mb(properties: dict[str, str]) -> int:
    """Returns the size of the heap: the client keeps each record in its buffer, and some objects beside it."""
    return HEAP_MB + 3 * int(properties.get("buffer.memory", settings.BUFFER_BYTES)) // (1 << 20)


def _unknown(line: str) -> ClientDied:
    return ClientDied(f"the JVM of this producer has answered {line[:200]!r}, which it never does")
