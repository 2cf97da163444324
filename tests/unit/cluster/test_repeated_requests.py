"""Repeated requests: one connection per broker, a new one after every failure, and no late answer is ever taken."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from support.record_batches import varint

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import requests
from delivery_verifier.cluster.protocol.channels import CORRELATION
from delivery_verifier.cluster.protocol.requests import RepeatedRequests


def answer(leader: int) -> bytes:
    """A DescribeTopicPartitionsResponse v0 with one partition of the topic t, without its correlation id."""
    ints = varint(2) + struct.pack(">i", leader)
    partition = struct.pack(">hiii", 0, 0, leader, 7) + ints * 2 + b"\x01\x01\x01\0"
    topic = struct.pack(">h", 0) + varint(2) + b"t" + bytes(17) + varint(2) + partition + bytes(4) + b"\0"
    return b"\0" + struct.pack(">i", 0) + varint(2) + topic + b"\xff\0"


API_VERSIONS = struct.pack(">h", 18)
TAKEN = struct.pack(">h", 0) + varint(2) + struct.pack(">hhh", 75, 0, 0) + b"\0" + bytes(4) + b"\0"
"""An ApiVersionsResponse v3, without its correlation id: the broker takes DescribeTopicPartitions v0 alone."""


class Broker:
    """A broker that answers each request with the next of `answers`: bytes, or None to stay silent. `more` stands
    behind each answer."""

    def __init__(self) -> None:
        self.more = b""
        self.answers: list[bytes | None] = []
        self.connections = 0
        self.silenced: list[socket.socket] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.listener.getsockname()[1])

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(ConnectionError):  # the other side closed without reading all
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        while size := connection.recv(4, socket.MSG_WAITALL):
            request = connection.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
            content = TAKEN if request[:2] == API_VERSIONS else self.answers.pop(0)
            if content is None:
                self.silenced.append(connection)
            else:
                connection.sendall(struct.pack(">i", 4 + len(content)) + request[CORRELATION] + content)
                if content is not TAKEN:
                    connection.sendall(self.more)


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.listener.close()


@pytest.fixture
def asking(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> RepeatedRequests:
    monkeypatch.setattr(requests, "VIEW_S", 0.2)
    return RepeatedRequests(Connection({1: broker.address}))


def test_all_questions_go_over_one_connection_and_the_same_answer_is_the_same_object(
    broker: Broker, asking: RepeatedRequests
) -> None:
    broker.answers = [answer(1), answer(1), answer(2)]
    first, second, third = (asking.describe_partitions(1, ["t"]) for _ in range(3))
    assert (first["t", 0].leader, third["t", 0].leader) == (1, 2)
    assert first is second
    assert broker.connections == 1


def test_after_a_silence_the_late_answer_is_not_taken_for_the_next(broker: Broker, asking: RepeatedRequests) -> None:
    broker.answers = [None, answer(2)]
    with pytest.raises(TimeoutError):
        asking.describe_partitions(1, ["t"])
    late = struct.pack(">i", 2) + answer(1)
    broker.silenced[0].sendall(struct.pack(">i", len(late)) + late)
    assert asking.describe_partitions(1, ["t"])["t", 0].leader == 2
    assert broker.connections == 2


def test_an_answer_that_cannot_be_read_is_an_error_each_time(broker: Broker, asking: RepeatedRequests) -> None:
    broker.answers = [b"\0\0", b"\0\0", answer(3)]
    for _ in range(2):
        with pytest.raises(ConnectionError):
            asking.describe_partitions(1, ["t"])
    assert asking.describe_partitions(1, ["t"])["t", 0].leader == 3


def test_bytes_behind_an_answer_are_not_taken_for_the_next(broker: Broker, asking: RepeatedRequests) -> None:
    surplus = struct.pack(">i", 1) + answer(77)
    broker.more, broker.answers = struct.pack(">i", len(surplus)) + surplus, [answer(1), answer(2), answer(2)]
    assert asking.describe_partitions(1, ["t"])["t", 0].leader == 1
    with pytest.raises(ConnectionError, match="the answer to another request"):
        asking.describe_partitions(1, ["t"])
    broker.more = b""
    assert asking.describe_partitions(1, ["t"])["t", 0].leader == 2
    assert broker.connections == 2


def test_after_an_answer_that_cannot_be_read_the_connection_is_a_new_one(
    broker: Broker, asking: RepeatedRequests
) -> None:
    broker.answers = [b"\0\0", answer(3)]
    with pytest.raises(ConnectionError, match="no answer that can be read"):
        asking.describe_partitions(1, ["t"])
    assert asking.describe_partitions(1, ["t"])["t", 0].leader == 3
    assert broker.connections == 2


def test_a_broker_that_refuses_refuses_whatever_another_one_says_of_it(broker: Broker) -> None:
    """The other one does not take the question where it is. That is no answer of the broker that was asked."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = Address("127.0.0.1", closed.getsockname()[1])
    asking = RepeatedRequests(Connection({1: dead, 2: broker.address}, may_move=True))
    with pytest.raises(ConnectionRefusedError):
        asking.describe_partitions(1, ["t"])
    assert broker.connections == 1, "it was asked"
