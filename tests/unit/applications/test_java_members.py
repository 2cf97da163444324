"""Tests of the Java client of a member, on its side in Python: frames, settings, errors, and what is refused before
anything starts. tests/kafka/calm_cluster/test_java_members.py has the JVM on real brokers."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from msgspec.structs import replace
from support.consumers import spec_of

from delivery_verifier.applications import clients, commits
from delivery_verifier.applications.java import client, errors, settings
from delivery_verifier.applications.java.client import JavaConsumer, JavaProducer
from delivery_verifier.applications.java.errors import Thrown
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.host.java.jvm import ClientDied
from delivery_verifier.model.inputs import BadInput

KAFKA, ERRORS = "org.apache.kafka.common.KafkaException", "org.apache.kafka.common.errors"
COMMIT_FAILED = "org.apache.kafka.clients.consumer.CommitFailedException"

STAND_IN = """
import sys
replies = [bytes.fromhex(line) for line in open(sys.argv[1]).read().split("\\n") if line]
for reply in replies:
    sys.stdout.buffer.write(reply)
sys.stdout.buffer.flush()
open(sys.argv[2], "wb").write(sys.stdin.buffer.read())
"""


def done(content: bytes = b"") -> bytes:
    return b"D" + struct.pack(">i", len(content)) + content


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def failed(code: int, types: str, said: str) -> bytes:
    content = struct.pack(">i", code) + text(types) + text(said)
    return b"E" + struct.pack(">i", len(content)) + content


def event(name: str, *partitions: int) -> bytes:
    content = text(name) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return b"V" + struct.pack(">i", len(content)) + content


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that returns a consumer whose JVM is a stand-in with these answers, and a way to read what it was
    asked for once it has ended."""
    made = list[JavaConsumer]()

    def start(*replies: bytes) -> tuple[JavaConsumer, Any]:
        script, said = tmp_path / "replies", tmp_path / "asked"
        script.write_text("\n".join(reply.hex() for reply in replies))
        command = [sys.executable, "-c", STAND_IN, str(script), str(said)]
        monkeypatch.setattr(client, "require_java", lambda spec: ({"group.id": "g"}, {}, command))
        made.append(JavaConsumer(spec_of(tmp_path, "commit_after")))

        def asked() -> bytes:
            jvm: Any = made[-1].bridge._jvm
            jvm._process.stdin.close()
            jvm._process.wait(20)
            return said.read_bytes()

        return made[-1], asked

    yield start
    for each in made:
        each.bridge.close()


def test_a_batch_is_one_answer_and_each_record_keeps_its_place(answering: Any) -> None:
    records = struct.pack(">i", 2) + struct.pack(">iqi", 1, 7, 3) + b"abc" + struct.pack(">iqi", 0, 1 << 40, 0)
    consumer, asked = answering(done(), done(records))
    found = consumer.consume(10, 0.25)
    assert [(each.partition(), each.offset(), each.value(), each.error()) for each in found] == [
        (1, 7, b"abc", None),
        (0, 1 << 40, b"", None),
    ]
    assert asked().endswith(b"P" + struct.pack(">ii", 10, 250))


def test_an_event_is_dealt_with_before_the_answer_and_may_ask_something_itself(answering: Any) -> None:
    consumer, asked = answering(done(), done(), event("revoked", 0, 2), done(), done(struct.pack(">i", 0)))
    did = list[Any]()

    def on_revoke(of: JavaConsumer, partitions: list[TopicPartition]) -> None:
        did.extend(partition.partition for partition in partitions)
        of.seek(TopicPartition("the-topic", 2, 5))

    consumer.subscribe(["the-topic"], on_assign=did.append, on_revoke=on_revoke, on_lost=did.append)
    assert consumer.consume(1, 0.0) == [] and did == [0, 2]
    assert asked().endswith(b"S" + b"P" + struct.pack(">ii", 1, 0) + b"K" + struct.pack(">iiq", 1, 2, 5) + b"X")


def test_what_a_consumer_may_overcome_is_a_message_and_anything_else_is_raised(answering: Any) -> None:
    consumer, _ = answering(
        done(),
        failed(7, f"{ERRORS}.TimeoutException,{ERRORS}.RetriableException,{KAFKA}", "slow"),
        failed(30, f"{ERRORS}.GroupAuthorizationException,{KAFKA}", "no"),
    )
    (message,) = consumer.consume(1, 0.0)
    assert message.error().code() == KafkaError._TIMED_OUT and message.partition() is None
    with pytest.raises(KafkaException, match="no"):
        consumer.consume(1, 0.0)


def test_records_go_without_an_answer_and_their_failures_come_with_flush(answering: Any) -> None:
    failures = struct.pack(">ii", 1, 1) + text(f"{ERRORS}.RecordTooLargeException,{KAFKA}")
    fenced = struct.pack(">ii", 0, 1) + text(f"{ERRORS}.ProducerFencedException,{KAFKA}")
    consumer, asked = answering(done(), done(failures), done(fenced))
    producer, told = JavaProducer(consumer.bridge), list[str]()
    producer.produce("the-topic-out", b"v", 3, [("h", b"xy")], lambda error, _: told.append(str(error and error.str())))
    assert producer.flush(1.0) == 1 and told == ["RecordTooLargeException"]
    with pytest.raises(KafkaException) as raised:
        producer.flush(1.0)
    assert raised.value.args[0].code() == KafkaError._FENCED and raised.value.args[0].fatal()
    sent = b"W" + struct.pack(">i", 3) + text("v") + text("h") + text("xy")
    assert asked().endswith(sent + b"FF")


@pytest.mark.parametrize(
    ("replies", "said"),
    [((done(), b"Z\0\0\0\0"), "has answered b'Z', which it never does"), ((done(),), "the JVM of this member")],
)
def test_a_jvm_that_says_nonsense_or_ends_is_no_empty_batch(
    answering: Any, replies: tuple[bytes, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, _ = answering(*replies)
    if len(replies) == 1:
        consumer.bridge._jvm._process.kill()
    with pytest.raises(ClientDied, match=said):
        consumer.consume(1, 0.0)


def test_settings_that_the_java_client_refuses_are_an_error_of_the_client(answering: Any) -> None:
    with pytest.raises(KafkaException, match="wrong"):
        answering(failed(0, "org.apache.kafka.common.config.ConfigException", "wrong"))


@pytest.mark.parametrize(
    "name",
    [
        COMMIT_FAILED,
        *(
            f"{ERRORS}.{each}Exception"
            for each in (
                "RebalanceInProgress",
                "FencedInstanceId",
                "UnknownMemberId",
                "IllegalGeneration",
                "FencedMemberEpoch",
                "StaleMemberEpoch",
            )
        ),
    ],
)
def test_what_a_group_refuses_is_refused_and_a_transaction_with_it_is_aborted(name: str) -> None:
    error: KafkaError = errors.of_consumer(Thrown(0, (name, KAFKA), "x")).args[0]
    assert error.code() in commits.REFUSED and not error.fatal()
    sent: KafkaError = errors.of_producer("send_offsets_to_transaction", Thrown(0, (name, KAFKA), "x")).args[0]
    assert sent.txn_requires_abort() and sent.code() == error.code()


def test_every_refusal_is_one_of_the_members() -> None:
    assert set(errors.REFUSED.values()) <= commits.REFUSED


@pytest.mark.parametrize(
    ("code", "types"),
    [
        (7, (f"{ERRORS}.TimeoutException", f"{ERRORS}.RetriableException", KAFKA)),
        (
            0,
            ("org.apache.kafka.clients.consumer.RetriableCommitFailedException", f"{ERRORS}.RetriableException", KAFKA),
        ),
        (16, (f"{ERRORS}.NotCoordinatorException", f"{ERRORS}.RetriableException", KAFKA)),
        (25, ("a.newer.Error", KAFKA)),  # only its class proves a refusal
        (0, ("java.lang.IllegalStateException",)),
        (0, ("java.lang.NullPointerException",)),
    ],
)
def test_every_other_error_of_a_commit_proves_nothing(code: int, types: tuple[str, ...]) -> None:
    error: KafkaError = errors.of_consumer(Thrown(code, types, "x")).args[0]
    assert error.code() not in commits.REFUSED and error.code() != 0


@pytest.mark.parametrize(
    ("call", "name", "kind", "code"),
    [
        ("commit_transaction", f"{ERRORS}.TimeoutException", "retriable", KafkaError._TIMED_OUT),
        ("send_offsets_to_transaction", f"{ERRORS}.TimeoutException", "retriable", KafkaError._TIMED_OUT),
        ("commit_transaction", f"{ERRORS}.ProducerFencedException", "fatal", KafkaError._FENCED),
        ("send_offsets_to_transaction", f"{ERRORS}.ProducerFencedException", "fatal", KafkaError._FENCED),
        ("commit_transaction", f"{ERRORS}.InvalidProducerEpochException", "abort", 47),
        ("commit_transaction", f"{ERRORS}.OutOfOrderSequenceException", "fatal", 47),
        ("commit_transaction", f"{ERRORS}.AuthorizationException", "fatal", 47),
        ("abort_transaction", f"{ERRORS}.InvalidProducerEpochException", "fatal", 47),
        ("init_transactions", KAFKA, "fatal", 47),
        ("begin_transaction", KAFKA, "fatal", 47),
    ],
)
def test_an_error_of_the_producer_says_what_must_become_of_the_transaction(
    call: str, name: str, kind: str, code: int
) -> None:
    error: KafkaError = errors.of_producer(call, Thrown(47, (name, KAFKA), "x")).args[0]
    kinds = {"retriable": error.retriable(), "fatal": error.fatal(), "abort": error.txn_requires_abort()}
    assert [each for each, holds in kinds.items() if holds] == [kind] and error.code() == code


def test_an_error_that_is_not_kafkas_is_fatal() -> None:
    error: KafkaError = errors.of_producer("commit_transaction", Thrown(0, ("java.lang.Error",), "x")).args[0]
    assert error.fatal() and error.code() == KafkaError._FATAL


def test_settings_of_librdkafka_get_the_java_clients_names() -> None:
    own = APPLICATIONS["commit_after"].consumer | {"fetch.wait.max.ms": 7, "socket.timeout.ms": 8, "client.id": "c"}
    made = settings.consumer_properties(own, 25)
    wanted = {
        "fetch.max.wait.ms": "7",
        "request.timeout.ms": "8",
        "client.id": "c",
        "max.poll.records": "25",
        "enable.auto.commit": "false",
        "session.timeout.ms": "6000",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": "false",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    }
    assert wanted.items() <= made.items() and not {"enable.auto.offset.store", "socket.timeout.ms"} & made.keys()
    new = settings.consumer_properties(own | {"group.protocol": "consumer"}, 25)
    assert not set(settings._OF_BROKERS) & new.keys(), "the Java client does not start with them"
    assert settings.producer_properties({}) == {}
    written = settings.producer_properties(APPLICATIONS["transform_transactional"].producer)
    assert (written["transactional.id"], written["max.block.ms"]) == ("kdv", "60000")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"queued.min.messages": 1},
            r"queued\.min\.messages is 1, and the Java client has no such setting; leave it out",
        ),
        ({"of.a.newer.release": 1}, r"of\.a\.newer\.release is 1, and the Java client has no such setting"),
        ({"partition.assignment.strategy": "sticky"}, r"no 'sticky'; allowed: range, roundrobin, cooperative-sticky"),
        (
            {"enable.auto.commit": True},
            r"enable\.auto\.offset\.store is false .* commit after applying \(commit_after\)",
        ),
    ],
)
def test_a_setting_without_a_counterpart_is_refused_with_what_to_do(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        settings.consumer_properties(APPLICATIONS["commit_after"].consumer | changed, 10)


def test_a_member_is_refused_before_it_starts_and_no_password_is_in_its_command(tmp_path: Path) -> None:
    spec = replace(spec_of(tmp_path, "commit_after"), client="java", connection={"sasl.jaas.config": "secret"})
    clients.require_client(spec)
    assert "secret" not in " ".join(client.require_java(spec)[2])
    with pytest.raises(BadInput, match="no such setting"):
        clients.require_client(replace(spec, settings={"no.such": 1}))


def test_the_java_client_stores_no_offsets(answering: Any) -> None:
    consumer, _ = answering(done())
    with pytest.raises(NotImplementedError):
        consumer.store_offsets([])
