"""Tests of the digest of a replica's log and of the comparison of two logs, with batches made by hand."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.broker_answers import answered
from support.record_batches import altered, batch, crc32c, varint, with_crc

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol.fetch import Fetched, RawBatch, Refused, whole_batches
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.cluster.replica_logs import Difference, difference, log_batches, read_log

LEADER = [batch(0, 5), batch(5, 1), batch(6, 4, epoch=2), batch(10, 1, epoch=2, attributes=0x30)]


def of(*batches: bytes, end: int = 11) -> Iterator[RawBatch]:
    return log_batches(lambda offset: Fetched(end, b"".join(batches)), 0, end)


def digest(*batches: bytes) -> str:
    return read_log(of(*batches), 0).digest


def test_the_checksum_of_a_batch_made_by_hand_is_kafkas() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_log_is_known_by_the_bytes_of_its_batches_and_by_its_epochs() -> None:
    log = read_log(of(*LEADER), 0)
    assert log.digest == hashlib.sha256(b"".join(LEADER)).hexdigest()
    assert (log.read_until, log.batches, log.epochs) == (11, 4, {0: 0, 2: 6})
    assert difference(of(*LEADER), of(*LEADER)) is None


@pytest.mark.parametrize(
    ("at", "other", "first", "end"),
    [
        (1, altered(LEADER[1]), 5, 6),
        (1, LEADER[1][:-2] + bytes([LEADER[1][-2] ^ 1]) + LEADER[1][-1:], 5, 6),
        (2, batch(6, 4, epoch=1), 6, 10),
        (3, batch(10, 1, epoch=2, attributes=0x10), 10, 11),
        (0, batch(0, 4) + batch(4, 1), 0, 5),
        (3, b"", 10, 11),
        (1, b"", 5, 6),
    ],
    ids=["one byte, its CRC made right", "one byte", "epoch", "no control flag", "other batches", "no tail", "a gap"],
)
def test_a_replica_with_other_bytes_differs_and_its_first_difference_is_named(
    at: int, other: bytes, first: int, end: int
) -> None:
    follower = [*LEADER[:at], other, *LEADER[at + 1 :]]
    assert digest(*follower) != digest(*LEADER)
    differs = difference(of(*LEADER), of(*follower))
    assert differs is not None and (differs.first, differs.end) == (first, end)
    back = difference(of(*follower), of(*LEADER))
    assert back is not None and (back.first, back.end) == (first, end)


def test_the_difference_spans_all_that_differ_and_words_the_first() -> None:
    follower = [LEADER[0], batch(5, 1, epoch=1), LEADER[2], altered(LEADER[3]), batch(11, 2, epoch=2)]
    differs = difference(of(*LEADER, end=13), of(*follower, end=13))
    assert isinstance(differs, Difference) and (differs.first, differs.end) == (5, 13)
    crc = crc32c(LEADER[1][21:])
    assert differs.detail == (
        f"it has a batch of offsets 5 to 5, leader epoch 1, CRC {crc:08x}, {len(LEADER[1])} bytes, "
        f"the leader has a batch of offsets 5 to 5, leader epoch 0, CRC {crc:08x}, {len(LEADER[1])} bytes"
    )
    control = difference(of(*LEADER), of(*LEADER[:3]))
    assert control is not None
    assert control.detail.startswith("it has no further batch, the leader has a transactional control batch")


def test_a_log_is_read_answer_by_answer_and_only_within_the_snapshot() -> None:
    asked: list[int] = []

    def answer(offset: int) -> Fetched:
        asked.append(offset)
        at = next(index for index, each in enumerate(LEADER) if next(whole_batches(each)).end > offset)
        return Fetched(99, LEADER[at] + LEADER[at + 1][:30] if at + 1 < len(LEADER) else LEADER[at])

    assert [found.first for found in log_batches(answer, 2, 10)] == [0, 5, 6]
    assert asked == [2, 5, 6], "the first batch begins before the snapshot, the last fetch is not needed"
    assert list(log_batches(answer, 7, 7)) == []
    assert [found.first for found in log_batches(lambda _: Fetched(99, b""), 0, 10)] == []
    backwards = Fetched(99, batch(5, 1) + batch(0, 1) + batch(6, 1))
    assert [found.end for found in log_batches(lambda _: backwards, 0, 7)] == [6, 1, 7], "it ends, whatever it holds"


def test_bytes_that_are_no_batch_are_no_log() -> None:
    with pytest.raises(ConnectionError, match="batch of format 1"):
        list(of(LEADER[0][:16] + b"\1" + LEADER[0][17:]))
    with pytest.raises(ConnectionError, match="batch of 7 bytes, which is too short"):
        list(of(LEADER[0][:8] + struct.pack(">i", 7) + LEADER[0][12:]))


@contextmanager
def answering(body: bytes) -> Iterator[tuple[BrokerRequests, list[bytes]]]:
    """Yields requests to broker 1, which answers them with `body`, and the list that gets each request."""
    requests = list[bytes]()
    with pytest.MonkeyPatch.context() as patch:
        answered(patch, lambda request: (requests.append(request), body)[1])
        yield BrokerRequests(Connection({1: Address("nowhere", 1)})), requests


def a_response(error: int, data: bytes, aborted: int = 0) -> bytes:
    """Returns a FetchResponse v12 of partition 3 of topic `t`."""
    partition = struct.pack(">ihqqq", 3, error, 42, 42, 0) + varint(aborted + 1) + (bytes(16) + b"\0") * aborted
    partition += struct.pack(">i", -1) + varint(len(data) + 1) + data + b"\0"
    return struct.pack(">i", 1) + b"\0" + struct.pack(">ihi", 0, 0, 0) + b"\2\2t\2" + partition + b"\0\0"


def test_a_fetch_has_the_version_that_followers_answer() -> None:
    with answering(a_response(0, LEADER[0], aborted=2)) as (broker, requests):
        assert broker.fetch(1, "t", 3, 7, 100) == Fetched(42, LEADER[0])
        assert struct.unpack(">hh", requests[0][:4]) == (1, 12)
        assert struct.pack(">iiqiqi", 3, -1, 7, -1, -1, 100) in requests[0]


def test_a_refused_or_cut_answer_to_a_fetch_is_an_error() -> None:
    with answering(a_response(6, b"")) as (broker, _), pytest.raises(Refused, match="t/3 was not fetched: error 6"):
        broker.fetch(1, "t", 3, 7, 100)
    cut = a_response(0, LEADER[0])[:-9]
    with answering(cut) as (broker, _), pytest.raises(ConnectionError, match="no answer that can be read"):
        broker.fetch(1, "t", 3, 7, 100)


def test_a_batch_is_altered_by_one_bit_and_its_checksum_fits() -> None:
    changed = altered(LEADER[0])
    assert with_crc(changed) == changed and changed[:17] == LEADER[0][:17]
    assert sum(a != b for a, b in zip(changed[21:], LEADER[0][21:], strict=True)) == 1
