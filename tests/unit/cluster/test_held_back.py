"""Tests of what brokers say about transactions that stay open (KIP-664): how their answers are read, and what remains
known if a broker gives none. tests/kafka/test_hanging_transactions.py asks real brokers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from support.broker_answers import answered
from support.fake_cluster import FakeCluster

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.held_back import held_back
from delivery_verifier.cluster.protocol.requests import ActiveProducer, BrokerRequests, TransactionState
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.model.held_back import HeldBack, OpenTransaction

BROKERS = BrokerRequests(Connection({1: Address("nowhere", 1)}))


def text(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


def producers(*rows: tuple[int, int, int, int], error: int = 0, why: bytes = b"") -> bytes:
    """Returns a DescribeProducersResponse with (producer id, epoch, time, first offset) of each producer."""
    head = struct.pack(">ib", 7, 0) + struct.pack(">i", 0) + b"\x02" + text(b"t") + b"\x02"
    part = struct.pack(">ih", 3, error) + text(why) + bytes([len(rows) + 1])
    each = (struct.pack(">qiiqiq", one, epoch, 9, at, 0, first) + b"\0" for one, epoch, at, first in rows)
    return head + part + b"".join(each) + b"\0\0\0"


def listed(*rows: tuple[bytes, int], error: int = 0) -> bytes:
    """Returns a ListTransactionsResponse with (transactional.id, producer id) of each transaction."""
    head = struct.pack(">ib", 7, 0) + struct.pack(">ih", 0, error) + b"\x02" + text(b"Odd") + bytes([len(rows) + 1])
    each = (text(name) + struct.pack(">q", number) + text(b"Ongoing") + b"\0" for name, number in rows)
    return head + b"".join(each) + b"\0"


def described(name: bytes, state: bytes) -> bytes:
    """Returns a DescribeTransactionsResponse about one transaction without partitions."""
    head = struct.pack(">ib", 7, 0) + struct.pack(">i", 0) + b"\x02"
    return head + struct.pack(">h", 0) + text(name) + text(state) + struct.pack(">iqqh", 60_000, 5, 1, 0) + b"\x01\0\0"


@pytest.fixture
def answer(monkeypatch: MonkeyPatch) -> Callable[..., list[bytes]]:
    """Lets the next requests be answered with the given bytes. Returns the list of requests."""
    asked = list[bytes]()

    def with_answers(*answers: bytes) -> list[bytes]:
        left = list(answers)
        answered(monkeypatch, lambda request: (asked.append(request), left.pop(0))[1])
        return asked

    return with_answers


def test_only_a_producer_with_an_open_transaction_holds_a_partition_back(answer: Callable[..., list[bytes]]) -> None:
    asked = answer(producers((11, 2, 1_000, 40), (12, 0, 2_000, -1), (13, 1, 3_000, 0)))
    assert BROKERS.active_producers(1, "t", 3) == [(11, 2, 1_000, 40), (13, 1, 3_000, 0)]
    assert asked == [struct.pack(">hhih", 61, 0, 1, 3) + b"kdv\0\x02\x02t\x02" + struct.pack(">i", 3) + b"\0\0"]


def test_a_coordinator_names_its_producers_by_their_ids(answer: Callable[..., list[bytes]]) -> None:
    asked = answer(listed((b"pay", 11)), described(b"pay", b"Ongoing"))
    state = TransactionState("pay", "Ongoing", 5, 60_000)
    assert BROKERS.transactions_of(1, [11, 13]) == {11: state}
    assert asked[0][13:] == b"\0\x01\x03" + struct.pack(">qq", 11, 13) + b"\0", "no filter of states, two ids"
    answer(listed())
    assert BROKERS.transactions_of(1, [13]) == {}, "and nothing is described"


@pytest.mark.parametrize(
    ("given_answer", "ask", "said"),
    [
        (
            producers(error=6, why=b"no leader"),
            lambda: BROKERS.active_producers(1, "t", 3),
            "error 6 for t/3 no",
        ),
        (listed(error=14), lambda: BROKERS.transactions_of(1, [1]), "error 14"),
        (b"\0" * 9 + b"\x01\0", lambda: BROKERS.active_producers(1, "t", 3), "not about one topic"),
    ],
)
def test_a_refusal_is_an_oserror_with_its_number(
    answer: Callable[..., list[bytes]], given_answer: bytes, ask: Callable[[], object], said: str
) -> None:
    answer(given_answer)
    with pytest.raises(OSError, match=said):
        ask()


@given(st.binary(max_size=200) | st.lists(st.integers(0, 3), max_size=120).map(bytes))
def test_any_answer_is_understood_or_an_oserror(given_answer: bytes) -> None:
    with MonkeyPatch.context() as patch:
        answered(patch, given_answer)
        for ask in (
            lambda: BROKERS.active_producers(1, "t", 3),
            lambda: BROKERS.transactions_of(1, [1]),
        ):
            with suppress(OSError):
                ask()


class Brokers(FakeCluster):
    """Broker 2 leads the partition. `known`: what each broker says as a coordinator; an error is raised."""

    def __init__(self, open_ones: list[ActiveProducer] | Exception, known: dict[int, Any]) -> None:
        super().__init__()
        self.open_ones, self.known = open_ones, known

    def active_producers(self, broker: int, topic: str, partition: int) -> list[ActiveProducer]:
        assert (broker, topic, partition) == (2, "t", 3)
        if isinstance(self.open_ones, Exception):
            raise self.open_ones
        return self.open_ones

    def transactions_of(self, broker: int, producer_ids: Sequence[int]) -> dict[int, TransactionState]:
        answer: dict[int, TransactionState] = self.known[broker]
        if isinstance(answer, Exception):
            raise answer
        return answer


def found(open_ones: list[ActiveProducer] | Exception, monkeypatch: MonkeyPatch, **known: Any) -> HeldBack:
    brokers = Brokers(open_ones, {int(name[1:]): answer for name, answer in known.items()})
    monkeypatch.setattr(Cluster, "running", lambda _: [1, 2, 3])
    return held_back(Cluster(brokers), "t", 3, 2, 40)


FIRST, SECOND = ActiveProducer(11, 2, 1_000, 40), ActiveProducer(13, 1, 3_000, 55)


def test_the_oldest_open_transaction_comes_first_and_each_has_the_words_of_its_coordinator(
    monkeypatch: MonkeyPatch,
) -> None:
    state = TransactionState("pay", "Ongoing", 5, 900_000)
    held = found([SECOND, FIRST], monkeypatch, b1={}, b2={}, b3={11: state})
    known = {"transactional_id": "pay", "state": "Ongoing", "began_at_ms": 5, "timeout_ms": 900_000}
    first = OpenTransaction(producer_id=11, producer_epoch=2, first_offset=40, last_at_ms=1_000, **known)  # type: ignore[arg-type]
    second = OpenTransaction(producer_id=13, producer_epoch=1, first_offset=55, last_at_ms=3_000)
    assert held == HeldBack(last_stable_offset=40, transactions=(first, second))
    assert first.is_ongoing and not second.is_ongoing


def test_a_coordinator_that_does_not_answer_hides_the_name_but_not_the_transaction(monkeypatch: MonkeyPatch) -> None:
    held = found([FIRST], monkeypatch, b1={}, b2={}, b3=OSError("timed out"))
    assert [each.producer_id for each in held.transactions] == [11] and held.transactions[0].transactional_id == ""


@pytest.mark.parametrize(
    ("open_ones", "unknown"),
    [
        ([], "broker 2 names no producer with an open transaction"),
        (OSError("timed out"), "timed out"),
        (OSError(), "OSError"),
        (UnsupportedSecurity("SASL is not spoken"), "SASL is not spoken"),
    ],
)
def test_whose_transaction_it_is_may_stay_unknown(
    monkeypatch: MonkeyPatch, open_ones: list[ActiveProducer] | Exception, unknown: str
) -> None:
    assert found(open_ones, monkeypatch) == HeldBack(last_stable_offset=40, unknown=unknown)
