"""Tests of the proxy before real brokers. An action at the proxy affects all clients that connect through the proxy,
and no other client, until the action is released."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from support.kept_clusters import Kept
from support.new_topics import create_topics
from support.patience import PATIENCE_S
from support.plays import MomentMissed, played

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import ActionContext, Done
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import ClusterSpec, Load, Scenario

SPEC = ClusterSpec(brokers=1, capabilities=("proxy",))
AT_ONCE, TOOK_EFFECT = Trigger(kind="at_once"), Trigger(kind="took_effect")
HANGS_UP_AFTER_MS = 5000
"""How long a client waits for an answer that never comes. A host that stalls for less makes it send nothing twice."""
DELAY_MS = 4000
"""How late the end of a transaction is. A client that does not wait has begun the next one by then."""
LONG = b"a" * 900_000
"""A value whose request is so long that the sockets take a part of it only."""
MADE: list[Client] = []
"""The clients of the running test. A client that still waited for an answer would send its records again during a later
test."""


@pytest.fixture(scope="module")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """A cluster of one broker behind a proxy."""
    with Kept(_own_host / "ws" / uuid.uuid4().hex[:8], SPEC, None).cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[str]:
    """A new topic. After the test, the clients drop what they have not sent, and all rules of the proxy are removed."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    create_topics(cluster.connection.client_properties(), NewTopic(name, 1, 1))
    yield name
    while MADE:
        producer = MADE.pop().producer
        producer.purge()
        producer.flush(5)
    heal(cluster)


@dataclass
class Client:
    """A producer and its delivery reports. `told`: None for each acknowledgement, and an error code for each error."""

    producer: Producer
    topic: str
    told: list[int | None] = field(default_factory=list)

    def send(self, *values: bytes) -> None:
        for value in values:
            self.producer.produce(self.topic, value, partition=0, on_delivery=self._tell)
        self.producer.poll(0)

    def _tell(self, error: KafkaError | None, _: Message) -> None:
        self.told.append(None if error is None else error.code())

    def acked(self, count: int) -> None:
        wait_until(
            lambda: self.producer.poll(0.02) * 0 or len(self.told) >= count, f"{count} acknowledgements", PATIENCE_S
        )
        assert self.told == [None] * count


def client(cluster: Cluster, topic: str, direct: bool = False, **settings: Setting) -> Client:
    servers = cluster.connection.bootstrap_servers if direct else cluster.load_connection.bootstrap_servers
    own = {name.replace("_", "."): value for name, value in settings.items()}
    made = Client(
        Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 0, "client.id": "mine", **own}), topic
    )
    MADE.append(made)
    made.send(b"warm")
    made.acked(1)
    made.told.clear()
    return made


def log(cluster: Cluster, topic: str) -> list[bytes]:
    """Returns the values of all records in the topic except the warm-up record. They are read directly from the
    broker."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.connection.bootstrap_servers, "group.id": "reader", "log_level": 0}
    )
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)[1]
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < end:
        found += [message.value() or b"" for message in consumer.consume(end, timeout=0.2) if message.error() is None]
    consumer.close()
    return [value for value in found if value != b"warm"]


def moment(cluster: Cluster, **options: Setting) -> ActionContext:
    return ActionContext(cluster, [1], options)


def test_closing_instead_of_the_first_response_writes_a_request_twice_but_not_an_idempotent_one(
    cluster: Cluster, topic: str
) -> None:
    weak, safe = (client(cluster, topic, enable_idempotence=kind, client_id=f"is-{kind}") for kind in (False, True))
    now = moment(cluster, count=1, clients=2)
    ACTIONS["close"].do(now)
    assert not ACTIONS["close"].proof(now, Done(0))
    weak.send(b"a", b"b")
    weak.acked(2)
    assert not ACTIONS["close"].proof(now, Done(0)), "one of two clients was hit"
    safe.send(b"c", b"d")
    safe.acked(2)
    assert ACTIONS["close"].proof(now, Done(0)) == {"broker 1": {"is-False": 1, "is-True": 1}}
    assert log(cluster, topic) == [b"a", b"b", b"a", b"b", b"c", b"d"]


def test_held_responses_arrive_in_order_once_they_are_released_and_nothing_is_written_twice(
    cluster: Cluster, topic: str
) -> None:
    mine, now = client(cluster, topic, linger_ms=0), moment(cluster)
    ACTIONS["hold"].do(now)
    mine.send(b"a")
    wait_until(lambda: log(cluster, topic) == [b"a"], "the record to be in the log", PATIENCE_S)
    mine.send(b"b")
    wait_until(lambda: log(cluster, topic) == [b"a", b"b"], "the other one too", PATIENCE_S)
    mine.producer.poll(0.3)
    assert not mine.told
    assert ACTIONS["hold"].proof(now, Done(0)) == {"broker 1": {"mine": 2}}
    ACTIONS["release"].do(now)
    mine.acked(2)
    assert log(cluster, topic) == [b"a", b"b"] and not ACTIONS["hold"].proof(now, Done(0))


def test_a_held_request_is_delivered_on_release_though_its_client_has_hung_up(cluster: Cluster, topic: str) -> None:
    """A network that was down for a while behaves in the same way. The client has meanwhile sent the record again on
    another connection, so the log has two copies."""
    mine, now = (
        client(cluster, topic, socket_timeout_ms=HANGS_UP_AFTER_MS),
        moment(cluster, direction="request", count=1),
    )
    ACTIONS["hold"].do(now)
    mine.send(b"late")
    mine.acked(1)
    assert log(cluster, topic) == [b"late"]
    ACTIONS["release"].do(now)
    wait_until(
        lambda: log(cluster, topic) == [b"late", b"late"], "the request that was held to be appended", PATIENCE_S
    )


def test_dropped_requests_reach_no_log_while_direct_clients_are_untouched(cluster: Cluster, topic: str) -> None:
    mine, other = client(cluster, topic, socket_timeout_ms=HANGS_UP_AFTER_MS), client(cluster, topic, direct=True)
    now = moment(cluster, direction="request")
    ACTIONS["drop"].do(now)
    mine.send(b"mine")
    other.send(b"other")
    other.acked(1)
    wait_until(lambda: ACTIONS["drop"].proof(now, Done(0)), "the request to be swallowed", PATIENCE_S)
    assert log(cluster, topic) == [b"other"] and not mine.told
    heal(cluster)
    mine.acked(1)
    assert log(cluster, topic) == [b"other", b"mine"]


def test_delayed_responses_come_later_and_no_more_than_that(cluster: Cluster, topic: str) -> None:
    mine, now = client(cluster, topic), moment(cluster, delay_ms=700)
    ACTIONS["delay"].do(now)
    sent_s = time.monotonic()  # the same clock as the proxy's, so no stall makes the delay look shorter
    mine.send(b"a")
    mine.acked(1)
    assert time.monotonic() - sent_s >= 0.7
    assert ACTIONS["delay"].proof(now, Done(0)) == {"broker 1": {"mine": 1}}
    assert log(cluster, topic) == [b"a"]


def test_a_request_that_is_stalled_in_its_middle_arrives_whole_when_the_stall_is_over(
    cluster: Cluster, topic: str
) -> None:
    mine, now = (
        client(cluster, topic, socket_send_buffer_bytes=1 << 13, message_max_bytes=2 * len(LONG)),
        moment(cluster, count=1, delay_ms=700),
    )
    ACTIONS["stall"].do(now)
    mine.send(b"short")
    mine.acked(1)
    assert not ACTIONS["stall"].proof(now, Done(0))
    mine.told.clear()
    sent_s = time.monotonic()
    mine.send(LONG)
    mine.acked(1)
    assert time.monotonic() - sent_s >= 0.7
    assert ACTIONS["stall"].proof(now, Done(0)) == {"broker 1": {"mine": 1}}
    assert log(cluster, topic) == [b"short", LONG]


def committed_view(cluster: Cluster, topic: str) -> list[bytes]:
    """Returns the values of all records in the topic's three partitions that a read_committed consumer sees."""
    settings = {
        "bootstrap.servers": cluster.connection.bootstrap_servers,
        "group.id": "reader",
        "enable.partition.eof": True,
    }
    consumer = Consumer({**settings, "isolation.level": "read_committed", "log_level": 0})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
    values, ended = list[bytes](), set[int | None]()
    while len(ended) < 3:
        for message in consumer.consume(100, timeout=0.2):
            if message.error():
                ended.add(message.partition())
            else:
                values.append(message.value() or b"")
    consumer.close()
    return sorted(values)


@pytest.mark.parametrize(
    ("patience_ms", "late", "then", "seen"),
    [
        (1000, "commit", "abort", [b"1 at 0", b"2 at 1"]),  # of the aborted transaction, what came before the late end
        (1000, "abort", "commit", [b"2 at 2"]),  # of the committed transaction, what came after the late end
        (60_000, "commit", "abort", [b"1 at 0"]),
        (60_000, "abort", "commit", [b"2 at 1", b"2 at 2"]),
    ],
)
def test_a_late_end_ends_the_next_transaction_of_a_client_that_did_not_wait(
    cluster: Cluster, patience_ms: int, late: str, then: str, seen: list[bytes]
) -> None:
    """KAFKA-17754 on brokers with version 2 of transactions, which librdkafka does not speak."""
    try:
        assert played(lambda: view_after_a_late_end(cluster, patience_ms, late, then)) == seen
    finally:
        heal(cluster)


def view_after_a_late_end(cluster: Cluster, patience_ms: int, late: str, then: str) -> list[bytes]:
    """Returns the values that a read_committed consumer sees after two transactions. The end of the first one is late.

    Raises MomentMissed if the late end was answered before a client that did not wait had begun its next transaction.
    """
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = topics.admin(cluster.connection)
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(PATIENCE_S)
    settings = {"transactional.id": name, "client.id": name, "socket.timeout.ms": patience_ms, "log_level": 0}
    producer = Producer({"bootstrap.servers": cluster.load_connection.bootstrap_servers, **settings})
    producer.init_transactions(PATIENCE_S)

    def send(transaction: int, partition: int) -> None:
        producer.produce(name, f"{transaction} at {partition}".encode(), partition=partition)
        assert producer.flush(PATIENCE_S) == 0

    now, waits = moment(cluster, delay_ms=DELAY_MS), patience_ms > DELAY_MS
    producer.begin_transaction()
    send(1, 0)
    ACTIONS["delay_end"].do(now)
    getattr(producer, f"{late}_transaction")(PATIENCE_S)
    if waits:
        assert ACTIONS["delay_end"].proof(now, Done(0))
    producer.begin_transaction()
    send(2, 1)
    if not waits and ACTIONS["delay_end"].proof(now, Done(0)):  # the proxy says so, by its own clock
        heal(cluster)
        raise MomentMissed("the late end was answered before the next transaction had begun")
    wait_until(lambda: ACTIONS["delay_end"].proof(now, Done(0)), "the late end to be answered", PATIENCE_S)
    (facts,) = ACTIONS["delay_end"].proof(now, Done(0)).values()
    assert isinstance(facts, Mapping) and facts["error_code"] == 0 and facts["late_ms"] >= DELAY_MS
    assert "EndTxn" not in facts if waits else {"EndTxn", "AddPartitionsToTxn"} <= set(facts)
    heal(cluster)
    send(2, 2)
    getattr(producer, f"{then}_transaction")(PATIENCE_S)
    return committed_view(cluster, name)


class Sends(RunningLoad):
    """A load that one client sends, with one record per step `send`."""

    def __init__(self, by: Client) -> None:
        self.by = by

    def reported(self) -> int:
        return len(self.by.told)

    def outstanding(self) -> int:
        self.by.producer.poll(0)
        return 1 - len(self.by.told)

    def send(self, blocks: int) -> None:
        self.by.send(LONG * blocks)


@pytest.fixture(scope="module")
def plan(cluster: Cluster) -> Scenario:
    """A scenario on one broker. Each test sets the faults of the scenario."""
    load = Load(partitions=1, replication_factor=1)
    made = scenario("proxied", profile=PROFILES["acks_1"], fault=FAULTS["none"], load=load, records=0, cluster=SPEC)
    topics.create(made, cluster.connection)
    return made


def inject(cluster: Cluster, plan: Scenario, by: Client, until: Trigger, action: str = "close") -> Injection:
    options: dict[str, Setting] = {} if action == "delay_end" else {"count": 1}
    options |= {"delay_ms": 10} if action == "stall" or action.startswith("delay") else {}
    steps = (
        FaultStep(trigger=AT_ONCE, action=action, target="leader", options=options),
        FaultStep(trigger=AT_ONCE, action="send"),
        FaultStep(trigger=until, action="release"),
    )
    made = msgspec.structs.replace(plan, fault=FaultPlan(name="planned", summary="planned", steps=steps))
    (found,) = FaultRunner(cluster, made, Sends(by)).run()
    return found


def test_the_runner_proves_just_before_the_release_that_the_proxy_acted(
    cluster: Cluster, topic: str, plan: Scenario
) -> None:
    made = inject(cluster, plan, client(cluster, topic), TOOK_EFFECT)
    assert made.took_effect and made.proof["process_before_heal"] == {"broker 1": {"mine": 1}}
    assert made.hit == {arm.topic_name: [0] for arm in plan.arms} and made.healed_at_us and made.recovered_at_us


@pytest.mark.parametrize("action", ["close", "hold", "drop", "delay", "stall", "delay_end"])
def test_a_proxy_that_is_bypassed_took_no_effect(cluster: Cluster, topic: str, plan: Scenario, action: str) -> None:
    made = inject(cluster, plan, client(cluster, topic, direct=True), Trigger(kind="settled"), action)
    assert not made.took_effect and made.proof["process_before_heal"] == {}
    assert made.healed_at_us


def test_waiting_for_an_effect_that_never_comes_ends_without_one(cluster: Cluster, topic: str, plan: Scenario) -> None:
    hasty = msgspec.structs.replace(plan, load=msgspec.structs.replace(plan.load, deadline_s=1))
    made = inject(cluster, hasty, client(cluster, topic, direct=True), TOOK_EFFECT)
    assert not made.took_effect and "close to have taken effect" in str(made.proof["failed"])


def test_a_rule_without_meaning_is_refused_before_anything_happens(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="Produse"):
        ACTIONS["drop"].do(moment(cluster, api="Produse"))
    ACTIONS["drop"].do(moment(cluster))
    with pytest.raises(RuntimeError, match="proxy: put: ValueError: this rule is in force already"):
        ACTIONS["drop"].do(moment(cluster))
    heal(cluster)


def test_the_proxy_outlives_its_broker_and_foreign_writers(cluster: Cluster, topic: str) -> None:
    """The proxy closes the connection of a client that does not speak Kafka's protocol. It closes every connection
    while the broker is down. Afterwards it serves clients as before."""
    address = ("127.0.0.1", cluster.backend.layout.proxy_ports[1])
    with socket.create_connection(address, timeout=PATIENCE_S) as foreign_writer:
        foreign_writer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert hung_up(foreign_writer)
    mine = client(cluster, topic)
    ACTIONS["kill"].do(moment(cluster))
    with socket.create_connection(address, timeout=PATIENCE_S) as early:
        assert hung_up(early)
    mine.send(b"a")
    ACTIONS["start"].do(moment(cluster))
    mine.acked(1)
    assert log(cluster, topic) == [b"a"]


def hung_up(connection: socket.socket) -> bool:
    """Returns whether the other side has closed the connection. A reset also counts. Waits for the answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
