"""A JVM with the Java client, the child of a producer or of a member: how it is started, spoken to and ended.

The JVM dies with its parent process: the kernel sends it SIGKILL then. The file IDENTITY in the parent's folder says
which process it is, so that whoever ends or freezes the parent does it to the JVM, too (see `await_end`, `jvm_of`).
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from delivery_verifier.host.java.jars import java_client_jars
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.processes import ProcessId, dies_with_parent, how_it_ended, identify, process_of
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import VerifierError

IDENTITY = "jvm"
"""The file in the folder of a producer or member that identifies its latest JVM (see `processes.ProcessId`)."""
END_S = 10.0
"""The longest time, in seconds, in which a JVM must be gone after SIGKILL."""
_PIPE_BYTES = 1 << 20
_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables that give options to every JVM: e.g. a heap dump of this one would hold passwords."""
_LOOK_MS = 50
"""How often a wait for a pipe looks whether the JVM lives, in ms."""


class ClientDied(VerifierError, RuntimeError):
    """The JVM of a producer or member ended by itself, or takes nothing more. No report of it may be missed, so its
    parent ends, and the run with it."""


def command(program: Path, version: str, heap_mb: int) -> list[str]:
    """Returns the command that starts a JVM with the Java client in `version`. `program` is the source of the program
    that it executes; its classes stand beside it.

    Fetches missing jars. Raises JavaError if there is no usable Java, and JarError if the jars cannot be had.
    """
    classpath = [str(program.parent), *map(str, java_client_jars(version))]
    return [
        str(java_home() / "bin/java"),
        *(f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
        *(
            "-XX:+ExitOnOutOfMemoryError",
            "-Xshare:auto",
            "-Xlog:disable",
            "-Xlog:all=error:stderr",
            "-XX:+DisplayVMOutputToStderr",
        ),
        *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", os.pathsep.join(classpath), program.stem),
    ]


def jvm_of(folder: Path) -> ProcessId | None:
    """Returns the latest JVM of the producer or member in `folder`, or None if it has none."""
    return process_of((folder / IDENTITY).read_text()) if (folder / IDENTITY).exists() else None


def await_end(folder: Path) -> None:
    """Makes sure that the latest JVM of the producer or member in `folder` is gone, and writes nothing more.

    Call it only after its parent process has ended. Does nothing if there is no JVM. Raises DeadlinePassed.
    """
    if (identity := jvm_of(folder)) is not None:
        identity.kill()
        wait_until(lambda: not identity.alive, f"the JVM of {folder} to be gone", END_S, every_s=0.002)


def packed(texts: Mapping[str, str]) -> bytes:
    """Returns the texts in the form in which a program in Java reads them."""
    return struct.pack(">i", len(texts)) + b"".join(text(name) + text(value) for name, value in texts.items())


def text(value: str) -> bytes:
    """Returns one text in the form in which a program in Java reads it."""
    content = value.encode()
    return struct.pack(">i", len(content)) + content


class Jvm:
    """A running JVM, started with `command`. Its parent, this process, is the producer or member with the folder
    `folder`; `whose` says which in messages. What the JVM says on stderr goes where this process's words go.

    `deadline_s`: the longest time, in seconds, for which the JVM may take nothing that it is given.
    """

    def __init__(self, folder: Path, command: list[str], deadline_s: float, whose: str) -> None:
        await_end(folder)  # of an earlier incarnation
        self._deadline_s, self._whose, self._read = deadline_s, whose, bytearray()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            preexec_fn=dies_with_parent(),
            env={name: value for name, value in os.environ.items() if name not in _OPTIONS},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        (folder / IDENTITY).write_text(str(identify(self._process.pid)))
        for end in (self._in, self._out):
            os.set_blocking(end, False)
        with suppress(OSError):  # an ordinary user may have no more large pipes
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def pid(self) -> int:
        """The pid of the JVM."""
        return self._process.pid

    def write(self, frame: bytes) -> None:
        """Gives `frame` to the JVM. Raises ClientDied if the JVM has ended, or takes nothing in time."""
        rest, end = memoryview(frame), time.monotonic() + self._deadline_s
        while rest:
            try:
                rest = rest[os.write(self._in, rest) :]
                end = time.monotonic() + self._deadline_s
            except BlockingIOError:
                self._require_time(end)
                self._wait(self._in, select.POLLOUT, _LOOK_MS)
            except BrokenPipeError:
                raise self._died() from None

    def lines(self, timeout_s: float) -> list[str]:
        """Returns the lines that the JVM has answered, after at most `timeout_s` seconds without one. Raises ClientDied
        if the JVM has ended."""
        self._receive(max(0, int(timeout_s * 1000)))
        *whole, self._read = self._read.split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def take(self, count: int) -> bytes:
        """Returns the next `count` bytes that the JVM answers, as soon as they are there. Raises ClientDied if the JVM
        ends before."""
        while len(self._read) < count:
            self._receive(None)
        taken = bytes(memoryview(self._read)[:count])
        del self._read[:count]
        return taken

    def _receive(self, timeout_ms: int | None) -> None:
        """Waits until the JVM answers something, at most `timeout_ms`. Raises ClientDied if the JVM has ended."""
        self._wait(self._out, select.POLLIN, timeout_ms)
        try:
            content = os.read(self._out, 65536)
        except BlockingIOError:
            return
        if not content:
            raise self._died()
        self._read += content

    def close(self) -> None:
        """Ends the JVM at once. Returns when it has ended."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    @staticmethod
    def _wait(file: int, event: int, timeout_ms: int | None) -> None:
        poll = select.poll()
        poll.register(file, event)
        poll.poll(timeout_ms)

    def _require_time(self, end: float) -> None:
        if time.monotonic() > end:
            raise ClientDied(f"the JVM of this {self._whose} has taken nothing for {self._deadline_s:g} s")

    def _died(self) -> ClientDied:
        with suppress(subprocess.TimeoutExpired):
            return ClientDied(f"the JVM of this {self._whose} ended with {how_it_ended(self._process.wait(END_S))}")
        return ClientDied(f"the JVM of this {self._whose} has closed its pipes")
