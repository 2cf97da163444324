"""Tests of the question where a leader epoch ends in a log."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from support.broker_answers import answered
from support.mock_broker import MockBroker

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol.requests import BrokerRequests, EpochEnd, EpochQuestion

BROKERS = BrokerRequests(Connection({1: Address("nowhere", 1)}))


def answer(topic: bytes = b"t", partition: int = 2, error: int = 0, end: int = 100) -> bytes:
    head = struct.pack(">iiih", 8, 0, 1, len(topic)) + topic
    return head + struct.pack(">ihiiq", 1, error, partition, 3, end)


@pytest.mark.parametrize(
    ("given_answer", "said"),
    [
        (answer(), 100),
        (answer(end=-1), -1),
        (answer(error=6), r"where epoch 3 of t/2 ends: error 6"),
        (answer(topic=b"u"), "it is not about t/2"),
        (answer(partition=1), "it is not about t/2"),
        (answer()[:-1], "no answer that can be read"),
    ],
)
def test_an_answer_is_the_end_or_an_error(given_answer: bytes, said: int | str, monkeypatch: MonkeyPatch) -> None:
    answered(monkeypatch, given_answer)
    if isinstance(said, int):
        assert BROKERS.epoch_end(1, "t", 2, 3) == said
        return
    with pytest.raises(OSError, match=said):
        BROKERS.epoch_end(1, "t", 2, 3)


@given(st.binary(max_size=100) | st.lists(st.integers(0, 3), max_size=60).map(bytes))
def test_any_answer_is_understood_or_an_oserror(given_answer: bytes) -> None:
    with MonkeyPatch.context() as patch, suppress(OSError):
        answered(patch, given_answer)
        BROKERS.epoch_end(1, "t", 2, 3)


def test_of_several_partitions_those_that_the_broker_does_not_lead_are_left_out(monkeypatch: MonkeyPatch) -> None:
    asked: list[bytes] = []

    def call(request: bytes) -> bytes:
        asked.append(request)
        topics = struct.pack(">ii", 8, 0) + struct.pack(">i", 2)
        t = struct.pack(">h", 1) + b"t" + struct.pack(">i", 2)
        t += struct.pack(">hiiq", 0, 1, 3, 952) + struct.pack(">hiiq", 74, 2, -1, -1)  # FENCED_LEADER_EPOCH
        return topics + t + struct.pack(">h", 1) + b"u" + struct.pack(">i", 1) + struct.pack(">hiiq", 0, 0, 4, 7)

    answered(monkeypatch, call)
    questions = {("u", 0): EpochQuestion(6, 5), ("t", 2): EpochQuestion(4, 3), ("t", 1): EpochQuestion(4, 3)}
    assert BROKERS.epoch_ends(1, questions) == {("t", 1): EpochEnd(3, 952), ("u", 0): EpochEnd(4, 7)}
    body = struct.pack(">i", 2) + struct.pack(">h", 1) + b"t" + struct.pack(">iiiiiii", 2, 1, 4, 3, 2, 4, 3)
    assert asked == [asked[0][:13] + body + struct.pack(">h", 1) + b"u" + struct.pack(">iiii", 1, 0, 6, 5)]


def test_a_broker_that_nobody_here_wrote_understands_the_question() -> None:
    broker = MockBroker()
    broker.write("t", [b"1", b"2", b"3"])
    host, _, port = broker.connection["bootstrap.servers"].partition(":")
    assert BrokerRequests(Connection({0: Address(host, int(port))})).epoch_end(0, "t", 0, 0) == 3
