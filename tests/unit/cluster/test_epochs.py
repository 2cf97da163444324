"""Tests of the question where a leader epoch ends in a log."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from support.mock_broker import MockBroker

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol import epochs

BROKER = Address("nowhere", 1)


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
    monkeypatch.setattr(epochs, "call", lambda *_: given_answer)
    if isinstance(said, int):
        assert epochs.epoch_end(BROKER, "t", 2, 3) == said
        return
    with pytest.raises(OSError, match=said):
        epochs.epoch_end(BROKER, "t", 2, 3)


@given(st.binary(max_size=100) | st.lists(st.integers(0, 3), max_size=60).map(bytes))
def test_any_answer_is_understood_or_an_oserror(given_answer: bytes) -> None:
    with MonkeyPatch.context() as patch, suppress(OSError):
        patch.setattr(epochs, "call", lambda *_: given_answer)
        epochs.epoch_end(BROKER, "t", 2, 3)


def test_a_broker_that_nobody_here_wrote_understands_the_question() -> None:
    broker = MockBroker()
    broker.write("t", [b"1", b"2", b"3"])
    host, _, port = broker.connection["bootstrap.servers"].partition(":")
    assert epochs.epoch_end(Address(host, int(port)), "t", 0, 0) == 3
