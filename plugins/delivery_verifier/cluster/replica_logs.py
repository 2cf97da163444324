"""The logs of replicas. This module computes the digest of one replica's log, and compares the logs of two replicas.

A follower appends the leader's batches byte by byte. So the logs of two equal replicas have the same bytes: offsets,
leader epochs, checksums, flags (control, transactional) and records. This module compares whole batches, never single
records. It keeps only the batches of the broker's latest answer in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from delivery_verifier.cluster.protocol.batches import CONTROL, TRANSACTIONAL
from delivery_verifier.cluster.protocol.fetch import Fetched, RawBatch, whole_batches

FetchAt = Callable[[int], Fetched]
"""A function that fetches batches of one replica. Its argument is the offset at which the batches begin."""


class ReplicaLog(NamedTuple):
    """A summary of the log of one replica.

    * `digest`: the SHA-256 of the bytes of all batches.
    * `read_until`: the first offset after all batches.
    * `batches`: the number of batches.
    * `epochs`: maps each leader epoch to its first offset.
    * `sound`: True if the checksum of every batch is right, and every batch begins where the previous batch ended.
    """

    digest: str
    read_until: int
    batches: int
    epochs: dict[int, int]
    sound: bool


class Difference(NamedTuple):
    """A difference between two logs. All offsets at which the logs differ lie in [first, end). `detail` describes the
    first difference in words."""

    first: int
    end: int
    detail: str


def log_batches(fetch: FetchAt, start: int, end: int) -> Iterator[RawBatch]:
    """Yields the batches of a replica that contain offsets in [start, end).

    If the replica's high watermark is below `end`, yields only the batches below the high watermark. Raises OSError if
    `fetch` fails, or if a batch is malformed.
    """
    offset = start
    while offset < end:
        batches = [batch for batch in whole_batches(fetch(offset).data) if batch.end > offset]
        if not batches:
            return
        for batch in batches:
            if batch.first >= end:
                return
            yield batch
            offset = max(offset, batch.end)


def read_log(batches: Iterator[RawBatch], start: int) -> ReplicaLog:
    """Reads all of `batches`, and returns a summary of the log.

    `start` is the offset at which the reading began. If there are no batches, `read_until` of the summary is `start`.
    """
    digest, read_until, count, epochs, sound = hashlib.sha256(), start, 0, dict[int, int](), True
    for batch in batches:
        digest.update(batch.data)
        follows = batch.first == read_until or (not count and 0 <= batch.first < read_until)
        sound = batch.sound and follows and sound
        read_until, count = batch.end, count + 1
        if batch.epoch not in epochs:
            epochs[batch.epoch] = batch.first
    return ReplicaLog(digest.hexdigest(), read_until, count, epochs, sound)


def difference(leader: Iterator[RawBatch], follower: Iterator[RawBatch]) -> Difference | None:
    """Compares two logs batch by batch. Returns None if the logs are equal."""
    left, right = next(leader, None), next(follower, None)
    result: Difference | None = None
    while left is not None or right is not None:
        present = [batch for batch in (left, right) if batch is not None]
        behind = min(batch.end for batch in present)
        if left != right:
            # A batch that begins behind the other one is not different yet. It is compared with the next batch.
            different = [batch for batch in present if batch.first < behind] or present
            first, end = min(batch.first for batch in different), max(batch.end for batch in different)
            if result is None:
                result = Difference(first, end, f"it has {_words(right)}, the leader has {_words(left)}")
            else:
                result = result._replace(first=min(first, result.first), end=max(end, result.end))
        left = next(leader, None) if left is not None and left.end <= behind else left
        right = next(follower, None) if right is not None and right.end <= behind else right
    return result


def _words(batch: RawBatch | None) -> str:
    if batch is None:
        return "no further batch"
    flags = {"transactional": TRANSACTIONAL, "control": CONTROL}
    kind = "".join(f"{name} " for name, bit in flags.items() if batch.attributes & bit)
    return (
        f"a {kind}batch of offsets {batch.first} to {batch.end - 1}, leader epoch {batch.epoch}, CRC {batch.crc:08x}, "
        f"{len(batch.data)} bytes"
    )
