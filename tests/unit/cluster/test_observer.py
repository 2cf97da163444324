"""The observer: one broker's silence delays no other, and what is recorded is in order and proves that it looked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.patience import PATIENCE_S

from delivery_verifier.cluster import observer as observer_module
from delivery_verifier.cluster.heartbeat import Heartbeat
from delivery_verifier.cluster.observer import Observer
from delivery_verifier.cluster.protocol.authorization import NotAuthorized
from delivery_verifier.cluster.protocol.requests import EpochEnd, EpochQuestion, Partition, PartitionState
from delivery_verifier.cluster.views import View
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.history import HEARTBEAT_US, Observation

KEY = ("t", 0)


def state(leader: int, epoch: int, *isr: int) -> PartitionState:
    return PartitionState(leader, epoch, (1, 2, 3), isr, (), 0)


class Brokers:
    """Brokers that answer what a test says. A broker in `stuck` answers only once the test is over."""

    def __init__(self, *, state: PartitionState) -> None:
        self.views: dict[int, View | Exception] = {broker: {KEY: state} for broker in (1, 2, 3)}
        self.stuck: set[int] = set()
        self.over = threading.Event()
        self.asked: dict[int, int] = dict.fromkeys((1, 2, 3), 0)
        self.ends: list[EpochEnd | OSError] = []
        self.asked_as_former_leader: list[int] = []
        self.deposed: set[int] = set()
        self.under_way: dict[int, int] = dict.fromkeys((1, 2, 3), 0)
        self.most_under_way = 0

    def describe_partitions(self, broker: int, topics: list[str]) -> View:
        self.asked[broker] += 1
        self.under_way[broker] += 1
        self.most_under_way = max(self.most_under_way, *self.under_way.values())
        if broker in self.stuck:
            self.over.wait(PATIENCE_S)
        self.under_way[broker] -= 1
        view = self.views[broker]
        if isinstance(view, Exception):
            raise view
        return view

    def epoch_ends(self, broker: int, questions: Mapping[Partition, EpochQuestion]) -> dict[Partition, EpochEnd]:
        answer = self.ends.pop(0) if self.ends else OSError("silent")
        if isinstance(answer, OSError):
            raise answer
        return {key: answer for key, question in questions.items() if question.led == self._led(broker, key)}

    def not_leading(self, broker: int, led: Mapping[Partition, int]) -> set[Partition]:
        self.asked_as_former_leader.append(broker)
        return {*led} if broker in self.deposed else set()

    def _led(self, broker: int, key: Partition) -> int:
        view = self.views[broker]
        return -1 if isinstance(view, Exception) else view[key].leader_epoch


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    monkeypatch.setattr(observer_module, "EVERY_S", 0.005)
    brokers = Brokers(state=state(1, 0, 1, 2, 3))
    yield brokers
    brokers.over.set()


@pytest.fixture
def observing(brokers: Brokers, tmp_path: Path) -> Iterator[Observer]:
    observer = Observer(brokers, (1, 2, 3), tmp_path / "observations.jsonl")  # type: ignore[arg-type]
    for broker in (1, 2, 3):
        observer.process(broker, "running")
    observer.watch(["t"])
    yield observer
    brokers.over.set()
    observer.stop()


@pytest.fixture
def seen(tmp_path: Path) -> Callable[[str], list[Observation]]:
    """Returns all observations of one kind so far."""

    def of_kind(kind: str) -> list[Observation]:
        lines = (tmp_path / "observations.jsonl").read_bytes()
        whole = lines[: lines.rfind(b"\n") + 1]
        return [it for it in msgspec.json.Decoder(Observation).decode_lines(whole) if it.kind == kind]

    return of_kind


def until(predicate: Callable[[], Any], what: str) -> None:
    wait_until(lambda: bool(predicate()), what, PATIENCE_S)


def test_a_broker_that_does_not_answer_delays_no_other_and_gets_no_second_question(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    brokers.stuck.add(1)
    observing.start()
    until(lambda: min(brokers.asked[2], brokers.asked[3]) > 20, "two brokers to be asked while one is stuck")
    moved = state(2, 1, 2, 3)
    brokers.views[2] = brokers.views[3] = {KEY: moved}
    until(lambda: seen("partition")[-1].leader == 2, "the new leader to be recorded")
    assert (brokers.asked[1], brokers.most_under_way) == (1, 1)


def test_an_observer_that_watches_nothing_asks_nobody(brokers: Brokers, observing: Observer) -> None:
    class Turns(threading.Event):
        taken = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.taken += 1
            return super().wait(timeout)

    observing._done = turns = Turns()
    observing.start()
    until(lambda: min(brokers.asked.values()) > 2, "all brokers to be asked")
    observing.watch([])
    at_rest = turns.taken
    until(lambda: turns.taken > at_rest + 6, "a question that was under way to be over")
    asked, counted_from = dict(brokers.asked), turns.taken
    until(lambda: turns.taken > counted_from + 30, "each thread to take its turn again")
    assert dict(brokers.asked) == asked


def test_of_one_epoch_the_leaders_view_is_recorded_and_never_that_of_a_broker_that_is_cut_off(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    brokers.views = {1: {KEY: state(3, 5, 1, 2, 3)}, 2: {KEY: state(3, 5, 1, 2, 3)}, 3: {KEY: state(3, 5, 3)}}
    observing.start()
    until(lambda: seen("partition") and seen("partition")[-1].isr == [3], "the leader's ISR to be recorded")
    asked = min(brokers.asked.values())
    until(lambda: min(brokers.asked.values()) > asked + 20, "all brokers to be asked again")
    assert seen("partition")[-1].isr == [3]


def test_a_new_leader_is_asked_until_it_says_how_far_its_log_reached_and_then_no_more(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    observing.start()
    until(lambda: seen("partition"), "the first leader to be recorded")
    brokers.ends = [OSError("booting"), EpochEnd(0, 952), EpochEnd(0, 999)]
    brokers.views = {broker: {KEY: state(2, 1, 2, 3)} for broker in (1, 2, 3)}
    until(lambda: seen("epochs"), "the answer of the new leader")
    asked = min(brokers.asked.values())
    until(lambda: min(brokers.asked.values()) > asked + 20, "all brokers to be asked again")
    brokers.deposed = {1}
    until(lambda: seen("deposed"), "the former leader to know of it")
    asked = min(brokers.asked.values())
    until(lambda: min(brokers.asked.values()) > asked + 20, "all brokers to be asked again")
    (knows,), (answer,) = seen("deposed"), seen("epochs")
    assert (knows.broker, knows.leader_epoch, {*brokers.asked_as_former_leader}) == (1, 1, {1})
    assert (answer.leader, answer.leader_epoch, answer.epochs, answer.epoch_starts) == (2, 1, [0, 1], [0, 952])
    assert len(brokers.ends) == 1, "nobody asks a leader twice"
    kinds = [it.kind for it in (*seen("partition"), *seen("epochs"))]
    assert kinds == ["partition", "partition", "epochs"]


FULL, SHRUNK, ALONE = state(3, 5, 1, 2, 3), state(3, 5, 2, 3), state(3, 5, 3)


def looks(brokers: Brokers, observing: Observer) -> list[int]:
    """Returns the times at which the observer, from now on, claims to see the cluster; after two answers of each broker
    that answers, so that what was answered before does not count."""

    def asked(more: int) -> None:
        answering = [at for at in brokers.asked if at not in brokers.stuck]
        before = dict(brokers.asked)
        until(lambda: all(brokers.asked[at] >= before[at] + more for at in answering), "answers")

    wait_until(lambda: set(observing._believed) == {1, 2, 3} - brokers.stuck, "the last answers to lapse", PATIENCE_S)
    asked(3)
    seen: list[int] = []
    observing._heartbeat.beat = lambda at_us: seen.append(at_us)  # type: ignore[method-assign, assignment, func-returns-value]
    asked(10)
    return seen


def test_in_one_epoch_a_broker_that_is_cut_off_cannot_undo_what_the_leader_said_though_the_leader_falls_silent(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    brokers.views = {1: {KEY: FULL}, 2: {KEY: SHRUNK}, 3: {KEY: SHRUNK}}
    observing.start()
    until(lambda: seen("partition") and seen("partition")[-1].isr == [2, 3], "the leader's ISR to be recorded")
    brokers.stuck |= {2, 3}
    claimed = looks(brokers, observing)
    assert [it.isr for it in seen("partition")][-1] == [2, 3]
    assert claimed == [], "a broker that is cut off is no sight of the cluster"
    brokers.stuck.clear()
    brokers.over.set()
    brokers.views[2] = brokers.views[3] = {KEY: FULL}
    until(lambda: seen("partition")[-1].isr == [1, 2, 3], "the leader itself to say who joined")


def test_that_a_broker_left_the_isr_is_believed_without_the_leader_and_against_those_that_are_cut_off(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    brokers.views = {key: {KEY: FULL} for key in (1, 2, 3)}
    observing.start()
    until(lambda: seen("partition") and set(observing._believed) == {1, 2, 3}, "all to be recorded")
    brokers.stuck.add(3)
    brokers.views[2] = {KEY: SHRUNK}
    until(lambda: seen("partition")[-1].isr == [2, 3], "what the controller removed to be recorded")
    assert looks(brokers, observing), "half of those that may be current are enough"


def test_the_new_epochs_isr_is_recorded_whoever_reports_it(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    brokers.views = {key: {KEY: ALONE} for key in (1, 2, 3)}
    observing.start()
    until(lambda: seen("partition"), "the first state to be recorded")
    brokers.stuck.add(1)
    brokers.views[2] = {KEY: state(1, 6, 1, 2, 3)}
    until(lambda: seen("partition")[-1].isr == [1, 2, 3], "the new epoch to be recorded")


def test_a_single_broker_of_three_that_answers_may_be_the_one_that_is_cut_off(
    brokers: Brokers, observing: Observer
) -> None:
    observing.start()
    until(lambda: set(observing._believed) == {1, 2, 3}, "an answer of each")
    brokers.stuck |= {2, 3}
    assert looks(brokers, observing) == []


@pytest.mark.parametrize("refused", [True, False], ids=["nobody_listens", "silence"])
def test_the_observer_sees_a_cluster_that_serves_nobody_and_is_blind_to_one_that_is_silent(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]], refused: bool
) -> None:
    observing.start()
    until(lambda: seen("heartbeat"), "the first heartbeat")
    brokers.views = dict.fromkeys((1, 2, 3), ConnectionRefusedError() if refused else TimeoutError())
    asked = dict(brokers.asked)
    until(lambda: all(brokers.asked[at] > asked[at] + 2 for at in asked), "an answer of each")
    looks: list[int] = []
    observing._heartbeat.beat = lambda at_us: looks.append(at_us)  # type: ignore[method-assign, assignment, func-returns-value]
    asked = dict(brokers.asked)
    until(lambda: all(brokers.asked[at] > asked[at] + 5 for at in asked), "more answers")
    assert bool(looks) == refused


def test_brokers_whose_processes_have_ended_are_not_asked_and_the_cluster_is_seen_all_the_same(
    brokers: Brokers, observing: Observer
) -> None:
    for broker in (1, 2, 3):
        observing.process(broker, "exited", -9)
    looks: list[int] = []
    observing._heartbeat.beat = lambda at_us: looks.append(at_us)  # type: ignore[method-assign, assignment, func-returns-value]
    observing.start()
    until(lambda: looks, "a look at a cluster without processes")
    assert brokers.asked == {1: 0, 2: 0, 3: 0}


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ConnectionRefusedError(), "refuses"),
        (ConnectionResetError(), "refuses"),
        (ssl.SSLEOFError(), "refuses"),
        (TimeoutError(), "silent"),
        (OSError("no route"), "silent"),
        (NotAuthorized(29, "t", "Describe"), None),
    ],
)
def test_where_nobody_tells_the_states_of_processes_each_broker_that_begins_or_ceases_to_answer_is_recorded(
    brokers: Brokers, tmp_path: Path, seen: Callable[[str], list[Observation]], error: Exception, state: str | None
) -> None:
    observer = Observer(brokers, (1, 2, 3), tmp_path / "observations.jsonl", sees_processes=False)  # type: ignore[arg-type]
    observer.watch(["t"])
    observer.start()
    until(lambda: len(seen("answers")) == 3, "an answer of each")
    whole, brokers.views[2] = brokers.views[2], error
    asked = brokers.asked[2]
    until(lambda: brokers.asked[2] > asked + 5, "more questions")
    brokers.views[2] = whole
    asked = brokers.asked[2]
    until(lambda: brokers.asked[2] > asked + 5, "more questions")
    observer.stop()
    changes = seen("answers")[3:]
    assert [(it.broker, it.state) for it in changes] == ([] if state is None else [(2, state), (2, "answers")])
    assert all(it.pause_us > 0 for it in changes)


def test_where_processes_are_seen_nobody_asks_who_answers(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    observing.start()
    until(lambda: seen("heartbeat"), "the first heartbeat")
    assert seen("answers") == []


def test_an_error_that_is_no_answer_does_not_end_the_observer(
    brokers: Brokers, observing: Observer, seen: Callable[[str], list[Observation]]
) -> None:
    brokers.views = dict.fromkeys((1, 2, 3), ConnectionResetError())
    observing.start()
    until(lambda: brokers.asked[1] > 3, "questions that go unanswered")
    brokers.views = {broker: {KEY: state(1, 0, 1, 2, 3)} for broker in (1, 2, 3)}
    until(lambda: seen("partition"), "the partition to be recorded")


def test_the_times_in_the_file_never_decrease_though_several_threads_write(
    brokers: Brokers, observing: Observer, tmp_path: Path
) -> None:
    observing.start()
    for epoch in range(1, 200):
        brokers.views = {broker: {KEY: state(1, epoch, 1, 2, 3)} for broker in (1, 2, 3)}
        observing.process(1, ("frozen", "running")[epoch % 2])
    observing.stop()
    lines = (tmp_path / "observations.jsonl").read_bytes()
    times = [it.at_us for it in msgspec.json.Decoder(Observation).decode_lines(lines)]
    assert len(times) > 200
    assert all(before <= now for before, now in pairwise(times))


def beats(*looks_us: int) -> list[tuple[int, int]]:
    """The heartbeats (time, pause) that looks at these times give."""
    heartbeat = Heartbeat()
    return [(it.at_us, it.pause_us) for it in map(heartbeat.beat, looks_us) if it is not None]


def test_a_heartbeat_is_rare_and_names_the_longest_pause_since_the_one_before() -> None:
    looks = [at * 100_000 for at in range(100, 140)]
    assert len(beats(*looks)) == 4
    assert beats(0, 100_000, 700_000, 800_000, HEARTBEAT_US) == [(0, 0), (HEARTBEAT_US, 600_000)]
    assert beats(*range(0, 10 * HEARTBEAT_US, HEARTBEAT_US // 20)) == [
        (at * HEARTBEAT_US, HEARTBEAT_US // 20 if at else 0) for at in range(10)
    ]


def test_after_a_long_pause_the_heartbeat_comes_at_once() -> None:
    assert beats(0, 100_000, 1_700_000, 1_800_000) == [(0, 0), (1_700_000, 1_600_000)]


def test_a_clock_that_was_set_back_shows_in_the_heartbeat_even_by_less_than_a_heartbeats_time() -> None:
    assert beats(0, 800_000, 400_000, 500_000, 1_400_000) == [(0, 0), (400_000, -400_000), (1_400_000, 900_000)]


@pytest.mark.parametrize(
    ("answers", "recorded"),
    [
        ([(2, 10.2, 5, [1, 2, 3]), (3, 10.3, 5, [1, 2, 3]), (2, 10.4, 6, [2, 3])], [[2, 3]]),
        ([(3, 10.3, 5, [1, 2])], [[1, 2]]),
        ([(2, 10.3, 5, [1, 2])], [[1, 2]]),
    ],
    ids=["the_old_answer_alone", "the_same_again", "another"],
)
def test_an_answer_that_is_older_than_the_record_shrinks_no_isr_when_the_leader_falls_silent(
    brokers: Brokers,
    tmp_path: Path,
    seen: Callable[[str], list[Observation]],
    answers: list[tuple[int, float, int, list[int]]],
    recorded: list[list[int]],
) -> None:
    observer = Observer(brokers, (1, 2, 3), tmp_path / "observations.jsonl")  # type: ignore[arg-type]

    def take(broker: int, at_s: float, reported: PartitionState | None) -> None:
        view = None if reported is None else {KEY: reported}
        observer._take(broker, observer_module._Answer(view, reported is not None, at_s))

    for broker in (1, 2, 3):
        take(broker, 10.0, state(1, 5, 1, 2))
    for broker in (1, 2):  # 3 is back in the ISR, and slow to say so itself
        take(broker, 10.1, state(1, 5, 1, 2, 3))
    take(1, 10.2, None)  # the leader is killed
    for broker, at_s, epoch, isr in answers:
        take(broker, at_s, state(1 if epoch == 5 else 2, epoch, *isr))
    assert [it.isr for it in seen("partition")] == [[1, 2], [1, 2, 3], *recorded]
