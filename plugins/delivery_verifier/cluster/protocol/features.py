"""Reads the finalized features of a cluster (KIP-584), e.g. `eligible.leader.replicas.version`, over a plain socket.

librdkafka does not show these features. Kafka's `ApiVersionsRequest.json` and `ApiVersionsResponse.json`, v3, define
the layout of the messages.
"""

from __future__ import annotations

import struct

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.encoding import Reader, call, varint

TIMEOUT_S = 5.0
_FINALIZED = 2
"""The number of the tagged field that holds the finalized features."""


def finalized_features(address: Address, timeout_s: float = TIMEOUT_S) -> dict[str, int]:
    """Returns the version level of each finalized feature, as the broker at `address` reports it. The keys are the
    names of the features.

    Leaves out a feature that is switched off. Raises OSError if the broker does not answer within `timeout_s` seconds,
    or if the answer cannot be read.
    """
    name, version = (varint(len(text) + 1) + text for text in (b"kdv", b"1"))
    request = struct.pack(">hhih", 18, 3, 6, 3) + b"kdv\0" + name + version + b"\0"
    answer = call(address, request, timeout_s)
    try:
        return _features(Reader(answer))
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None


def _features(reader: Reader) -> dict[str, int]:
    """Returns the features in an ApiVersionsResponse v3 that `reader` reads. The header of this response has no tagged
    fields."""
    reader.skip(4)
    if error := reader.number("h"):
        raise ValueError(f"error {error}")
    for _ in range(reader.varint() - 1):
        reader.skip(6)
        reader.tags()
    reader.skip(4)
    features = dict[str, int]()
    for _ in range(reader.varint()):
        tag, size = reader.varint(), reader.varint()
        if tag != _FINALIZED:
            reader.skip(size)
            continue
        for _ in range(reader.varint() - 1):
            feature, level = reader.compact_text(), reader.number("h")
            reader.skip(2)
            reader.tags()
            features[feature] = level
    return features
