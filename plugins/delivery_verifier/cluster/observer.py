"""The observer: records the changes that it sees in leaders, in ISRs, and in the states of the nodes' processes. Also
records how far the log of each new leader reached.

The observer does not know the fault plan, and records every change, whatever caused the change. So the observer's
record can prove that a fault took effect, and that nothing else happened.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from delivery_verifier.cluster.heartbeat import Heartbeat
from delivery_verifier.cluster.leaders import Leaders, ask
from delivery_verifier.cluster.protocol.requests import BrokerRequests, PartitionState
from delivery_verifier.cluster.views import View, newest
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.history import Observation, now_us

OBSERVATIONS = "observations.jsonl"
"""The name of the observer's file in the workspace of a cluster."""
EVERY_S = 0.1
"""Seconds between an answer of a broker and the next question to this broker."""
READABLE = (0, 5)
"""Error codes of a partition with a readable state. 0: no error. 5: the partition has no leader now."""
VIEW_S = 0.5
"""Seconds for which a broker's last answer counts while the observer waits for the next answer of this broker."""


class _Answer(NamedTuple):
    """The last answer of one broker.

    * `view`: the states of partitions, as the broker reported them. None if the broker reported no states.
    * `serves`: whether the broker may serve clients: its process runs, and its port does not refuse connections.
    * `at_s`: the time of the answer on the monotonic clock.
    * `state`: whether the broker answered, as an observation of the kind `answers` says it. Empty if it was not asked.
    * `asked_us`: when it was asked (µs since the epoch).
    """

    view: View | None
    serves: bool
    at_s: float
    state: str = ""
    asked_us: int = 0


class Observer:
    """Appends each change in the cluster to `file`, as an `Observation`: one JSON object per line, in the order in
    which the observer saw the changes.

    Polls the partitions of the watched topics. Each broker has a thread of its own, so that a silent broker delays no
    other. A thread asks again once the last request was answered or timed out. The caller reports the states of the
    processes with the method `process`, and a broker whose process does not run is not asked. If nobody knows the
    processes, `sees_processes` is false, every broker is asked, and it is recorded whether each answers.
    """

    def __init__(
        self, requests: BrokerRequests, brokers: Sequence[int], file: Path, *, sees_processes: bool = True
    ) -> None:
        self._requests, self._file, self._brokers = requests, file, frozenset(brokers)
        self._sees_processes = sees_processes
        self._topics: list[str] = []
        self._answers: dict[int, _Answer] = {}
        self._believed: dict[int, View] = {}
        self._outdated: set[int] = set()
        self._partitions: dict[tuple[str, int], PartitionState] = {}
        self._recorded_s: dict[tuple[str, int], float] = {}
        self._leaders = Leaders()
        self._processes: dict[int, str] = {}
        self._answering: dict[int, str] = {}
        self._answered_us: dict[int, int] = {}
        self._heartbeat = Heartbeat()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._poll, args=(broker,), name=f"observer of {broker}", daemon=True)
            for broker in brokers
        ]

    def start(self) -> None:
        """Makes the file, and starts the threads that poll."""
        self._file.touch()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stops the threads that poll."""
        self._done.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def watch(self, topics: list[str]) -> None:
        """Makes the observer poll `topics`, which need not exist yet, and no others. Without topics, the observer asks
        no broker, and records no heartbeat."""
        with self._lock:
            self._topics = sorted(topics)

    @property
    def topics(self) -> list[str]:
        """The topics that are watched."""
        with self._lock:
            return list(self._topics)

    def record(self, observation: Observation) -> None:
        """Records what somebody else saw, with the present time."""
        with self._lock:
            self._write(replace(observation, at_us=now_us()))

    def process(self, broker: int, state: str, exit_code: int | None = None) -> None:
        """Records the state of a node's process if the state has changed.

        `broker` is the id of the node, which may also be a controller. `state` is running, frozen or exited.
        `exit_code` is the exit code of a process that has exited.
        """
        if self._processes.get(broker) == state:
            return
        with self._lock:
            self._processes[broker] = state
            self._write(Observation(at_us=now_us(), kind="process", broker=broker, state=state, exit_code=exit_code))

    def _poll(self, broker: int) -> None:
        while not self._done.wait(EVERY_S):
            with self._lock:
                topics = self._topics
            if topics:
                answer = self._ask(broker, topics)
                with self._lock:
                    self._take(broker, answer)
                with suppress(VerifierError):  # e.g. a right that is missing: then nobody says how far the log reached
                    self._ask_leader(broker)

    def _ask(self, broker: int, topics: list[str]) -> _Answer:
        """Asks one broker for the states of `topics`. The answer of a process that does not run has no view."""
        view, serves, state, asked_us = None, self._may_run(broker), "", now_us()
        if serves:
            try:
                view, state = self._requests.describe_partitions(broker, topics), "answers"
            except ConnectionRefusedError:  # the broker is booting, or about to exit
                serves, state = False, "refuses"
            except (ConnectionError, ssl.SSLZeroReturnError, ssl.SSLEOFError):
                state = "refuses"
            except OSError:
                state = "silent"
            except (IndexError, ValueError, VerifierError):  # e.g. a right that is missing: nothing is seen
                state = "answers"
        return _Answer(view, serves, time.monotonic(), state, asked_us)

    def _may_run(self, broker: int) -> bool:
        return not self._sees_processes or self._processes.get(broker) == "running"

    def _ask_leader(self, broker: int) -> None:
        """Records what `broker` says of its elections (see `cluster.leaders`). If it is silent, it is asked again."""
        with self._lock:
            due = self._leaders.due(broker)
        if any(due) and self._may_run(broker):
            with suppress(OSError):
                answers = ask(self._requests, broker, due)
                with self._lock:
                    for answer in answers:
                        self._leaders.answered(answer)
                        self._write(replace(answer, at_us=now_us()))

    def _take(self, broker: int, answer: _Answer) -> None:
        """Stores `answer`, the new answer of `broker`, and records the state of each partition whose state has changed.

        Compares the last answers of all brokers, because one answer proves nothing: a broker that was cut off, or has
        just woken up, may report an old state. Also records a heartbeat if the cluster was seen and a heartbeat is due.
        """
        self._answers[broker] = answer
        self._note_answer(broker, answer)
        views = {
            other: known.view
            for other, known in self._answers.items()
            if known.view is not None and answer.at_s - known.at_s <= VIEW_S
        }
        current = {other: self._without_past(view, self._answers[other].at_s) for other, view in views.items()}
        if current != self._believed:
            self._believed = current
            for key, state in newest(current).items():
                by_leader = current.get(state.leader, {}).get(key) == state
                self._note(key, state, by_leader=by_leader, at_s=answer.at_s)
            self._outdated = {other for other, view in views.items() if not self._is_recorded(view)}
        if self._is_seen(views):
            heartbeat = self._heartbeat.beat(now_us())
            if heartbeat is not None:
                self._write(heartbeat)

    def _note_answer(self, broker: int, answer: _Answer) -> None:
        """Records whether `broker` answers, if this has changed, and if nobody tells the states of processes."""
        if self._sees_processes:
            return
        if self._answering.get(broker) != answer.state:
            self._answering[broker], at_us = answer.state, now_us()
            pause_us = max(0, at_us - self._answered_us.get(broker, at_us))
            self._write(Observation(at_us=at_us, kind="answers", broker=broker, state=answer.state, pause_us=pause_us))
        if answer.state == "answers":
            self._answered_us[broker] = answer.asked_us

    def _is_seen(self, views: Mapping[int, View]) -> bool:
        """Returns whether the last answers show the cluster as it is. `views` are the last answers that still count.

        The cluster is seen if at least half of the relevant brokers have answered. A broker is not relevant in two
        cases:

        * The broker's process does not run, or refuses connections.
        * The broker's answer differs from the recorded states. Then the answer is outdated, or the partition's leader
          has not confirmed the answer.

        If no broker is relevant, the result depends on the reason. If an answer differs from the recorded states, the
        cluster is not seen. If no broker serves clients, the cluster is seen, because no client can see another state.
        """
        refusing = {broker for broker, known in self._answers.items() if not known.serves}
        current = self._brokers - refusing - self._outdated
        return 2 * len(current & views.keys()) >= len(current) if current else not self._outdated

    def _without_past(self, view: View, at_s: float) -> View:
        """Returns `view`, which a broker reported at `at_s`, without outdated states.

        A state in `view` is outdated if the observer has recorded a different state of the same partition in the same
        leader epoch, and this recorded state was reported after `at_s`. Without this check, an outdated state would
        count again once the leader no longer answers.
        """
        return {
            key: state
            for key, state in view.items()
            if key not in self._partitions
            or at_s >= self._recorded_s[key]
            or state.leader_epoch != self._partitions[key].leader_epoch
            or _observed_fields(state) == _observed_fields(self._partitions[key])
        }

    def _is_recorded(self, view: View) -> bool:
        """Returns whether the states in `view` are the recorded ones. Ignores those with an unreadable error code."""
        return all(
            key in self._partitions and _observed_fields(state) == _observed_fields(self._partitions[key])
            for key, state in view.items()
            if state.error in READABLE
        )

    def _note(self, key: tuple[str, int], state: PartitionState, *, by_leader: bool, at_s: float) -> None:
        """Records the state of a partition if the state differs from the last recorded state.

        `by_leader` says whether the partition's leader itself reports the state. `at_s` is the time of the newest
        answer. Ignores these states:

        * a state with an error code that is not in READABLE
        * a state with a lower leader epoch than the recorded state
        * a state with the same leader epoch as the recorded state and additional brokers in the ISR, if another broker
          than the leader reports the state

        The last rule has a reason: only the leader adds brokers to the ISR (KIP-497). A broker that was cut off may
        report an old ISR. But any broker's report that a broker has left the ISR is believed.
        """
        before = self._partitions.get(key)
        if state.error not in READABLE or (before and state.leader_epoch < before.leader_epoch):
            return
        if before and _observed_fields(before) == _observed_fields(state):
            return
        if before and not by_leader and state.leader_epoch == before.leader_epoch and set(state.isr) - set(before.isr):
            return
        self._partitions[key], self._recorded_s[key] = state, at_s
        self._leaders.note(key, state)
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
                replicas=list(state.replicas),
            )
        )

    def _write(self, observation: Observation) -> None:
        """Appends one observation to the file. The caller must take `self._lock` before it reads the clock for it:
        otherwise the times in the file could decrease, even if nobody sets the clock back."""
        with self._file.open("ab") as out:
            out.write(msgspec.json.encode(observation) + b"\n")


def _observed_fields(state: PartitionState) -> tuple[object, ...]:
    return state.leader, state.leader_epoch, state.isr, state.elr, state.replicas
