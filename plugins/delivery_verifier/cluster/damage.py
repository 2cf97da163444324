"""Finds the offsets of a log that nobody can read, because bytes of their batches have changed on the broker's disk.

Brokers do not verify the checksum of a batch that they send. So a damaged batch usually arrives, and only its checksum
shows the damage: a consumer then refuses the batch with CORRUPT_MESSAGE. If the damage hits the length of a batch, the
broker itself cannot find the batches behind it, and answers with this error, or with nothing.

The logs of a run have no gaps: each offset holds a record. So all offsets between the last sound batch before the
damage and the first sound batch behind it are unreadable. A batch is sound if its checksum is right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from delivery_verifier.cluster.protocol.batches import CONTROL
from delivery_verifier.cluster.protocol.fetch import (
    CORRUPT_MESSAGE,
    FETCH_BYTES,
    Fetched,
    RawBatch,
    Refused,
    whole_batches,
)
from delivery_verifier.model.unreadable import Unreadable

FetchSome = Callable[[int, int], Fetched]
"""A function that fetches batches of one replica. Its arguments: the first offset, and the most bytes to fetch."""
SEARCH_S = 60.0
"""Seconds in which the end of one damage must be found, if each of its offsets has to be asked for."""


def unreadable(fetch: FetchSome, start: int, end: int) -> Iterator[Unreadable]:
    """Yields the unreadable offsets of a replica in [start, end), ascending. The replica must hold the log up to `end`.

    Raises OSError if the broker does not answer, refuses for another reason than damage, or does not hold the log up to
    `end`, if it serves what it did not serve before, and if the end of a damage is not found within SEARCH_S.
    """
    offset = shown = start
    while offset < end:
        began = offset
        batches, why = _answer(fetch, offset, FETCH_BYTES)
        for batch in batches:
            if not batch.sound:
                why = _crcs(batch)
                break
            offset = max(offset, batch.end)
            shown = shown if batch.attributes & CONTROL else offset
        if offset > began:
            continue  # a damage is the first in the next answer, with as many batches behind it as there is room for
        behind = _next_batch(fetch, offset) or _next_offset(fetch, offset, end)
        behind = min(behind, end)
        _require_unreadable(fetch, offset)
        yield Unreadable(first=offset, end=behind, shown_until=shown, detail=why or "the broker sends no whole batch")
        offset = shown = behind


def _answer(fetch: FetchSome, offset: int, most_bytes: int) -> tuple[list[RawBatch], str]:
    """Returns the whole batches of an answer, without sound batches that end before `offset`, and why no more batches
    can be read. The reason is empty if the answer, as far as it goes, has the form of batches."""
    batches = list[RawBatch]()
    try:
        fetched = fetch(offset, most_bytes)
    except Refused as error:
        if error.code != CORRUPT_MESSAGE:
            raise
        return batches, str(error)
    if fetched.high_watermark <= offset:
        raise ConnectionError(f"the log is known only up to offset {fetched.high_watermark}")
    try:
        batches.extend(batch for batch in whole_batches(fetched.data) if batch.end > offset or not batch.sound)
    except ConnectionError as error:
        return batches, str(error)
    return batches, ""


def _next_batch(fetch: FetchSome, offset: int) -> int | None:
    """Returns the first offset of the first sound batch behind the damage at `offset`, by the headers of the batches.

    Headers are believed only where batches that follow each other byte by byte also have offsets that follow each
    other. Returns None where they do not: a damaged header can name any length and any offset.
    """
    first = offset
    while True:
        batches, _ = _answer(fetch, first, FETCH_BYTES)
        if len(batches) < 2 or batches[0].first != first:
            return None
        for left, right in pairwise(batches):
            if right.first != left.end:
                return None
            if right.sound:
                return right.first
        first = batches[-1].first


def _next_offset(fetch: FetchSome, offset: int, end: int) -> int:
    """Returns the first offset behind the damage at `offset` for which the broker sends a sound batch; `end` if there
    is none.

    Asks the broker for one offset after another. So it is certain that a consumer can read no offset in between. A
    broker finds a batch by the nearest offset in its index. So it may find only the last offset of a batch.
    """
    until_s = time.monotonic() + SEARCH_S
    for candidate in range(offset + 1, end):
        batches, _ = _answer(fetch, candidate, 1)
        if batches and batches[0].sound and batches[0].first <= candidate:
            return candidate
        if time.monotonic() > until_s:
            raise ConnectionError(f"the end of the damage at offset {offset} was not found within {SEARCH_S:g} s")
    return end


def _require_unreadable(fetch: FetchSome, offset: int) -> None:
    """Raises ConnectionError if the broker now serves `offset`, which it did not serve before.

    An answer without batches may have another cause than damage, for example a quota. Such a cause passes.
    """
    batches, _ = _answer(fetch, offset, 1)
    if batches and batches[0].sound and batches[0].first <= offset:
        raise ConnectionError(f"offset {offset} could not be read, and then it could")


def _crcs(batch: RawBatch) -> str:
    return (
        f"a batch of {len(batch.data)} bytes that says it holds offsets {batch.first} to {batch.end - 1} has CRC "
        f"{batch.crc:08x} in its header, and its bytes have CRC {batch.computed_crc:08x} (CORRUPT_MESSAGE)"
    )
