"""Asks a leader where a leader epoch ends in its log. Followers ask the same question to find out how much of their own
log the leader does not have (KIP-101).

If an epoch ends before an offset that was below the high watermark in this epoch, the log was cut off: records are gone
that every replica in the ISR had. The module sends the request OffsetForLeaderEpoch of Kafka's protocol in version 2
(`OffsetForLeaderEpochRequest.json`).
"""

from __future__ import annotations

import struct

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.encoding import Reader, call, short_text

TIMEOUT_S = 10.0


def epoch_end(address: Address, topic: str, partition: int, epoch: int) -> int:
    """Returns the first offset behind all records of leader epoch `epoch` and of earlier epochs. Returns -1 if the log
    knows nothing of these epochs.

    `address`: the address of the partition's leader. Raises OSError if the broker does not answer, or does not lead the
    partition.
    """
    body = struct.pack(">hhih", 23, 2, 8, 3) + b"kdv" + struct.pack(">i", 1) + short_text(topic)
    answer = call(address, body + struct.pack(">iiii", 1, partition, -1, epoch), TIMEOUT_S)
    name = f"{topic}/{partition}"
    try:
        error, end = _end(Reader(answer), name)
    except (struct.error, IndexError, ValueError) as wrong:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {wrong}") from None
    if error:
        raise ConnectionError(f"the broker at {address} does not say where epoch {epoch} of {name} ends: error {error}")
    return end


def _end(reader: Reader, name: str) -> tuple[int, int]:
    """Reads an OffsetForLeaderEpochResponse v2 about one partition. Returns the error code and the end offset. `name`:
    the name of the partition, `<topic>/<number>`."""
    reader.skip(4 + 4)
    topics, topic = reader.number("i"), reader.short_text()
    partitions, error, partition = reader.number("i"), reader.number("h"), reader.number("i")
    if (topics, partitions, f"{topic}/{partition}") != (1, 1, name):
        raise ValueError(f"it is not about {name}")
    reader.skip(4)
    return error, reader.number("q")
