"""Tests of the records of `__consumer_offsets`: what is decoded, and that nothing else passes for it.

The encoder here follows Kafka's schemas by itself, and shares no code with the decoder.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.cluster.protocol.group_records import (
    GroupCommit,
    GroupGeneration,
    GroupMember,
    UnknownFormat,
    decode,
)

NAMES = st.text(st.characters(codec="utf-8"), max_size=40)
LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TAIL = b"\x01\x00\x10" + bytes(16)
"""One tagged field, as version 4 of a commit has it (the id of the topic)."""


def text(value: str | bytes | None, width: str = "h") -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack(f">{width}", -1) if encoded is None else struct.pack(f">{width}", len(encoded)) + encoded


def compact(value: str | bytes | None) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return b"\0" if encoded is None else unsigned(len(encoded) + 1) + encoded


def unsigned(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + unsigned(value >> 7)


def commit_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def commit_value(version: int, offset: int, epoch: int, metadata: str, at_ms: int) -> bytes:
    value = struct.pack(">hq", version, offset) + (struct.pack(">i", epoch) if version >= 3 else b"")
    value += (compact if version >= 4 else text)(metadata) + struct.pack(">q", at_ms)
    return value + (struct.pack(">q", -1) if version == 1 else b"") + (TAIL if version >= 4 else b"")


def generation_value(version: int, number: int, members: list[tuple[str, str]]) -> bytes:
    word = compact if version >= 4 else text
    value = struct.pack(">h", version) + word("consumer") + struct.pack(">i", number) + word("range") + word(None)
    value += struct.pack(">q", 7) if version >= 2 else b""
    value += unsigned(len(members) + 1) if version >= 4 else struct.pack(">i", len(members))
    for member_id, client_id in members:
        value += word(member_id) + (word(None) if version >= 3 else b"") + word(client_id) + word("/127.0.0.1")
        value += bytes(8 if version >= 1 else 4)
        value += (compact(b"sub") + compact(b"")) if version >= 4 else text(b"sub", "i") + text(b"", "i")
        value += b"\0" if version >= 4 else b""
    return value + (b"\0" if version >= 4 else b"")


@pytest.mark.slow
@given(st.sampled_from([0, 1]), st.integers(0, 4), NAMES, NAMES, INT, LONG, INT, NAMES, LONG)
def test_a_commit_is_read_in_every_version(
    key: int, version: int, group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, at_ms: int
) -> None:
    record = decode(commit_key(group, topic, partition, key), commit_value(version, offset, epoch, metadata, at_ms))
    kept = epoch if version >= 3 else -1
    assert record == GroupCommit(group, topic, partition, offset, kept, metadata, at_ms)
    assert decode(commit_key(group, topic, partition, key), None) == GroupCommit(group, topic, partition, None)


@given(st.integers(0, 4), NAMES, INT, st.lists(st.tuples(NAMES, NAMES), max_size=4))
def test_a_generation_is_read_in_every_version(
    version: int, group: str, number: int, members: list[tuple[str, str]]
) -> None:
    key = struct.pack(">h", 2) + text(group)
    expected = GroupGeneration(group, number, tuple(GroupMember(*member) for member in members))
    assert decode(key, generation_value(version, number, members)) == expected
    assert decode(key, None) is None


@given(NAMES, NAMES, NAMES, INT)
def test_epochs_and_members_of_the_new_protocol_are_read(group: str, member: str, client: str, epoch: int) -> None:
    epoch_key = struct.pack(">h", 3) + text(group)
    assert decode(epoch_key, struct.pack(">hi", 0, epoch) + b"\0") == GroupGeneration(group, epoch, ())
    value = struct.pack(">h", 0) + compact(None) + compact("rack") + compact(client) + b"whatever follows"
    key = struct.pack(">h", 5) + text(group) + text(member)
    assert decode(key, value) == GroupGeneration(group, -1, (GroupMember(member, client),))


@given(st.integers(6, 2**15 - 1), st.binary(), st.binary())
def test_other_types_are_passed_over(kind: int, key: bytes, value: bytes) -> None:
    assert decode(struct.pack(">h", kind) + key, value) is None
    assert decode(struct.pack(">h", 4) + key, value) is None


@given(st.data())
def test_a_record_that_is_cut_short_is_refused_or_holds_what_it_says(data: st.DataObject) -> None:
    whole = commit_value(data.draw(st.integers(0, 3)), 12, 3, "more", 99)
    cut = whole[: data.draw(st.integers(0, len(whole) - 9))]
    with pytest.raises(UnknownFormat, match="cannot be read"):
        decode(commit_key("group", "topic", 0), cut)


@given(st.binary(max_size=80), st.none() | st.binary(max_size=120))
def test_no_bytes_raise_anything_but_a_refusal(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except UnknownFormat as refused:
        assert "__consumer_offsets" in str(refused)


@pytest.mark.parametrize("version", [-1, 5])
def test_a_newer_version_is_refused(version: int) -> None:
    with pytest.raises(UnknownFormat, match=f"has version {version}, must be at most 4"):
        decode(commit_key("group", "topic", 0), struct.pack(">h", version) + bytes(40))
