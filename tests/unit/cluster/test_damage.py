"""Tests of the search for offsets that cannot be read, in logs whose batches were made and damaged by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from support.record_batches import batch, damaged

from delivery_verifier.cluster import damage
from delivery_verifier.cluster.damage import FetchSome, unreadable
from delivery_verifier.cluster.protocol.fetch import Fetched, Refused, whole_batches

SIZES = (5, 1, 4, 1, 3, 6)
LOG = [batch(sum(SIZES[:at]), size, body=b"record %d \0" % at * 3) for at, size in enumerate(SIZES)]
END = sum(SIZES)
STARTS = [sum(SIZES[:at]) for at in range(len(SIZES) + 1)]


def broker(log: list[bytes], most: int = 8 << 20) -> FetchSome:
    """Returns a function that answers like a broker, which knows where the batches are, whatever is damaged in them.

    An answer has no more than `most` bytes, or its first batch; the last batch may be incomplete.
    """

    def fetch(offset: int, most_bytes: int) -> Fetched:
        at = max(index for index, start in enumerate(STARTS) if start <= offset)
        return Fetched(END, b"".join(log[at:])[: max(min(most, most_bytes), len(log[at]) if at < len(log) else 0)])

    return fetch


def with_bytes(data: bytes, position: int, value: bytes) -> bytes:
    return data[:position] + value + data[position + len(value) :]


def log_with(**batches: bytes) -> list[bytes]:
    """Returns the log, with other batches at the indexes `b<index>`."""
    return [batches.get(f"b{index}", data) for index, data in enumerate(LOG)]


def found(fetch: FetchSome, start: int = 0, end: int = END) -> list[tuple[int, int]]:
    return [(each.first, each.end) for each in unreadable(fetch, start, end)]


def test_a_sound_log_has_no_unreadable_offsets() -> None:
    assert found(broker(LOG)) == [] and found(broker(LOG, most=100)) == []


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte of a value": damaged,
    "the checksum": lambda data: with_bytes(data, 17, b"\0\0\0\0"),
    "the number of records": lambda data: with_bytes(data, 57, struct.pack(">i", 1 << 30)),
    "the last offset": lambda data: with_bytes(data, 23, struct.pack(">i", 8)),
    "a last offset before the first": lambda data: with_bytes(data, 23, struct.pack(">i", -5)),
    "the format": lambda data: with_bytes(data, 16, b"\1"),
    "a length that is too short": lambda data: with_bytes(data, 8, struct.pack(">i", 7)),
    "a length that is too great": lambda data: with_bytes(data, 8, struct.pack(">i", 1 << 30)),
    "a length of two batches": lambda data: with_bytes(data, 8, struct.pack(">i", len(data) - 12 + len(LOG[3]))),
    "the first offset": lambda data: with_bytes(damaged(data), 0, struct.pack(">q", 2)),
    "all bytes": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("most", [8 << 20, 100], ids=["one answer", "an answer per batch"])
@pytest.mark.parametrize("name", DAMAGES)
def test_exactly_the_offsets_of_a_damaged_batch_are_unreadable(name: str, most: int) -> None:
    assert found(broker(log_with(b2=DAMAGES[name](LOG[2])), most)) == [(6, 10)]


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_may_reach_to_the_end_of_the_log(name: str) -> None:
    assert found(broker(log_with(b5=DAMAGES[name](LOG[5])))) == [(14, 20)]


def test_several_damages_are_apart_and_neighbours_are_one() -> None:
    changed = log_with(b0=damaged(LOG[0]), b2=damaged(LOG[2]), b3=damaged(LOG[3]), b5=bytes(len(LOG[5])))
    assert found(broker(changed)) == found(broker(changed, most=100)) == [(0, 5), (6, 11), (14, 20)]
    assert found(broker(changed), 5, 14) == [(6, 11)]


def test_the_evidence_names_both_checksums() -> None:
    (first,) = unreadable(broker(log_with(b2=damaged(LOG[2]))), 0, END)
    (right,) = whole_batches(LOG[2])
    (wrong,) = whole_batches(damaged(LOG[2]))
    assert wrong.crc == right.crc == right.computed_crc != wrong.computed_crc
    assert first.detail == (
        f"a batch of {len(LOG[2])} bytes that says it holds offsets 6 to 9 has CRC {right.crc:08x} in its header, and "
        f"its bytes have CRC {wrong.computed_crc:08x} (CORRUPT_MESSAGE)"
    )


def test_control_records_before_a_damage_are_not_shown() -> None:
    changed = log_with(b1=batch(5, 1, attributes=0x30), b2=damaged(LOG[2]), b3=batch(10, 1, attributes=0x30))
    (first,) = unreadable(broker(changed), 0, END)
    assert (first.shown_until, first.first, first.end) == (5, 6, 10)


def by_headers(log: list[bytes]) -> FetchSome:
    """Returns a function that answers like a broker, which believes the headers when it looks for an offset."""
    ends = [next(whole_batches(data)).end for data in log]

    def fetch(offset: int, most_bytes: int) -> Fetched:
        return Fetched(END, b"".join(log[next((at for at, end in enumerate(ends) if end > offset), len(log)) :]))

    return fetch


@pytest.mark.parametrize(
    ("first", "not_served_until"), [(0, 10), (3, 10), (7, 11), (8, 12), (10, 14), (100, END), (-1, 10)], ids=str
)
def test_a_first_offset_that_no_checksum_covers_must_follow_the_batch_before(first: int, not_served_until: int) -> None:
    log = log_with(b2=with_bytes(LOG[2], 0, struct.pack(">q", first)))
    assert all(batch.sound for batch in whole_batches(b"".join(log)))
    assert found(broker(log)) == found(broker(log, most=100)) == [(6, 10)]
    assert found(by_headers(log)) == [(6, not_served_until)], "for what its header names, it is sent"
    (damage,) = unreadable(broker(log), 0, END)
    assert damage.detail == (
        f"a batch of {len(LOG[2])} bytes says it holds offsets {first} to {first + 3}, where offset 6 must stand"
    )


@pytest.mark.parametrize("first", [3, 100, -1])
def test_the_first_and_the_last_batch_of_a_log_must_be_in_their_place_too(first: int) -> None:
    assert found(broker(log_with(b0=with_bytes(LOG[0], 0, struct.pack(">q", first))))) == [(0, 5)]
    assert found(broker(log_with(b5=with_bytes(LOG[5], 0, struct.pack(">q", first))))) == [(14, 20)]


def test_the_first_batch_of_a_search_may_begin_before_it() -> None:
    assert found(broker(LOG), 8) == found(broker(LOG, most=100), 8) == []
    assert found(broker(log_with(b3=damaged(LOG[3]))), 8) == [(10, 11)]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_answers_that_are_empty_for_a_moment_are_no_damage(times: int) -> None:
    plain, answers = broker(LOG), [Fetched(END, b"")] * times
    assert found(lambda *asked: answers.pop() if answers else plain(*asked)) == [] and not answers


@pytest.mark.parametrize("answer", [Refused("t/0", 2), Fetched(END, b"")], ids=["an error", "nothing"])
def test_offsets_that_the_broker_itself_cannot_find_are_unreadable(
    answer: Fetched | Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "EMPTY_S", 0.0)
    plain = broker(LOG)

    def fetch(offset: int, most_bytes: int) -> Fetched:
        if 6 <= offset < 13:
            if isinstance(answer, Refused):
                raise answer
            return answer
        served = plain(offset, most_bytes).data
        return Fetched(END, served[: sum(map(len, LOG[:2]))] if offset < 6 else served)

    (first,) = unreadable(fetch, 0, END)
    assert (first.first, first.end) == (6, 13), "the broker finds only the last offset of a batch"
    nothing = "the broker sends no whole batch, though its log is longer, and did not for 0 s"
    expected = nothing if isinstance(answer, Fetched) else str(answer)
    assert first.detail == expected
    assert str(Refused("t/0", 2)) == "t/0 was not fetched: error 2 (CORRUPT_MESSAGE)"


def test_what_is_no_damage_is_an_error() -> None:
    def refuse(offset: int, most_bytes: int) -> Fetched:
        raise Refused("t/0", 6)

    with pytest.raises(Refused, match="error 6"):
        found(refuse)
    with pytest.raises(ConnectionError, match="the log is known only up to offset 3"):
        found(lambda *_: Fetched(3, b""), 3)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_is_refused_and_then_served_is_no_damage(times: int) -> None:
    plain, refusals = broker(LOG), [Refused("t/0", 2)] * times

    def fetch(offset: int, most_bytes: int) -> Fetched:
        if refusals and offset >= 6:
            raise refusals.pop()
        return plain(offset, min(most_bytes, 100))

    with pytest.raises(damage.Unclear, match=r"offset \d+ could not be read, and then it could"):
        list(unreadable(fetch, 6, END))


def test_a_search_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "SEARCH_S", -1.0)
    with pytest.raises(ConnectionError, match="the end of the damage at offset 6 was not found within -1 s"):
        found(broker(log_with(b2=bytes(len(LOG[2])))))
