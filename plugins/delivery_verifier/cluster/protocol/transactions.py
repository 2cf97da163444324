"""Asks brokers, over a plain socket, which transactions are open: the leader of a partition, and the transaction
coordinators.

librdkafka has no DescribeTransactions, ListTransactions and DescribeProducers (KIP-664). Sources of the message
layouts: Kafka's `DescribeTransactionsRequest.json`, `ListTransactionsRequest.json` and `DescribeProducersRequest.json`,
each with its response, v0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.encoding import Reader, call, varint

TIMEOUT_S = 5.0
T = TypeVar("T")
_OPEN = "Ongoing"
"""The coordinator's word for a transaction that has records, and whose producer has not asked for its end."""


class ActiveProducer(NamedTuple):
    """A producer with an open transaction in a partition, as the partition's leader sees it.

    `last_at_ms` is the time of its last record in the partition, in ms since the epoch. `first_offset` is the offset of
    the transaction's first record in the partition.
    """

    producer_id: int
    producer_epoch: int
    last_at_ms: int
    first_offset: int


class TransactionState(NamedTuple):
    """A transactional.id, as its coordinator describes it.

    `state` is Kafka's word, e.g. `Ongoing` or `CompleteCommit`. `began_ms` is when its transaction began, in ms since
    the epoch; -1 if none is open. `timeout_ms` is its transaction.timeout.ms.
    """

    transactional_id: str
    state: str
    began_ms: int
    timeout_ms: int


def active_producers(
    address: Address, topic: str, partition: int, timeout_s: float = TIMEOUT_S
) -> list[ActiveProducer]:
    """Returns the producers with an open transaction in a partition. The broker at `address` must lead the partition.

    Raises OSError if the broker does not answer within `timeout_s` seconds, if the answer cannot be read, or if the
    broker refuses the request.
    """
    body = varint(2) + varint(len(topic.encode()) + 1) + topic.encode() + varint(2) + struct.pack(">i", partition)
    producers = _answer(address, 61, body + b"\0", timeout_s, _producers)
    return [producer for producer in producers if producer.first_offset >= 0]


def transactions_of(
    address: Address, producer_ids: Sequence[int], timeout_s: float = TIMEOUT_S
) -> dict[int, TransactionState]:
    """Returns what the broker at `address` knows as a coordinator of the producers with the ids `producer_ids`.

    Leaves out a producer whose coordinator is another broker, or that is not known any more. Raises the errors of
    `open_transactions`.
    """
    ids = b"".join(struct.pack(">q", producer_id) for producer_id in producer_ids)
    listed = _answer(address, 66, varint(1) + varint(len(producer_ids) + 1) + ids, timeout_s, _listed)
    described = _describe(address, [*listed.values()], timeout_s) if listed else {}
    return {producer_id: described[name] for producer_id, name in listed.items()}


def open_transactions(address: Address, names: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, int]:
    """Returns when the open transactions of the transactional.ids `names` began, in ms since the epoch. The keys are
    the transactional.ids that have an open transaction.

    The broker at `address` must be the coordinator of all these transactional.ids. Raises OSError if the broker does
    not answer within `timeout_s` seconds, if the answer cannot be read, or if the broker refuses to describe one of the
    transactional.ids.
    """
    described = _describe(address, names, timeout_s)
    return {name: state.began_ms for name, state in described.items() if state.state == _OPEN}


def _describe(address: Address, names: Sequence[str], timeout_s: float) -> dict[str, TransactionState]:
    listed = b"".join(varint(len(name.encode()) + 1) + name.encode() for name in names)
    described = _answer(address, 65, varint(len(names) + 1) + listed, timeout_s, _described)
    if missing := set(names) - set(described):
        raise ConnectionError(f"the broker at {address} did not describe {sorted(missing)}")
    return described


def _answer(address: Address, api: int, body: bytes, timeout_s: float, read: Callable[[Reader], T]) -> T:
    """Sends the request `api` of version 0 with `body`. Returns what `read` reads from the answer, from the field after
    throttle_time_ms on."""
    answer = call(address, struct.pack(">hhih", api, 0, 7, 3) + b"kdv\0" + body + b"\0", timeout_s)
    reader = Reader(answer)
    try:
        reader.skip(4)
        reader.tags()
        reader.skip(4)
        return read(reader)
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None


def _producers(reader: Reader) -> list[ActiveProducer]:
    """Reads a DescribeProducersResponse v0 about one partition. Raises ValueError if the broker refuses the request."""
    if reader.varint() != 2:
        raise ValueError("it is not about one topic")
    topic = reader.compact_text()
    if reader.varint() != 2:
        raise ValueError(f"it is not about one partition of {topic}")
    partition, error, why = reader.number("i"), reader.number("h"), reader.compact_text()
    if error:
        raise ValueError(f"error {error} for {topic}/{partition} {why}".rstrip())
    producers = []
    for _ in range(reader.varint() - 1):
        producer_id, epoch = reader.number("q"), reader.number("i")
        reader.skip(4)
        last_at_ms = reader.number("q")
        reader.skip(4)
        producers.append(ActiveProducer(producer_id, epoch, last_at_ms, reader.number("q")))
        reader.tags()
    return producers


def _listed(reader: Reader) -> dict[int, str]:
    """Reads a ListTransactionsResponse v0. Returns the transactional.id of each producer id. Raises ValueError if the
    broker refuses the request."""
    if error := reader.number("h"):
        raise ValueError(f"error {error}")
    for _ in range(reader.varint() - 1):
        reader.compact_text()
    names = dict[int, str]()
    for _ in range(reader.varint() - 1):
        name, producer_id = reader.compact_text(), reader.number("q")
        reader.compact_text()
        reader.tags()
        names[producer_id] = name
    return names


def _described(reader: Reader) -> dict[str, TransactionState]:
    """Reads a DescribeTransactionsResponse v0. Returns the state of each transactional.id.

    Raises ValueError if the broker refuses to describe a transaction.
    """
    states = dict[str, TransactionState]()
    for _ in range(reader.varint() - 1):
        error, name, state = reader.number("h"), reader.compact_text(), reader.compact_text()
        if error:
            raise ValueError(f"error {error} for {name}")
        timeout_ms, began_ms = reader.number("i"), reader.number("q")
        reader.skip(10)
        for _ in range(reader.varint() - 1):
            reader.compact_text()
            reader.compact_ints()
            reader.tags()
        reader.tags()
        states[name] = TransactionState(name, state, began_ms, timeout_ms)
    return states
