"""Tests of transactions that stay open, on a real broker: the snapshot is taken all the same, and names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from msgspec.structs import replace
from support.kept_clusters import Kept
from support.patience import PATIENCE_S

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import whole_batches
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.scenario import ClusterSpec, Load, Scenario
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.settlement import snapshot
from delivery_verifier.settlement.acked_writer import AckedWriter

SHORT_MS, LONG_MS = 60_000, 900_000
WAIT_S = 10.0


@pytest.fixture(scope="module")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """A cluster of one broker."""
    with Kept(_own_host / "ws" / "hanging", ClusterSpec(brokers=1), None).cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Scenario:
    """A scenario with a transactional arm, whose topics exist. Each topic has two partitions of one replica."""
    plain = scenario(
        "hanging",
        profile=PROFILES["transactional"],
        fault=FAULTS["none"],
        load=Load(partitions=2, replication_factor=1),
        records=1000,
    )
    arms = tuple(replace(arm, profile=replace(arm.profile, topic={"min.insync.replicas": 1})) for arm in plain.arms)
    made = replace(plain, arms=arms)
    topics.create(made, cluster.connection)
    wait_until(lambda: cluster.isr_full([arm.topic_name for arm in arms]), "the topics to be led", PATIENCE_S)
    return made


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Callable[[str, int], Producer]]:
    """A function that returns a producer with a transactional.id and a transaction.timeout.ms."""
    made: list[Producer] = []

    def do(name: str, timeout_ms: int = SHORT_MS) -> Producer:
        settings = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, "log_level": 0}
        made.append(Producer({**cluster.connection.client_properties(), **settings}))
        made[-1].init_transactions(PATIENCE_S)
        return made[-1]

    yield do
    for producer in made:
        producer.purge()


def write(client: Producer, topic: str, partition: int, records: int) -> None:
    """Begins a transaction, and writes records that are acknowledged."""
    client.begin_transaction()
    for number in range(records):
        client.produce(topic, f"value {number}".encode(), partition=partition)
    assert client.flush(PATIENCE_S) == 0


def taken(made: Scenario, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[int, PartitionSnapshot]:
    """Takes the snapshot, and returns the partitions of the subject. Waits WAIT_S for transactions to end."""
    monkeypatch.setattr(snapshot, "_longest_transaction_s", lambda made: WAIT_S - snapshot.DEADLINE_S)
    offsets = snapshot.take_snapshot(made, cluster, AckedWriter(cluster.connection), None)
    others = [part for part in offsets.partitions if part.arm != made.subjects[0].name]
    assert others and all(part.held_back is None for part in others)
    return {part.partition: part for part in offsets.partitions if part.arm == made.subjects[0].name}


def test_a_transaction_that_is_left_open_ends_the_committed_view_and_is_named(
    made: Scenario, cluster: Cluster, client: Callable[..., Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, load, holder = made.subjects[0].topic_name, client("load"), client("left-open", LONG_MS)
    write(load, topic, 0, 3)
    load.commit_transaction(PATIENCE_S)  # its marker stands at offset 3
    write(load, topic, 0, 2)
    load.abort_transaction(PATIENCE_S)  # at 6
    write(holder, topic, 0, 1)
    write(load, topic, 0, 4)
    load.commit_transaction(PATIENCE_S)  # at 12
    parts = taken(made, cluster, monkeypatch)
    held, part = parts[0].held_back, parts[0]
    assert held is not None and parts[1].held_back is None
    assert (part.start, part.end, held.last_stable_offset, part.visible_end) == (0, 13, 7, 7)
    assert (part.control_records, held.control_records, part.visible_controls, part.aborted_records) == (3, 1, 2, 2)
    (transaction,) = held.transactions
    assert (transaction.transactional_id, transaction.state, transaction.timeout_ms) == (
        "left-open",
        "Ongoing",
        LONG_MS,
    )
    assert transaction.first_offset == 7 and transaction.is_ongoing
    assert 0 < transaction.began_at_ms <= transaction.last_at_ms + 60_000 and held.unknown == ""
    holder.abort_transaction(PATIENCE_S)
    assert taken(made, cluster, monkeypatch)[0].held_back is None, "the wait ends as soon as the transaction has ended"


def test_a_transaction_whose_commit_marker_was_lost_is_distinguished_from_one_that_goes_on(
    made: Scenario, cluster: Cluster, client: Callable[..., Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, load = made.subjects[0].topic_name, client("loses-its-marker")
    write(load, topic, 1, 2)
    load.commit_transaction(PATIENCE_S)
    (broker,) = cluster.brokers
    segment = Path(cluster.workspace) / "data" / str(broker) / f"{topic}-1" / f"{0:020}.log"
    wait_until(lambda: _last_is_marker(segment), "the marker to be on disk", PATIENCE_S)
    cluster.agent.apply("process", [broker], {"signal": "SIGKILL"})
    wait_until(lambda: cluster.states()[broker] == "exited", "the broker to exit", PATIENCE_S)
    content = segment.read_bytes()
    *_, last = whole_batches(content)
    segment.write_bytes(content[: -len(last.data)])
    cluster.agent.undo("process", [broker])
    cluster.wait_up()
    wait_until(lambda: cluster.isr_full([arm.topic_name for arm in made.arms]), "the topics to be led", PATIENCE_S)
    parts = taken(made, cluster, monkeypatch)
    held = parts[1].held_back
    assert held is not None and parts[0].held_back is None
    (transaction,) = held.transactions
    assert (transaction.transactional_id, transaction.state) == ("loses-its-marker", "CompleteCommit")
    assert not transaction.is_ongoing, "a hanging transaction: its coordinator has ended it"
    assert transaction.first_offset == held.last_stable_offset == last.first - 2


def _last_is_marker(segment: Path) -> bool:
    *_, last = whole_batches(segment.read_bytes())
    return bool(last.attributes & 0x20)
