"""Tests of transforms: what a member writes to its output topic, when it commits, what an aborted transaction leaves,
and how the effects are read back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from msgspec.structs import replace
from support.evidence import RUN
from support.mock_broker import MockBroker
from support.patience import PATIENCE_S

from delivery_verifier.applications import process
from delivery_verifier.applications.control import Control, State, Word
from delivery_verifier.applications.incarnations import IncarnationEnd, last_markers, write_end
from delivery_verifier.applications.journal import read_journal
from delivery_verifier.applications.output import Output, OutputFailed, origin_of
from delivery_verifier.applications.output_topic import OutputTopic
from delivery_verifier.applications.parking import POINTS
from delivery_verifier.applications.sink import SinkInputs
from delivery_verifier.applications.spec import MemberSpec, incarnation_folder
from delivery_verifier.applications.transform import Transform
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.application import ASSIGNED, CrashPoint, Discipline, output_topic
from delivery_verifier.model.data import dumps
from delivery_verifier.model.scenario import Arm

TOKEN, ARM = "abcdefgh", 3
Did = list[tuple[Any, ...]]


def value_of(offset: int, producer: int = 0) -> bytes:
    return record.encode(TOKEN, ARM, producer, 0, offset, 0, offset, 100)


def message(offset: int, producer: int = 0) -> Any:
    return SimpleNamespace(
        error=lambda: None, partition=lambda: 0, offset=lambda: offset, value=lambda: value_of(offset, producer)
    )


def error_of(code: int, **kind: bool) -> KafkaException:
    return KafkaException(KafkaError(code, "as asked", **kind))


UNKNOWN_MEMBER = error_of(KafkaError.UNKNOWN_MEMBER_ID, txn_requires_abort=True)
LATER = error_of(KafkaError._TIMED_OUT, retriable=True)
FENCED = error_of(KafkaError._FENCED, fatal=True)
FATAL = error_of(KafkaError._FATAL, fatal=True)


class Client:
    """A consumer and a producer at once. `did` lists what it was asked for. It hands over `messages`, and then calls
    `when_empty`. `refusals` maps a call to the errors with which its next answers come."""

    def __init__(self, messages: list[Any], when_empty: Callable[[], object]) -> None:
        self.messages, self.when_empty, self.did = messages, when_empty, Did()
        self.refusals: dict[str, list[KafkaException]] = {}
        self.failed: KafkaError | None = None
        self.unknown: KafkaError | None = None
        self.callbacks: dict[str, Any] = {}

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.did.append(("subscribe", *topics))
        self.callbacks = callbacks
        callbacks["on_assign"](self, [TopicPartition(topics[0], 0)])

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=self.unknown, partitions={0: None, 1: None})})

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert {partition.offset for partition in partitions} == {OFFSET_INVALID}, "the client asks for the committed"
        self.did.append(("assign", *(partition.partition for partition in partitions)))

    def consume(self, most: int, timeout: float) -> list[Any]:
        if not self.messages:
            self.when_empty()
        now, self.messages = self.messages[:most], self.messages[most:]
        return now

    def _call(self, name: str, *more: Any) -> None:
        self.did.append((name, *more))
        if self.refusals.get(name):
            raise self.refusals[name].pop(0)

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        self._call("commit", *(offset.offset for offset in offsets))
        return []

    def seek(self, partition: TopicPartition) -> None:
        self.did.append(("seek", partition.offset))

    def close(self) -> None:
        self.did.append(("close",))

    def consumer_group_metadata(self) -> str:
        return "the-group"

    def produce(self, topic: str, value: bytes, partition: int, headers: Any, on_delivery: Any) -> None:
        sent = SimpleNamespace(headers=lambda: headers, topic=lambda: topic, partition=lambda: partition)
        self.did.append(("write", origin_of(cast(Any, sent)).offset))
        assert topic == "the-topic-out"
        on_delivery(self.failed, None)

    def flush(self, timeout: float) -> int:
        self.did.append(("flush",))
        return 0

    def init_transactions(self, timeout: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: str, timeout: float) -> None:
        assert group == "the-group"
        self._call("offsets", *(offset.offset for offset in offsets))

    def commit_transaction(self, timeout: float) -> None:
        self._call("end")

    def abort_transaction(self, timeout: float) -> None:
        self._call("abort")


def spec_of(folder: Path, discipline: Discipline) -> MemberSpec:
    spec = MemberSpec(
        folder=str(folder / "1"),
        incarnation=0,
        connection={},
        settings={},
        topic="the-topic",
        run_token=TOKEN,
        arm=ARM,
        discipline=discipline,
        batch=2,
    )
    incarnation_folder(spec).mkdir(parents=True)
    return spec


def member_of(spec: MemberSpec, messages: list[Any]) -> tuple[Transform, Client]:
    client = Client(messages, lambda: member.stop())
    member = Transform(spec, cast(Consumer, client), cast(Producer, client))
    return member, client


WRITTEN: Did = [("write", 0), ("write", 1), ("flush",)]
WORK: dict[Discipline, Did] = {
    "transform_first": [("subscribe", "the-topic"), ("commit", 2), *WRITTEN],
    "transform": [("subscribe", "the-topic"), *WRITTEN, ("commit", 2)],
    "transform_transactional": [
        ("init",),
        ("subscribe", "the-topic"),
        ("begin",),
        *WRITTEN,
        ("offsets", 2),
        ("end",),
    ],
}
WORK |= {
    each: [("assign", 0, 1) if did == ("subscribe", "the-topic") else did for did in WORK["transform_transactional"]]
    for each in ASSIGNED
}


@pytest.mark.parametrize("discipline", WORK)
def test_each_transform_lets_go_of_a_batch_when_its_name_says(discipline: Discipline, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, discipline)
    member, client = member_of(spec, [message(0), message(1, record.MARKER_PRODUCER)])
    member.run()
    assert client.did == [*WORK[discipline], ("close",)]
    words = (Word.STATE, Word.HANDED_OVER, Word.APPLIED, Word.COMMITTED, Word.MARKERS)
    assert [member.control[word] for word in words] == [State.CLOSED, 2, 2, 2, 1]
    assert last_markers(incarnation_folder(spec)) == {0: 1}
    assert ("committed", 2) in [(event.what, event.until) for event in read_journal(incarnation_folder(spec))]


@pytest.mark.parametrize("call", ["offsets", "end"])
def test_nothing_of_an_aborted_transaction_is_applied_and_the_batch_is_asked_for_again(
    call: str, tmp_path: Path
) -> None:
    """The group gave the partition to another member: that is what fences a member that stood still (KIP-447)."""
    spec = spec_of(tmp_path, "transform_transactional")
    member, client = member_of(spec, [message(0), message(1)])
    client.refusals = {call: [LATER, UNKNOWN_MEMBER], "abort": [LATER]}
    member.run()
    assert client.did[-4:] == [("abort",), ("abort",), ("seek", 0), ("close",)]
    words = (Word.HANDED_OVER, Word.APPLIED, Word.COMMITTED, Word.PARKED, Word.REFUSALS)
    assert [member.control[word] for word in words] == [0, 0, 0, 0, 1]
    journal = read_journal(incarnation_folder(spec))
    assert [event.answer for event in journal if event.what in ("aborted", "committed")] == ["UNKNOWN_MEMBER_ID"]


@pytest.mark.parametrize(("error", "code", "said"), [(FENCED, 6, ["_FENCED"]), (FATAL, 3, [])])
def test_a_fenced_member_ends_and_says_so(
    error: KafkaException, code: int, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(tmp_path, "transform_fenced")
    member, client = member_of(spec, [message(0), message(1)])
    client.refusals = {"offsets": [error]}
    monkeypatch.setattr(process, "consumer_of", lambda spec: client)
    monkeypatch.setattr(process.signal, "signal", lambda *_: None)
    monkeypatch.setitem(process.MEMBERS, "transform_fenced", lambda *_: member)
    (tmp_path / "spec.json").write_bytes(dumps(spec))
    monkeypatch.setattr(process.sys, "argv", ["member", str(tmp_path / "spec.json")])
    assert process.main() == code
    assert member.control[Word.APPLIED] == 0
    assert [event.answer for event in read_journal(incarnation_folder(spec)) if event.what == "fenced"] == said


def test_a_member_that_assigns_partitions_needs_to_know_them(tmp_path: Path) -> None:
    member, client = member_of(spec_of(tmp_path, "transform_assigned"), [message(0)])
    client.unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(KafkaException):
        member.run()


@pytest.mark.parametrize("discipline", WORK)
def test_a_record_that_was_not_acknowledged_is_no_effect(discipline: Discipline, tmp_path: Path) -> None:
    member, client = member_of(spec_of(tmp_path, discipline), [message(0), message(1)])
    client.failed = KafkaError(KafkaError._MSG_TIMED_OUT)
    with pytest.raises(OutputFailed, match="_MSG_TIMED_OUT"):
        member.run()
    assert member.control[Word.APPLIED] == 0 and ("commit", 2) not in client.did[3:] and ("end",) not in client.did


def order(control: Control, point: CrashPoint) -> None:
    control[Word.PARK_AT], control[Word.PARK_BATCH], control[Word.PARK_RECORD] = POINTS.index(point) + 1, 1, 1
    control[Word.PARKS] += 1


STANDS: dict[CrashPoint, dict[Discipline, int]] = {
    "polled": {"transform_first": 1, "transform": 1, "transform_transactional": 2},
    "committed_first": {"transform_first": 2, "transform": 1, "transform_transactional": 2},
    "applied": {"transform_first": 3, "transform": 2, "transform_transactional": 4},
    "produced": {"transform_first": 5, "transform": 4, "transform_transactional": 6},
    "offsets_sent": {"transform_first": 5, "transform": 4, "transform_transactional": 7},
    "ending": {"transform_first": 5, "transform": 4},
    "committed": {"transform_first": 5, "transform": 5, "transform_transactional": 8},
}
"""Maps a crash point and a discipline to the number of calls in WORK that were made when the member stands there."""


@pytest.mark.parametrize(("point", "discipline"), [(point, each) for point, most in STANDS.items() for each in most])
def test_a_transform_parks_where_it_is_told(point: CrashPoint, discipline: Discipline, tmp_path: Path) -> None:
    member, client = member_of(spec_of(tmp_path, discipline), [message(0), message(1)])
    order(member.control, point)
    thread = threading.Thread(target=member.run)
    thread.start()
    try:
        wait_until(lambda: member.control[Word.PARKED] == 1, "the member to park", PATIENCE_S)
        assert client.did == WORK[discipline][: STANDS[point][discipline]]
    finally:
        member.stop()
        thread.join(PATIENCE_S)
    assert member.control[Word.PARKED] == 0 and client.did == [*WORK[discipline], ("close",)]


def test_a_member_counts_as_parked_only_while_it_waits_for_the_end_of_its_transaction(tmp_path: Path) -> None:
    member, client = member_of(spec_of(tmp_path, "transform_transactional"), [message(0), message(1)])
    order(member.control, "ending")
    seen = list[int]()
    ended = client.commit_transaction

    def commit(timeout: float) -> None:
        seen.append(member.control[Word.PARKED])
        ended(timeout)

    client.commit_transaction = commit  # type: ignore[method-assign]
    member.run()
    assert seen == [1] and member.control[Word.PARKED] == 0


def arm_of() -> Arm:
    return replace(RUN.subjects[0], application=APPLICATIONS["transform"], ordinal=ARM, topic_name="the-topic")


@pytest.mark.parametrize(("applied", "killed", "visible"), [(3, False, 3), (2, False, 3), (2, True, 3), (3, False, 4)])
def test_the_records_of_the_output_topic_are_the_effects(
    applied: int, killed: bool, visible: int, tmp_path: Path
) -> None:
    """The member wrote three records. `applied` of them it counted itself, and the brokers count `visible` in all."""
    broker = MockBroker()
    output = Output(Producer(broker.connection), "the-topic-out", member=0, incarnation=0)
    for offset in (7, 8, 7):
        output.write(0, offset, 1, value_of(offset))
    output.flush()
    folder = tmp_path / "0" / "0"
    folder.mkdir(parents=True)
    write_end(folder, IncarnationEnd(applied=applied, exit_code=0, killed=killed))
    inputs = SinkInputs(arm_of(), tmp_path, 2, TOKEN, broker.connection, lambda topic: visible)
    (incarnation,) = OutputTopic().read(inputs)
    assert (incarnation.rows["offset"].tolist(), incarnation.rows["sequence"].tolist()) == ([7, 8, 7], [7, 8, 7])
    assert (
        incarnation.rows["order"].tolist() == [0, 1, 2]
        and set(incarnation.rows["flags"]) == {3}
        and set(incarnation.rows["batch"]) == {1}
    )
    assert (incarnation.counted == len(incarnation.rows)) == ((applied == 3 or killed) and visible == 3)


def test_a_record_of_nobody_in_the_output_topic_ends_the_run(tmp_path: Path) -> None:
    broker = MockBroker()
    broker.write(output_topic("the-topic"), [b"strange"])
    inputs = SinkInputs(arm_of(), tmp_path, 2, TOKEN, broker.connection, lambda topic: 1)
    with pytest.raises(OutputFailed, match="no member wrote the record at the-topic-out/0:0"):
        list(OutputTopic().read(inputs))
    output = Output(Producer(broker.connection), "other-out", member=5, incarnation=0)
    output.write(0, 0, 0, b"")
    output.flush()
    other = msgspec.structs.replace(arm_of(), topic_name="other")
    with pytest.raises(OutputFailed, match=r"incarnations that nobody began: \[\(5, 0\)\]"):
        list(OutputTopic().read(inputs._replace(arm=other)))
