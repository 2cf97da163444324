"""Tests of the first half of `reconcile` on a real broker: the records that it reads, the records behind the snapshot,
and the conditions under which it must fail."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.new_topics import create_topics
from support.patience import PATIENCE_S
from support.record_batches import damage_on_disk
from support.run_directories import TOKEN, attempt, scenario, table, write

from delivery_verifier.cluster import damage
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.damage import unreadable
from delivery_verifier.cluster.embedded import nodes as embedded
from delivery_verifier.cluster.layout import CONTROLLER
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.data import dumps
from delivery_verifier.model.held_back import HeldBack
from delivery_verifier.model.scenario import ClusterSpec, Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot, read_offsets
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.reading import read_topic
from spark_jobs.reconcile import read, reconcile

RECORDS = 5000


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of requests to a broker, one after another, took more than a minute beside two other lanes of tests."""
    monkeypatch.setattr(damage, "SEARCH_S", 600.0)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The bootstrap servers of one controller and one broker, which end after the tests of the module.

    No test kills the broker. With its long session timeout, the controller does not fence it on a busy host.
    """
    spec = ClusterSpec(brokers=1, session_timeout_ms=60_000)
    layout = embedded.lay_out(tmp_path_factory.mktemp("kafka") / "w", spec)
    nodes = [
        subprocess.Popen(embedded.command(layout, node), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for node in (CONTROLLER, *layout.brokers)
    ]
    try:
        _wait_for(layout.connection.bootstrap_servers)
        yield layout.connection.bootstrap_servers
    finally:
        for node in nodes:
            node.kill()
            node.wait()


def _wait_for(servers: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    while True:
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def _produce(
    servers: str, made: Scenario, sequences: range, partition: int, producer: int = 0, arm: str = "one"
) -> None:
    """Writes acknowledged records of an arm. The partition sequence of each record is its sequence.

    Without idempotence, a retry on a busy host would write a batch twice, or behind a later one.
    """
    batches = {"linger.ms": 20, "batch.num.messages": 500}
    client = Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True} | batches)
    for n in sequences:
        value = record.encode(TOKEN, made.arm(arm).ordinal, producer, 0, n, 0, n, 100)
        client.produce(made.arm(arm).topic_name, value, partition=partition)
        client.poll(0)
    assert client.flush(PATIENCE_S) == 0


@pytest.fixture
def run(brokers: str, tmp_path: Path, request: pytest.FixtureRequest) -> RunDirectory:
    """A run directory whose topics hold RECORDS acknowledged records in partition 0, none in partition 1, and two
    markers behind each snapshot.

    A parameter of the fixture names the arms that are read in both views (raw and committed).
    """
    plain = scenario(["one"], transactional=getattr(request, "param", ()))
    title = re.sub("[^a-zA-Z0-9_]+", "-", request.node.name)[:150]
    arms = tuple(msgspec.structs.replace(arm, topic_name=f"{title}-{arm.name}") for arm in plain.arms)
    made = msgspec.structs.replace(plain, arms=arms)
    topics = [NewTopic(arm.topic_name, 2, 1, config={"retention.ms": "-1"}) for arm in arms]
    create_topics({"bootstrap.servers": brokers}, *topics, may_be_fenced=True)
    _produce(brokers, made, range(RECORDS), 0)
    for arm in arms:
        for partition in (0, 1):
            _produce(brokers, made, range(2), partition, producer=record.MARKER_PRODUCER, arm=arm.name)
    directory = write(tmp_path, made, [attempt("one", n, offset=n) for n in range(RECORDS)], [])
    (tmp_path / "read_topic.json").unlink()
    _end_at(directory, brokers, RECORDS)
    return directory


def _end_at(run: RunDirectory, servers: str, end: int, end_of_1: int = 0) -> None:
    """Writes a snapshot of arm `one`, as the step settle would write it: partition 0 ends at the offset `end`,
    partition 1 at `end_of_1`."""
    offsets = msgspec.json.decode((run.path / "offsets.json").read_bytes(), type=Offsets)
    ends = [(end, end_of_1)[part.partition] if part.arm == "one" else 0 for part in offsets.partitions]
    parts = [
        msgspec.structs.replace(part, end=at, live_end=at + 2)
        for part, at in zip(offsets.partitions, ends, strict=True)
    ]
    with run.writing("settle") as output:
        changed = msgspec.structs.replace(offsets, bootstrap_servers=servers, partitions=parts)
        (output.staging / "offsets.json").write_bytes(dumps(changed))
        output.counts |= run.manifest("settle").counts


def _unbalanced(run: RunDirectory) -> set[str]:
    return {row["invariant"] for row in table(run, "counts/invariants.parquet") if row["left"] != row["right"]}


def _totals(run: RunDirectory, *names: str) -> list[int]:
    rows = [row for row in table(run, "counts/producers.parquet") if row["arm"] == "one"]
    return [sum(row[name] for row in rows) for name in names]


def test_every_record_of_the_snapshot_is_read_and_markers_behind_it_are_not_the_load(
    run: RunDirectory, kafka_spark: SparkSession
) -> None:
    reconcile(run.path, False, kafka_spark)
    assert _unbalanced(run) == set()
    assert _totals(run, "found", "log_records", "lost", "phantoms", "unattributed") == [RECORDS, RECORDS, 0, 0, 0]
    assert run.manifest("read_topic").counts["read/one"] == RECORDS
    before = sorted(row.items() for row in table(run, "counts/producers.parquet"))
    reconcile(run.path, True, kafka_spark)
    assert sorted(row.items() for row in table(run, "counts/producers.parquet")) == before


def test_a_record_behind_the_snapshot_unbalances_log_moved_and_is_neither_lost_nor_phantom(
    run: RunDirectory, brokers: str, kafka_spark: SparkSession
) -> None:
    _produce(brokers, run.read_scenario(), range(RECORDS, RECORDS + 1), 0)
    reconcile(run.path, False, kafka_spark)
    assert _unbalanced(run) == {"log_moved"}
    assert _totals(run, "lost", "phantom") == [0, 0]


def test_records_of_a_foreign_writer_are_counted_and_no_anomaly_but_remains_of_a_record_are(
    run: RunDirectory, brokers: str, kafka_spark: SparkSession
) -> None:
    topic = run.read_scenario().arm("one").topic_name
    mine = record.encode(TOKEN, 1, 0, 0, 1, 0, 1, 100)
    strange: list[bytes | None] = [b'{"order": 7}', None, b""]
    client = Producer({"bootstrap.servers": brokers})
    for value in (*strange, mine[:40], mine[10:]):
        client.produce(topic, value, partition=1)
    assert client.flush(PATIENCE_S) == 0
    _produce(brokers, run.read_scenario(), range(2), 1, producer=record.MARKER_PRODUCER)
    _end_at(run, brokers, RECORDS, 2 + len(strange) + 2)
    reconcile(run.path, False, kafka_spark)
    assert _unbalanced(run) == set()
    assert _totals(run, "unattributed", "corrupted", "phantom", "lost") == [len(strange) + 2, 2, 0, 0]
    assert run.manifest("reconcile").counts["foreign_writers/one"] == len(strange)


def test_a_snapshot_whose_end_the_brokers_no_longer_hold_fails_the_job(
    run: RunDirectory, brokers: str, kafka_spark: SparkSession
) -> None:
    _end_at(run, brokers, RECORDS + 1000)
    with pytest.raises(RuntimeError, match="0 of 2 markers were read behind the snapshot"):
        reconcile(run.path, False, kafka_spark)
    assert not (run.path / "read_topic.json").exists() and not (run.path / "reconcile.json").exists()


def test_a_snapshot_whose_start_the_brokers_no_longer_hold_fails_the_job(
    run: RunDirectory, brokers: str, kafka_spark: SparkSession
) -> None:
    admin, gone = AdminClient({"bootstrap.servers": brokers}), RECORDS // 2
    for done in admin.delete_records([TopicPartition(run.read_scenario().arm("one").topic_name, 0, gone)]).values():
        assert done.result(PATIENCE_S).low_watermark == gone
    with pytest.raises((PySparkException, Py4JJavaError), match=r"fetch|offset"):
        reconcile(run.path, False, kafka_spark)
    assert not (run.path / "read_topic.json").exists() and not (run.path / "reconcile.json").exists()


def test_a_read_behind_the_snapshot_that_misses_a_marker_fails_the_job(
    run: RunDirectory, brokers: str, kafka_spark: SparkSession
) -> None:
    offsets = msgspec.json.decode((run.path / "offsets.json").read_bytes(), type=Offsets)
    parts = [msgspec.structs.replace(part, live_end=part.end + 3) for part in offsets.partitions]
    with run.writing("settle") as output:
        (output.staging / "offsets.json").write_bytes(dumps(msgspec.structs.replace(offsets, partitions=parts)))
        output.counts |= run.manifest("settle").counts
    with pytest.raises(RuntimeError, match="2 of 3 markers"):
        reconcile(run.path, False, kafka_spark)
    assert not (run.path / "read_topic.json").exists()


@pytest.mark.parametrize("run", [("one",)], indirect=True)
def test_a_committed_view_ends_before_the_markers_only_if_the_snapshot_says_so(
    run: RunDirectory, brokers: str, kafka_spark: SparkSession
) -> None:
    """An open transaction keeps the last stable offset before the markers. A new leader may do the same for a moment.
    Then only the raw view is complete. The two offsets before the last stable offset hold nothing that a consumer that
    reads committed gets: a record of an aborted transaction, and the control record that ends it."""
    _in_transaction(run, brokers, "aborted").abort_transaction(PATIENCE_S)
    _await_last_stable_offset(run, brokers, RECORDS + 4)
    client = _in_transaction(run, brokers, "late")
    _produce(brokers, run.read_scenario(), range(2), 0, producer=record.MARKER_PRODUCER)
    stable = RECORDS + 4  # behind the fixture's markers, the aborted record and its control record
    _end_at(run, brokers, stable + 1)
    with pytest.raises(
        RuntimeError, match="0 of 2 markers were read behind the snapshot by a consumer that reads committed"
    ):
        read(run.path, kafka_spark)
    assert not (run.path / "read_topic.json").exists()
    _hold_back(run, stable)
    read(run.path, kafka_spark)
    assert _views(run) == {"raw": RECORDS + 4, "tail": 2, "committed": RECORDS + 2}
    client.commit_transaction(PATIENCE_S)
    _await_last_stable_offset(run, brokers, stable + 4)  # late record, two markers and control record
    read(run.path, kafka_spark)
    assert _views(run) == {"raw": RECORDS + 4, "tail": 2, "committed": RECORDS + 2}, "what settle saw counts"
    _hold_back(run, None)
    read(run.path, kafka_spark)
    assert _views(run) == {"raw": RECORDS + 4, "tail": 2, "committed": RECORDS + 3, "committed_tail": 2}
    assert run.manifest("read_topic").counts["read_committed/one"] == RECORDS + 3


def _await_last_stable_offset(run: RunDirectory, servers: str, end: int) -> None:
    """Waits until the last stable offset of the arm's partition 0 is `end`. The coordinator answers before the brokers
    have written the control record that ends a transaction."""
    client = AdminClient({"bootstrap.servers": servers})
    partition = TopicPartition(run.read_scenario().arm("one").topic_name, 0)

    def last_stable() -> int:
        asked = {partition: OffsetSpec.latest()}
        (answer,) = client.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED).values()
        return int(answer.result(PATIENCE_S).offset)

    wait_until(lambda: last_stable() == end, f"a last stable offset of {end}", PATIENCE_S)


def _in_transaction(run: RunDirectory, servers: str, name: str) -> Producer:
    """Writes one record in a transaction that stays open. Returns its producer."""
    client = Producer({"bootstrap.servers": servers, "transactional.id": name})
    client.init_transactions(PATIENCE_S)
    client.begin_transaction()
    client.produce(run.read_scenario().arm("one").topic_name, record.encode(TOKEN, 1, 1, 0, 0, 0, 0, 100), partition=0)
    assert client.flush(PATIENCE_S) == 0
    return client


def _hold_back(run: RunDirectory, stable: int | None) -> None:
    """Writes to the snapshot that partition 0 of arm `one` is held back at the last stable offset `stable`."""
    offsets = read_offsets((run.path / "offsets.json").read_bytes())
    held = None if stable is None else HeldBack(last_stable_offset=stable)
    parts = [
        msgspec.structs.replace(part, held_back=held) if (part.arm, part.partition) == ("one", 0) else part
        for part in offsets.partitions
    ]
    with run.writing("settle") as output:
        (output.staging / "offsets.json").write_bytes(dumps(msgspec.structs.replace(offsets, partitions=parts)))
        output.counts |= run.manifest("settle").counts


def _views(run: RunDirectory) -> Counter[str]:
    """Counts the rows of partition 0 of arm `one` in each view."""
    return Counter(row["view"] for row in table(run, "log") if (row["arm"], row["partition"]) == ("one", 0))


def _segment(request: pytest.FixtureRequest, run: RunDirectory) -> Path:
    """Returns the file with the log of partition 0 of arm `one`."""
    topic = run.read_scenario().arm("one").topic_name
    base = request.getfixturevalue("tmp_path_factory").getbasetemp()
    (file,) = {file.resolve() for file in base.glob(f"kafka*/w/**/{topic}-0/{0:020}.log")}
    return Path(file)


def _name_unreadable(run: RunDirectory, servers: str) -> PartitionSnapshot:
    """Adds the unreadable offsets of partition 0 of arm `one` to the snapshot, as the step settle does. Returns the
    partition."""
    host, port = servers.split(",")[0].rsplit(":", 1)
    requests = BrokerRequests(Connection({1: Address(host, int(port))}))
    offsets = read_offsets((run.path / "offsets.json").read_bytes())
    parts = []
    for part in offsets.partitions:
        fetch_some = partial(requests.fetch, 1, part.topic, part.partition)
        parts.append(msgspec.structs.replace(part, unreadable=tuple(unreadable(fetch_some, part.start, part.live_end))))
    with run.writing("settle") as output:
        (output.staging / "offsets.json").write_bytes(dumps(msgspec.structs.replace(offsets, partitions=parts)))
        output.counts |= run.manifest("settle").counts
    return next(part for part in parts if (part.arm, part.partition) == ("one", 0))


@pytest.mark.parametrize(
    ("position", "value", "evidence"),
    [(-2, b"", "CORRUPT_MESSAGE"), (8, b"\0\0\0\7", "CORRUPT_MESSAGE"), (8, b"\x7f\0\0\0", "no whole batch|CORRUPT")],
    ids=["a value", "a length that is too short", "a length that is too great"],
)
def test_a_batch_that_was_damaged_on_disk_is_corrupted_and_the_rest_is_read(
    run: RunDirectory,
    brokers: str,
    kafka_spark: SparkSession,
    request: pytest.FixtureRequest,
    position: int,
    value: bytes,
    evidence: str,
) -> None:
    """Without the unreadable offsets in the snapshot, the read fails. With them, the records there are cases of
    CORRUPTED of the attempts that were acknowledged there, and all other records are found."""
    batch = damage_on_disk(_segment(request, run), 2000, position, value)
    unaware = shutil.copytree(run.path, request.getfixturevalue("tmp_path_factory").mktemp("unaware") / "run")
    with pytest.MonkeyPatch.context() as patch, pytest.raises((Py4JJavaError, PySparkException)):
        patch.setitem(read_topic.CONSUMER, "kafkaConsumer.pollTimeoutMs", "5000")  # it would wait in vain for 30 s
        read(unaware, kafka_spark)
    part = _name_unreadable(run, brokers)
    (damage,) = part.unreadable
    assert damage.first == batch.first and damage.end >= batch.end and re.search(evidence, damage.detail)
    assert damage.end == batch.end or position != -2, "what the broker cannot find by its index is unreadable, too"
    lacking = damage.end - damage.first
    assert lacking < RECORDS / 2
    reconcile(run.path, False, kafka_spark)
    assert _unbalanced(run) == set()
    assert _totals(run, "found", "corrupted", "lost", "phantoms", "unattributed") == [RECORDS, lacking, 0, 0, 0]
    assert run.manifest("read_topic").counts["read/one"] == RECORDS - lacking
    cases = [row for row in table(run, "anomalies") if row["arm"] == "one"]
    others = [row for row in cases if row["kind"] != "CORRUPTED"]
    assert others == [] and len(cases) == lacking, (damage, batch.first, batch.end, others)
    assert sorted(row["acked_offset"] for row in cases) == [*range(damage.first, damage.end)]
    expected = f"offsets {damage.first} to {damage.end - 1} cannot be read: {damage.detail}"
    assert all(row["detail"].endswith(expected) for row in cases)
