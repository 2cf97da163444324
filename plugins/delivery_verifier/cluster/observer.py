"""The observer: records every change of leadership, of an ISR, and of the state of a node's process.

The observer does not use the fault plan, and records a change whatever caused the change. So its record can prove that
a fault took effect, and that nothing else happened.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from delivery_verifier.cluster.backend import BrokerRequests
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.model.history import Observation, now_us

EVERY_S = 0.1
"""Seconds between two polls of the partitions."""


class Observer:
    """Appends each change as an `Observation` to `file`, one JSON object per line. A thread of the observer polls the
    partitions of the watched topics. The caller reports the states of the processes with the method `process`."""

    def __init__(self, requests: BrokerRequests, brokers: Sequence[int], file: Path) -> None:
        self._requests, self._brokers, self._file = requests, brokers, file
        self._topics: list[str] = []
        self._partitions: dict[tuple[str, int], PartitionState] = {}
        self._processes: dict[int, str] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="observer", daemon=True)

    def start(self) -> None:
        """Starts the thread that polls."""
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread that polls."""
        self._done.set()
        self._thread.join(timeout=5)

    def watch(self, topics: list[str]) -> None:
        """Makes the observer poll the partitions of `topics`, too."""
        with self._lock:
            self._topics = sorted({*self._topics, *topics})

    def process(self, broker: int, state: str, exit_code: int | None = None) -> None:
        """Records the state of a node's process if the state has changed. `broker`: the node's id. `state`: running,
        frozen or exited. `exit_code`: the exit code of a process that has exited."""
        if self._processes.get(broker) != state:
            self._processes[broker] = state
            self._write(Observation(at_us=now_us(), kind="process", broker=broker, state=state, exit_code=exit_code))

    def _poll(self) -> None:
        while not self._done.wait(EVERY_S):
            with self._lock:
                topics = self._topics
            if topics:
                self._look(topics)

    def _look(self, topics: list[str]) -> None:
        """Asks every running broker for the state of the partitions, and records what is new. One broker is not enough,
        because a broker that was cut off or frozen may report an old state."""
        views = []
        for broker in self._brokers:
            if self._processes.get(broker) != "running":
                continue
            try:
                views.append(self._requests.describe_partitions(broker, topics))
            except (OSError, IndexError, ValueError):
                continue
        for key, state in newest(views).items():
            self._note(key, state)

    def _note(self, key: tuple[str, int], state: PartitionState) -> None:
        """Records the state of a partition if the state differs from the last recorded state. Ignores a state with an
        earlier leader epoch, and a state with an error code. The error code 5 is not ignored: it says that the
        partition has no leader now."""
        before = self._partitions.get(key)
        if state.error not in (0, 5) or (before and state.leader_epoch < before.leader_epoch):  # 5: no leader now
            return
        if before and _observed_fields(before) == _observed_fields(state):
            return
        self._partitions[key] = state
        topic, partition = key
        self._write(
            Observation(
                at_us=now_us(),
                kind="partition",
                topic=topic,
                partition=partition,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                elr=list(state.elr),
            )
        )

    def _write(self, observation: Observation) -> None:
        with self._lock, self._file.open("ab") as out:
            out.write(msgspec.json.encode(observation) + b"\n")


def _observed_fields(state: PartitionState) -> tuple[object, ...]:
    return state.leader, state.leader_epoch, state.isr, state.elr


View = dict[tuple[str, int], PartitionState]
"""The state of partitions as one broker reports it, by (topic, partition)."""


def newest(views: Iterable[View]) -> View:
    """Returns, for each partition, the state with the highest leader epoch. If several states have this epoch, returns
    the state that most brokers report.

    A broker that is cut off from the controller still reports the last state that it received. A broker that was frozen
    until now also reports an old state.
    """
    states_of: dict[tuple[str, int], list[PartitionState]] = {}
    for view in views:
        for key, state in view.items():
            states_of.setdefault(key, []).append(state)
    return {
        key: max(states, key=lambda state: (state.leader_epoch, states.count(state)))
        for key, states in states_of.items()
    }
