"""Asks a transaction coordinator, over a plain socket, which transactions are open.

librdkafka has no DescribeTransactions (KIP-664). Source of the message layout: Kafka's
`DescribeTransactionsRequest.json` and `DescribeTransactionsResponse.json`, v0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.encoding import Reader, call, varint

TIMEOUT_S = 5.0
_OPEN = "Ongoing"
"""The coordinator's word for a transaction that has records, and whose producer has not asked for its end."""


def open_transactions(address: Address, names: Sequence[str], timeout_s: float = TIMEOUT_S) -> dict[str, int]:
    """Returns when the open transactions of the transactional.ids `names` began, in ms since the epoch. The keys are
    the transactional.ids that have an open transaction.

    The broker at `address` must be the coordinator of all these transactional.ids. Raises OSError if the broker does
    not answer within `timeout_s` seconds, if the answer cannot be read, or if the broker refuses to describe one of the
    transactional.ids.
    """
    listed = b"".join(varint(len(name.encode()) + 1) + name.encode() for name in names)
    request = struct.pack(">hhih", 65, 0, 7, 3) + b"kdv\0" + varint(len(names) + 1) + listed + b"\0"
    answer = call(address, request, timeout_s)
    try:
        described = dict(_described(Reader(answer)))
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None
    if missing := set(names) - set(described):
        raise ConnectionError(f"the broker at {address} did not describe {sorted(missing)}")
    return {name: began_ms for name, (state, began_ms) in described.items() if state == _OPEN}


def _described(reader: Reader) -> list[tuple[str, tuple[str, int]]]:
    """Reads a DescribeTransactionsResponse v0. Returns (transactional.id, (state, begin in ms since the epoch)) for
    each transaction.

    Raises ValueError if the broker refuses to describe a transaction.
    """
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    transactions = []
    for _ in range(reader.varint() - 1):
        error, name, state = reader.number("h"), reader.compact_text(), reader.compact_text()
        if error:
            raise ValueError(f"error {error} for {name}")
        reader.skip(4)
        began_ms = reader.number("q")
        reader.skip(10)
        for _ in range(reader.varint() - 1):
            reader.compact_text()
            reader.compact_ints()
            reader.tags()
        reader.tags()
        transactions.append((name, (state, began_ms)))
    return transactions
