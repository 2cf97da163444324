"""The heartbeats of the observer, which records the changes in the cluster.

A heartbeat is an entry in the observer's file. It proves that the observer saw the cluster at the time of the entry.
"""

from __future__ import annotations

from delivery_verifier.model.history import HEARTBEAT_US, Observation


class Heartbeat:
    """Decides when the observer records a heartbeat. The observer sees the cluster more often than it records
    heartbeats.

    Only one thread at a time may use this object.
    """

    def __init__(self) -> None:
        self._seen_us: int | None = None
        self._beat_us = 0
        self._pause_us = 0

    def beat(self, at_us: int) -> Observation | None:
        """Notes that the observer saw the cluster at `at_us` (µs since the epoch). Returns the heartbeat to record, or
        None if no heartbeat is due.

        A heartbeat is due in three cases:

        * This is the first call.
        * HEARTBEAT_US µs have passed since the last heartbeat.
        * The clock was set back.
        """
        pause_us = 0 if self._seen_us is None else at_us - self._seen_us
        self._pause_us = pause_us if pause_us < 0 else max(self._pause_us, pause_us)
        first, self._seen_us = self._seen_us is None, at_us
        if not first and pause_us >= 0 and at_us - self._beat_us < HEARTBEAT_US:
            return None
        heartbeat = Observation(at_us=at_us, kind="heartbeat", pause_us=self._pause_us)
        self._beat_us, self._pause_us = at_us, 0
        return heartbeat
