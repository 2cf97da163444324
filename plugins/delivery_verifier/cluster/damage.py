"""Finds the offsets of a log that nobody can read, because bytes of their batches have changed on the broker's disk.

Brokers do not verify the checksum of a batch that they send. So damage shows itself in one of two ways:

* Usually the broker sends the batch, and the batch has a wrong checksum. A consumer then refuses the batch with the
  error CORRUPT_MESSAGE.
* If the damaged bytes are the length of a batch, the broker cannot find the batches behind it. The broker then answers
  with the error CORRUPT_MESSAGE, or with no data.

A batch is readable if its checksum is right, and if its first offset follows directly after the last offset of the
previous batch. The second condition is needed because the checksum does not cover the first offset.

All offsets between the last readable batch before the damage and the first readable batch behind it are unreadable,
because every offset in the log of a run holds a record. (Compacted logs have gaps. No topic of a run is compacted.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from delivery_verifier.cluster.protocol.batches import CONTROL
from delivery_verifier.cluster.protocol.fetch import (
    CORRUPT_MESSAGE,
    FETCH_BYTES,
    Fetched,
    RawBatch,
    Refused,
    whole_batches,
)
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.unreadable import Unreadable

FetchSome = Callable[[int, int], Fetched]
"""A function that fetches batches of one replica. Its arguments: the first offset, and the most bytes to fetch."""
SEARCH_S = 60.0
"""Seconds in which the end of a damaged range must be found. The search asks the broker for one offset after
another."""
EMPTY_S = 5.0
"""Seconds for which a request is repeated if its answer has neither data nor an error. If the log is not damaged, data
arrive within this time."""


class Unclear(ConnectionError):
    """A broker's answers do not show whether the offsets are unreadable or readable."""


def unreadable(fetch: FetchSome, start: int, end: int) -> Iterator[Unreadable]:
    """Yields the ranges of unreadable offsets of a replica in [start, end), in ascending order.

    Raises OSError if the broker does not answer, or if it refuses the request for another reason than damage. Raises
    Unclear in three cases:

    * The replica does not hold the log up to `end`.
    * An offset was unreadable at first, and readable later.
    * The end of a damaged range is not found within 60 s (SEARCH_S).
    """
    offset = shown = inside = start
    while offset < end:
        began = offset
        batches, why = _patient_answer(fetch, offset)
        for batch in batches:
            begins_before = offset == inside and 0 <= batch.first < offset < batch.end
            if not batch.sound or not (batch.first == offset or begins_before):
                why = _misplaced(batch, offset) if batch.sound else _crcs(batch)
                break
            offset = batch.end
            shown = shown if batch.attributes & CONTROL else offset
        if offset > began:
            continue  # the next answer begins with the damage, and holds as many batches behind it as fit
        first = batches[0].data if batches and not _leaves_out(batches, offset) else b""
        behind = _next_batch(fetch, offset)
        if behind is None or not _serves(fetch, behind, first):
            behind = _next_offset(fetch, offset, end, first)
        behind = min(behind, end)
        if _serves(fetch, offset, first):
            raise Unclear(f"offset {offset} could not be read, and then it could")
        yield Unreadable(first=offset, end=behind, shown_until=shown, detail=why)
        offset = shown = inside = behind


def _patient_answer(fetch: FetchSome, offset: int) -> tuple[list[RawBatch], str]:
    """Returns the whole batches that the broker sends for `offset`, and why no further batch can be read. The reason is
    empty if nothing shows damage.

    If an answer has neither batches nor an error, repeats the request for 5 s (EMPTY_S). If all answers are empty, the
    log is damaged: a broker sends no data if it cannot find a batch because a length is damaged.
    """
    until_s = time.monotonic() + EMPTY_S
    while True:
        batches, why = _answer(fetch, offset, FETCH_BYTES)
        if batches or why:
            return batches, why
        if time.monotonic() >= until_s:
            return batches, f"the broker sends no whole batch, though its log is longer, and did not for {EMPTY_S:g} s"
        pause(0.1)


def _answer(fetch: FetchSome, offset: int, most_bytes: int) -> tuple[list[RawBatch], str]:
    """Asks the broker once for batches at `offset`. Returns the whole batches of the answer, and why no further batch
    of the answer can be read.

    The reason is empty if nothing in the answer shows damage. `most_bytes` is the maximum size of the answer.
    """
    batches = list[RawBatch]()
    try:
        fetched = fetch(offset, most_bytes)
    except Refused as error:
        if error.code != CORRUPT_MESSAGE:
            raise
        return batches, str(error)
    if fetched.high_watermark <= offset:
        raise Unclear(f"the log is known only up to offset {fetched.high_watermark}")
    try:
        batches.extend(whole_batches(fetched.data))
    except ConnectionError as error:
        return batches, str(error)
    cut = f"the first batch is longer than the {len(fetched.data)} bytes that the broker sends, which must be all of it"
    return batches, cut if fetched.data and not batches else ""


def _next_batch(fetch: FetchSome, offset: int) -> int | None:
    """Returns the offset at which the damage at `offset` ends: the first offset of the first sound batch behind the
    damage.

    Reads this offset from the headers of the batches. A damaged header can name any length and any offset. So believes
    the headers only if the batches follow each other without gaps, both in bytes and in offsets. Otherwise returns
    None.
    """
    first = offset
    while True:
        batches, _ = _answer(fetch, first, FETCH_BYTES)
        if len(batches) < 2:
            return None
        damaged, behind = batches[0], batches[1:]
        expected = damaged.end
        if first == offset and damaged.sound:
            if _leaves_out(batches, offset):
                return damaged.first
            expected = offset + damaged.end - damaged.first
        elif damaged.first != first:
            return None
        for batch in behind:
            if batch.first != expected:
                return None
            if batch.sound:
                return batch.first
            expected = batch.end
        first = batches[-1].first


def _leaves_out(batches: list[RawBatch], offset: int) -> bool:
    """Returns whether the broker sent sound, consecutive batches whose first offset is greater than `offset`."""
    return len(batches) > 1 and batches[0].sound and offset < batches[0].first and batches[0].end == batches[1].first


def _next_offset(fetch: FetchSome, offset: int, end: int, damaged: bytes) -> int:
    """Returns the first offset behind the damage at `offset` for which the broker sends a sound batch. Returns `end` if
    there is no such offset.

    Asks the broker for one offset after another. This proves that no consumer can read the offsets before the result.
    `damaged` holds the bytes of the batch that showed the damage.
    """
    until_s = time.monotonic() + SEARCH_S
    for candidate in range(offset + 1, end):
        if _serves(fetch, candidate, damaged):
            return candidate
        if time.monotonic() > until_s:
            raise Unclear(f"the end of the damage at offset {offset} was not found within {SEARCH_S:g} s")
    return end


def _serves(fetch: FetchSome, offset: int, damaged: bytes) -> bool:
    """Returns whether the broker sends a sound batch that holds `offset` and is not `damaged`.

    `damaged` holds the bytes of the batch that showed the damage. The checksum of this batch may be right, although its
    first offset is wrong.
    """
    batches, _ = _answer(fetch, offset, 1)
    return any(batch.sound and batch.first <= offset < batch.end and batch.data != damaged for batch in batches[:1])


def _misplaced(batch: RawBatch, offset: int) -> str:
    return (
        f"a batch of {len(batch.data)} bytes says it holds offsets {batch.first} to {batch.end - 1}, where offset "
        f"{offset} must stand"
    )


def _crcs(batch: RawBatch) -> str:
    return (
        f"a batch of {len(batch.data)} bytes that says it holds offsets {batch.first} to {batch.end - 1} has CRC "
        f"{batch.crc:08x} in its header, and its bytes have CRC {batch.computed_crc:08x} (CORRUPT_MESSAGE)"
    )
