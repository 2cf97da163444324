"""Decodes the records of `__consumer_offsets`, the topic in which brokers keep the state of consumer groups.

The formats are those of Kafka's generated schemas (`group-coordinator/src/main/resources/common/message`). A key begins
with the number of its type. These types are decoded:

* 0 and 1: a committed offset (`OffsetCommitKey`, and `OffsetCommitValue` in the versions 0 to 4)
* 2: a generation of a classic group (`GroupMetadataKey`, and `GroupMetadataValue` in the versions 0 to 4)
* 3: an epoch of a group with the protocol of KIP-848 (`ConsumerGroupMetadataValue`)
* 5: a member of such a group (`ConsumerGroupMemberMetadataValue`)

No other type is decoded, e.g. the assignments of a KIP-848 group, or any record of a share group.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from delivery_verifier.model.errors import VerifierError

_FLEXIBLE_SINCE = 4
"""From this version on, the values of the types 0, 1 and 2 write strings and arrays in the compact form of KIP-482."""


class GroupCommit(NamedTuple):
    """A committed offset.

    * `offset`: None if the record removes the offset.
    * `leader_epoch`: -1 if the client sent no leader epoch.
    * `at_ms`: when the coordinator wrote the record, in ms since the epoch. -1 if the record removes the offset.
    """

    group: str
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int = -1
    metadata: str = ""
    at_ms: int = -1


class GroupMember(NamedTuple):
    """A member of a group.

    `assigned`: the partitions that the generation gave to the member, as pairs of topic and number. None if the record
    does not say so: records of a KIP-848 group do not, and groups of other protocol types than `consumer`.
    """

    member_id: str
    client_id: str
    assigned: tuple[tuple[str, int], ...] | None = None


class GroupGeneration(NamedTuple):
    """A record about a generation of a group, or about a member of a KIP-848 group.

    * `number`: the generation of a classic group, or the epoch of a KIP-848 group. -1 if the record is about a member,
      because such a record names no epoch.
    * `members`: all members of the generation of a classic group, or the one member that the record is about. Empty if
      the record is about an epoch.
    """

    group: str
    number: int
    members: tuple[GroupMember, ...]


class UnknownFormat(VerifierError, ValueError):
    """A record of `__consumer_offsets` does not have the format of its type."""


def decode(key: bytes, value: bytes | None) -> GroupCommit | GroupGeneration | None:
    """Decodes one record. Returns None for a record of a type that this module does not decode, and for a record that
    removes a group or a member.

    If `value` is None, the record removes what `key` names. Raises UnknownFormat if the record does not have the format
    of its type.
    """
    try:
        return _decode(_Reader(key), value)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise UnknownFormat(f"a record of __consumer_offsets cannot be read: {error}") from None


def _decode(key: _Reader, value: bytes | None) -> GroupCommit | GroupGeneration | None:
    kind = key.number("h")
    if kind in (0, 1):
        group, topic, partition = _text(key), _text(key), key.number("i")
        return GroupCommit(group, topic, partition, None) if value is None else _commit(group, topic, partition, value)
    if value is None or kind not in _GENERATIONS:
        return None
    return _GENERATIONS[kind](key, _Reader(value))


def _commit(group: str, topic: str, partition: int, value: bytes) -> GroupCommit:
    reader = _Reader(value)
    version = _version(reader, 4)
    offset = reader.number("q")
    epoch = reader.number("i") if version >= 3 else -1
    metadata = _text(reader, compact=version >= _FLEXIBLE_SINCE)
    return GroupCommit(group, topic, partition, offset, epoch, metadata, reader.number("q"))


def _classic(key: _Reader, value: _Reader) -> GroupGeneration:
    group, version = _text(key), _version(value, 4)
    compact = version >= _FLEXIBLE_SINCE
    is_consumer = _text(value, compact) == "consumer"
    number = value.number("i")
    for _ in ("protocol", "leader"):
        _text(value, compact)
    if version >= 2:
        value.skip(8)  # time of the state
    count = value.varint() - 1 if compact else value.number("i")
    members = tuple(_classic_member(value, version) for _ in range(count))
    if not is_consumer:
        members = tuple(member._replace(assigned=None) for member in members)
    return GroupGeneration(group, number, members)


def _classic_member(value: _Reader, version: int) -> GroupMember:
    compact = version >= _FLEXIBLE_SINCE
    member_id = _text(value, compact)
    if version >= 3:
        _text(value, compact)  # group.instance.id
    client_id = _text(value, compact)
    _text(value, compact)  # host
    value.skip(8 if version >= 1 else 4)  # timeouts
    _, assignment = (value.blob(value.varint() - 1 if compact else value.number("i")) for _ in range(2))
    if compact:
        value.tags()
    return GroupMember(member_id, client_id, _assigned(assignment))


def _assigned(assignment: bytes) -> tuple[tuple[str, int], ...] | None:
    """Reads the assignment of a member (`ConsumerProtocolAssignment`). Clients write it, so it may be anything. Returns
    None if it does not have this format."""
    reader, pairs = _Reader(assignment), list[tuple[str, int]]()
    try:
        reader.number("h")
        for _ in range(reader.number("i")):
            topic = _text(reader)
            pairs += [(topic, reader.number("i")) for _ in range(reader.number("i"))]
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    return tuple(pairs)


def _epoch(key: _Reader, value: _Reader) -> GroupGeneration:
    _version(value, 0)
    return GroupGeneration(_text(key), value.number("i"), ())


def _member(key: _Reader, value: _Reader) -> GroupGeneration:
    _version(value, 0)
    group, member_id = _text(key), _text(key)
    for _ in ("instance", "rack"):
        _text(value, compact=True)
    return GroupGeneration(group, -1, (GroupMember(member_id, _text(value, compact=True)),))


_GENERATIONS: dict[int, Callable[[_Reader, _Reader], GroupGeneration]] = {2: _classic, 3: _epoch, 5: _member}
"""Maps the type of a key to the function that decodes a record of this type. The function gets the part of the key
after the type, and the value."""


def _version(value: _Reader, newest: int) -> int:
    version = value.number("h")
    if not 0 <= version <= newest:
        raise UnknownFormat(f"a record of __consumer_offsets has version {version}, must be at most {newest}")
    return version


def _text(reader: _Reader, compact: bool = False) -> str:
    """Reads a string. Returns an empty string for null. Raises IndexError if the record ends too early."""
    return reader.blob(reader.varint() - 1 if compact else reader.number("h")).decode()


class _Reader:
    """Reads the fields of a record one after the other. Raises struct.error or IndexError if the record ends too
    early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._offset = data, 0

    def number(self, code: str) -> int:
        """Reads a big-endian number. `code` is the letter of the number's type in Python's `struct` module."""
        (value,) = struct.unpack_from(">" + code, self._data, self._offset)
        self._offset += struct.calcsize(">" + code)
        return int(value)

    def varint(self) -> int:
        """Reads an unsigned varint."""
        value = shift = 0
        while True:
            byte = self._data[self._offset]
            self._offset += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip(self, count: int) -> None:
        """Skips `count` bytes."""
        self._offset += count

    def blob(self, length: int) -> bytes:
        """Reads `length` bytes. A negative length means null, and the result is then empty."""
        value = self._data[self._offset : self._offset + max(length, 0)]
        if len(value) < length:
            raise IndexError(f"{length} bytes were announced, {len(value)} are there")
        self._offset += len(value)
        return value

    def tags(self) -> None:
        """Skips the tagged fields of KIP-482."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())
