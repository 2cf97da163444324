"""Connections to brokers: they are kept, made anew where a broker has closed them or a session ends, and a far broker
gets more time."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from support.patience import PATIENCE_S

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import channels
from delivery_verifier.cluster.protocol.authentication import Exchange
from delivery_verifier.cluster.protocol.channels import Channel, Channels, Transport

REQUEST = b"\0\0\0\0CORRrequest"


class Clock:
    """A clock that a test puts forward, in place of the module `time`."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Broker:
    """A broker that answers each request with its correlation id. It closes a connection after `answers` answers."""

    def __init__(self) -> None:
        self.answers, self.connections = 99, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                for _ in range(self.answers):
                    if not (head := connection.recv(4, socket.MSG_WAITALL)):
                        break
                    request = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                    connection.sendall(struct.pack(">i", 4) + request[channels.CORRELATION])


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.listener.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(channels, "time", clock)
    return clock


def test_a_connection_is_kept(broker: Broker) -> None:
    channel = Channel(broker.address)
    for _ in range(3):
        channel.call(REQUEST, PATIENCE_S)
    assert broker.connections == 1


def test_a_connection_that_the_broker_has_closed_is_made_anew_and_a_new_one_is_not(broker: Broker) -> None:
    broker.answers = 1
    channel = Channel(broker.address)
    for number in (1, 2, 3):
        channel.call(REQUEST, PATIENCE_S)
        assert broker.connections == number
    broker.answers = 0
    with pytest.raises(ConnectionError):
        channel.call(REQUEST, PATIENCE_S)
    connections = broker.connections
    with pytest.raises(ConnectionError):
        channel.call(REQUEST, PATIENCE_S)
    assert broker.connections == connections + 1, "it is not asked twice over new connections"


def test_a_far_broker_gets_some_round_trips_more(broker: Broker, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, made = socket.create_connection, list[socket.socket]()

    def far(address: Address, timeout: float) -> socket.socket:
        clock.now_s += 0.25
        made.append(connect(address, timeout=PATIENCE_S))
        return made[0]

    monkeypatch.setattr(socket, "create_connection", far)
    channel = Channel(broker.address)
    channel.call(REQUEST, 0.7)
    assert channel.round_trip_s == 0.25
    assert made[0].gettimeout() == 0.7 + channels.ROUND_TRIPS * 0.25


class Ending(Transport):
    """A transport whose sessions end after ten seconds."""

    def __init__(self) -> None:
        super().__init__({"security.protocol": "SASL_PLAINTEXT"})
        self.sessions = 0

    def authenticate(self, exchange: Exchange, address: Address) -> float:
        self.sessions += 1
        return 10.0


def test_a_new_connection_is_made_before_the_session_ends(broker: Broker, clock: Clock) -> None:
    transport = Ending()
    channel = Channel(broker.address, transport)
    for passed_s, sessions in ((0, 1), (7.9, 1), (0.2, 2), (7.9, 2)):
        clock.now_s += passed_s
        channel.call(REQUEST, PATIENCE_S)
        assert transport.sessions == sessions
    assert broker.connections == 2


def test_each_thread_and_each_process_has_channels_of_its_own(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    every = Channels(Connection({1: broker.address}))
    own, others = every.to(1), list[Channel]()
    thread = threading.Thread(target=lambda: others.append(every.to(1)))
    thread.start()
    thread.join()
    assert every.to(1) is own and others[0] is not own
    monkeypatch.setattr(channels.os, "getpid", lambda: -1)
    assert every.to(1) is not own, "in a forked process"
