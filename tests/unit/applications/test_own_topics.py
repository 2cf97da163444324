"""Tests of effects in an output topic, on librdkafka's mock broker. Transactions are tested on real brokers only."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from support import user_applications
from support.mock_broker import MockBroker
from support.own_members import ARM, OTHER_RUN, Member, value
from support.patience import PATIENCE_S

from delivery_verifier.applications.control import Control
from delivery_verifier.applications.own.described import location_of, pattern_of
from delivery_verifier.applications.own.process import Progress
from delivery_verifier.applications.own.topic import Topic
from delivery_verifier.applications.watermarks import highest_watermarks
from delivery_verifier.model.application import output_topic
from delivery_verifier.model.record import HEADER_BYTES, MARKER_PRODUCER
from delivery_verifier.model.sink_location import SinkLocation

TOPIC = output_topic(ARM.topic_name)


@pytest.fixture
def broker() -> MockBroker:
    return MockBroker()


@pytest.fixture
def member(broker: MockBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Member:
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path / "own"))
    user_applications.toml(tmp_path / "own", "true", "[effects]", 'kind = "topic"')
    return Member(tmp_path, broker.connection)


def test_records_belong_to_the_incarnations_in_which_they_were_written(broker: MockBroker, member: Member) -> None:
    broker.write(TOPIC, [value(1), b'{"v": "%s"}' % value(2), OTHER_RUN])
    member.end_incarnation()
    broker.write(TOPIC, [b"a greeting", value(2), value(3)])
    member.end_incarnation()
    incarnations = member.read()
    assert [incarnation.rows["sequence"].tolist() for incarnation in incarnations] == [[1, 2], [0, 2, 3]]
    assert [incarnation.counted for incarnation in incarnations] == [2, 3]


def test_the_count_comes_from_the_brokers_once_no_member_runs(broker: MockBroker, member: Member) -> None:
    broker.write(TOPIC, [value(1), value(2)])
    member.end_incarnation()
    member.inputs = member.inputs._replace(count_visible=lambda topic: 3 if topic == TOPIC else 0)
    (incarnation,) = member.read()
    assert (len(incarnation.rows), incarnation.counted) == (2, 3), (
        "a record that the reader misses breaks the invariant effects_read"
    )


def test_a_key_may_name_the_record(broker: MockBroker, member: Member, tmp_path: Path) -> None:
    fields = ('kind = "topic"', 'identity = "header"', 'column = "key"')
    user_applications.toml(tmp_path / "own", "true", "[effects]", *fields)
    client = Producer(broker.connection)
    for number in range(2):
        client.produce(TOPIC, b"forwarded", value(number)[:HEADER_BYTES], partition=0)
    client.flush(PATIENCE_S)
    member.end_incarnation()
    assert member.sequences() == [0, 1]


def test_markers_are_found_once_they_are_written(broker: MockBroker, member: Member) -> None:
    broker.write(TOPIC, [value(1), value(0, attempt=2, producer=MARKER_PRODUCER)])
    pattern, searched = pattern_of(member.inputs, location_of(member.inputs)), dict[str, int]()
    reader = member.reader
    assert list(reader.markers(pattern, searched)) == [(2, 0)]
    assert list(reader.markers(pattern, searched)) == []
    broker.write(TOPIC, [value(1, attempt=2, producer=MARKER_PRODUCER)])
    assert list(reader.markers(pattern, searched)) == [(2, 1)]
    assert searched[f"{TOPIC}/0"] == 3 and reader.undecided() == 0


def test_a_topic_that_the_cluster_cut_off_is_read_to_its_end_and_what_it_had_is_noted(
    broker: MockBroker, member: Member
) -> None:
    broker.write(TOPIC, [value(number) for number in range(4)])
    pattern, searched = pattern_of(member.inputs, location_of(member.inputs)), dict[str, int]()
    assert list(member.reader.markers(pattern, searched)) == []
    member.end_incarnation()
    assert highest_watermarks(member.inputs.folder)[-1].offset == 4
    cut_off = MockBroker()
    cut_off.write(TOPIC, [value(0), value(1)])
    member.inputs = member.inputs._replace(connection=cut_off.connection)
    assert list(member.reader.markers(pattern, searched)) == []
    client = Producer(cut_off.connection)
    client.produce(TOPIC, value(1, attempt=2, producer=MARKER_PRODUCER), partition=1)
    client.flush(PATIENCE_S)
    found = list(member.reader.markers(pattern, searched))
    assert found == [(2, 1)], "a partition is read from its end if it was searched beyond it"
    progress = Progress.begin(member.inputs, 0, Control(member.folder))
    (member.folder / "0" / "stdout").touch()
    (member.folder / "0" / "stderr").touch()
    assert progress.update({f"{TOPIC}/0": 4})[f"{TOPIC}/0"] == 2, "the program is not told to only append"
    assert sorted(member.sequences()) == [0, 1, 1]
    assert max(mark.offset for mark in highest_watermarks(member.inputs.folder)) == 4


@pytest.mark.parametrize("column", ["value", "key"])
def test_the_canary_is_planted_where_the_reader_looks(broker: MockBroker, tmp_path: Path, column: str) -> None:
    location = SinkLocation(kind="topic", column=column)
    topic = Topic("canary-out", broker.connection, location, lambda _: -1, tmp_path / "application")
    broker.write("canary-out", [])
    member = Member(tmp_path)
    topic.plant([value(1), value(2)])
    pattern = pattern_of(member.inputs, location)
    sequences = [number for _, part in topic.scans(pattern) for number in part.rows["sequence"].tolist()]
    assert sequences[:2] == [1, 2]
