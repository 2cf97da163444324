"""Tests of Kafka's protocol: an answer that makes no sense must not end the observer. An observer that has ended would
look like a cluster without disturbances."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from support.broker_answers import answered
from support.patience import PATIENCE_S

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol.channels import Channel
from delivery_verifier.cluster.protocol.requests import BrokerRequests

BROKERS = BrokerRequests(Connection({1: Address("nowhere", 1)}))


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_is_understood_or_an_oserror(answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, answer)
        try:
            BROKERS.describe_partitions(1, ["topic"])
        except OSError:
            return


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_about_live_brokers_is_understood_or_an_oserror(answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, answer)
        with suppress(OSError):
            BROKERS.live_brokers(1)


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_to_a_new_assignment_is_understood_or_an_oserror(answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, answer)
        try:
            BROKERS.assign_replicas(1, {("topic", 0): [1, 2, 3]})
        except OSError:
            return


def test_a_refused_assignment_names_the_partition_and_the_controllers_reason() -> None:
    refused = (
        struct.pack(">ib", 7, 0)
        + struct.pack(">ih", 0, 0)
        + b"\0\x02\x02t\x02"
        + struct.pack(">ih", 4, 60)
        + b"\x03no\0\0\0"
    )
    with MonkeyPatch.context() as patch:
        answered(patch, refused)
        with pytest.raises(OSError, match="t/4: error 60 no"):
            BROKERS.assign_replicas(1, {("t", 4): [1, 2, 3]})


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_about_settings_is_understood_or_an_oserror(answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, answer)
        for ask in (lambda: BROKERS.alter_topics(1, ["t"], "a", "b"), lambda: BROKERS.topic_setting(1, ["t"], "a")):
            with suppress(OSError):
                ask()


def test_a_refused_setting_names_the_topic_and_the_controllers_reason() -> None:
    refused = struct.pack(">iiihh", 4, 0, 1, 40, 2) + b"no" + struct.pack(">bh", 2, 1) + b"t"
    with MonkeyPatch.context() as patch:
        answered(patch, refused)
        with pytest.raises(OSError, match="of t was refused: error 40 no"):
            BROKERS.alter_topics(1, ["t"], "min.insync.replicas", "none")


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_to_more_partitions_is_understood_or_an_oserror(answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, answer)
        with suppress(OSError):
            BROKERS.create_partitions(1, ["t"], 4, [[1, 2, 3]])


def test_refused_partitions_name_the_topic_and_the_controllers_reason() -> None:
    refused = struct.pack(">iiih", 4, 0, 1, 1) + b"t" + struct.pack(">hh", 37, 2) + b"no"
    with MonkeyPatch.context() as patch:
        answered(patch, refused)
        with pytest.raises(OSError, match="added no partitions to t: error 37 no"):
            BROKERS.create_partitions(1, ["t"], 4, [[1, 2, 3]])


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_about_transactions_is_understood_or_an_oserror(answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, answer)
        with suppress(OSError):
            BROKERS.open_transactions(1, ["id"])


def described(*states: tuple[int, bytes, bytes]) -> bytes:
    """Returns a DescribeTransactionsResponse with (error, transactional.id, state) of each transaction. Each began at
    5 ms and has one partition."""
    begin = struct.pack(">ib", 7, 0) + struct.pack(">i", 0) + bytes([len(states) + 1])
    topics = b"\x02\x02t\x02" + struct.pack(">i", 0) + b"\0"
    return (
        begin
        + b"".join(
            struct.pack(">h", error)
            + bytes([len(name) + 1])
            + name
            + bytes([len(state) + 1])
            + state
            + struct.pack(">iqqh", 60_000, 5, 1, 0)
            + topics
            + b"\0"
            for error, name, state in states
        )
        + b"\0"
    )


def test_a_transaction_is_open_only_while_its_coordinator_says_ongoing() -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, described((0, b"a", b"Ongoing"), (0, b"b", b"CompleteAbort")))
        assert BROKERS.open_transactions(1, ["a", "b"]) == {"a": 5}
        with pytest.raises(OSError, match=r"did not describe \['c'\]"):
            BROKERS.open_transactions(1, ["a", "c"])
        answered(patch, described((16, b"a", b"")))
        with pytest.raises(OSError, match="error 16 for a"):
            BROKERS.open_transactions(1, ["a"])


@pytest.mark.parametrize(
    ("announced", "sent", "outcome"),
    [
        (6, [b"\0\0\0", b"\1de"], b"\0\0\0\1de"),
        (4, [b"\0\0\0\2"], "the answer to another request"),
        (0, [], "the answer to another request"),
        (7, [b"abc"], "the broker closed the connection"),
        (int.from_bytes(b"HTTP"), [b"/1.1 400"], "an answer of 1213486160 bytes was announced"),
    ],
)
def test_an_answer_is_received_in_pieces_or_is_an_oserror(
    announced: int, sent: list[bytes], outcome: bytes | str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                for piece in (struct.pack(">i", announced), *sent):
                    connection.sendall(piece)
                if not isinstance(outcome, str):
                    connection.recv(1)  # until the other side closes

        broker = threading.Thread(target=answer)
        broker.start()
        address = Address("127.0.0.1", server.getsockname()[1])
        if isinstance(outcome, bytes):
            assert Channel(address).call(b"request", PATIENCE_S) == outcome
        else:
            with pytest.raises(ConnectionError, match=outcome):
                Channel(address).call(b"request", PATIENCE_S)
        broker.join()
