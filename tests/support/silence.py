"""How long a cluster agent did not answer. The cluster agent does not answer while the host stalls, or while its
processes starve."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delivery_verifier.cluster import lease

ASKED_EVERY_S = 0.05


class Silence:
    """`longest_s`: the longest time so far between two answers of a cluster agent, in seconds."""

    def __init__(self, socket: Path) -> None:
        self.longest_s, self._socket, self._done = 0.0, socket, threading.Event()

    def listen(self) -> None:
        """Asks the cluster agent until `end` is called."""
        answered_s = time.monotonic()
        while not self._done.wait(ASKED_EVERY_S):
            lease.call(self._socket, "status")
            before_s, answered_s = answered_s, time.monotonic()
            self.longest_s = max(self.longest_s, answered_s - before_s)

    def end(self) -> None:
        """Makes `listen` return."""
        self._done.set()


@contextmanager
def listened(socket: Path) -> Iterator[Silence]:
    """Yields the silence of the cluster agent at `socket`. It is measured while the block runs, and final after the
    block."""
    silence = Silence(socket)
    thread = threading.Thread(target=silence.listen)
    thread.start()
    try:
        yield silence
    finally:
        silence.end()
        thread.join()
