"""The versions of each request: which ones are spoken here, and which one a broker takes, too (KIP-35, KIP-511).

The lowest version that both know is sent, so that the same bytes go to every broker that takes them. A higher one is
sent to brokers that have dropped it. Within a range of SPOKEN, the fields that are sent here have the same form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.messages import Answer, api_key, decoded, encoded, unreadable
from delivery_verifier.model.errors import VerifierError

Ranges = dict[int, tuple[int, int]]
"""Maps the number of a request to the lowest and the highest version that a broker takes."""
API_VERSIONS = 3
SPOKEN: dict[str, tuple[int, int]] = {
    "AddPartitionsToTxn": (3, 3),
    "AlterPartitionReassignments": (0, 1),
    "ApiVersions": (API_VERSIONS, API_VERSIONS),
    "CreatePartitions": (0, 3),
    "CreateTopics": (5, 7),
    "DeleteRecords": (0, 2),
    "DeleteTopics": (6, 6),
    "DescribeConfigs": (1, 4),
    "DescribeProducers": (0, 0),
    "DescribeTopicPartitions": (0, 0),
    "DescribeTransactions": (0, 0),
    "ElectLeaders": (1, 2),
    "Fetch": (12, 12),
    "IncrementalAlterConfigs": (0, 1),
    "ListTransactions": (0, 1),
    "Metadata": (7, 9),
    "OffsetCommit": (8, 9),
    "OffsetDelete": (0, 0),
    "OffsetForLeaderEpoch": (2, 4),
    "Produce": (8, 9),
}
"""The versions that are spoken here. From version 13 on, Fetch names topics by their ids. From version 10 on, Metadata
does so beside the names. Version 6 of DeleteTopics is the first that does so (KIP-516)."""
_UNSUPPORTED = 35
_ANSWER_HEADER = 4


class NotSpoken(VerifierError, RuntimeError):
    """The broker takes none of the versions of a request that are spoken here."""

    def __init__(self, name: str, address: Address, taken: tuple[int, int] | None) -> None:
        low, high = SPOKEN[name]
        theirs = "does not know it" if taken is None else f"takes {taken[0]} to {taken[1]}"
        super().__init__(f"{name} is sent in version {low} to {high}, but the broker at {address} {theirs}")


@cache
def question(version: int = API_VERSIONS) -> bytes:
    """Returns the request for the versions that a broker takes."""
    software = {"client_software_name": "kdv", "client_software_version": "1"} if version == API_VERSIONS else {}
    return encoded("ApiVersions", version, **software)


def asked_of(call: Callable[[bytes], Answer], address: Address) -> Ranges:
    """Returns the versions that the broker behind `call` takes. Raises ConnectionError if its answer cannot be read, or
    is a refusal.

    A broker that does not know this version of the question says so, and is asked in version 0 (KIP-511).
    """
    answer, version = call(question()), API_VERSIONS
    if int.from_bytes(answer[_ANSWER_HEADER : _ANSWER_HEADER + 2], "big", signed=True) == _UNSUPPORTED:
        answer, version = call(question(0)), 0
    response = decoded("ApiVersions", version, answer, address)
    if response.error_code:
        raise unreadable(address, f"error {response.error_code}")
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys or ()}


def takes(name: str, taken: Ranges) -> bool:
    """Returns whether the request `name` can be sent to a broker that takes `taken`."""
    (low, high), theirs = SPOKEN[name], taken.get(api_key(name))
    return theirs is not None and max(low, theirs[0]) <= min(high, theirs[1])


def agreed(name: str, taken: Ranges, address: Address) -> int:
    """Returns the lowest version of the request `name` that both sides know. Raises NotSpoken if there is none."""
    if not takes(name, taken):
        raise NotSpoken(name, address, taken.get(api_key(name)))
    return max(SPOKEN[name][0], taken[api_key(name)][0])
