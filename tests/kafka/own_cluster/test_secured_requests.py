"""The verifier's own requests on a real cluster with TLS, SASL and ACLs: connections are kept, and a missing right
raises, with the resource and the right."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewTopic
from support.patience import PATIENCE_S
from support.secured_cluster import BROKERS, SecuredCluster

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import asking, channels, versions
from delivery_verifier.cluster.protocol.authorization import NotAuthorized
from delivery_verifier.cluster.protocol.messages import api_key
from delivery_verifier.cluster.protocol.requests import BrokerRequests, PartitionState
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.waiting import wait_until

TOPIC = "kdv-owncheck-requests"


@pytest.fixture(scope="module", autouse=True)
def _topic(secured: SecuredCluster) -> None:
    for made in secured.operator.create_topics([NewTopic(TOPIC, 3, 3)]).values():
        made.result(PATIENCE_S)


def connection(secured: SecuredCluster) -> Connection:
    properties = secured.properties()
    del properties["bootstrap.servers"]
    addresses = {broker: Address("127.0.0.1", secured.ports[broker]["SASL"]) for broker in BROKERS}
    return Connection(addresses, properties)


@pytest.fixture
def requests(secured: SecuredCluster) -> BrokerRequests:
    secured.grant([("topic", "kdv-", "prefixed", "Read")])
    made = BrokerRequests(connection(secured))
    wait_until(lambda: _is_seen(made), "the right to count", PATIENCE_S, 0.3)
    return made


def _is_seen(requests: BrokerRequests) -> bool:
    try:
        return all(len(requests.describe_partitions(broker, [TOPIC])) == 3 for broker in BROKERS)
    except NotAuthorized:
        return False


def test_every_replica_is_read_with_the_right_to_read_alone(requests: BrokerRequests) -> None:
    for broker in BROKERS:
        for partition in range(3):
            assert requests.fetch(broker, TOPIC, partition, 0, 1).high_watermark == 0
    assert requests.live_brokers(BROKERS[0]) == {*BROKERS}


def test_a_thread_keeps_one_connection_per_broker_and_another_thread_has_its_own(
    requests: BrokerRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[object]()
    connect = channels.socket.create_connection
    monkeypatch.setattr(
        channels.socket,
        "create_connection",
        lambda address, timeout: (made.append(address), connect(address, timeout))[1],
    )
    fresh = BrokerRequests(requests._connection)

    def ask() -> None:
        for _ in range(3):
            for broker in BROKERS:
                fresh.describe_partitions(broker, [TOPIC])

    ask()
    assert len(made) == len(BROKERS)
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert len(made) == 2 * len(BROKERS)


def test_a_missing_right_raises_with_the_resource_and_the_right(
    secured: SecuredCluster, requests: BrokerRequests
) -> None:
    secured.grant([])
    calls: dict[str, Callable[[], object]] = {
        rf"Describe on the topic {TOPIC}": lambda: requests.describe_partitions(BROKERS[0], [TOPIC]),
        rf"Read on the topic {TOPIC}": lambda: requests.fetch(BROKERS[0], TOPIC, 0, 0, 1),
        rf"DescribeConfigs on the topic {TOPIC}": lambda: requests.topic_setting(BROKERS[0], [TOPIC], "retention.ms"),
        rf"AlterConfigs on the topic {TOPIC}": lambda: requests.alter_topics(BROKERS[0], [TOPIC], "retention.ms", "1"),
        r"Alter on the cluster": lambda: requests.assign_replicas(BROKERS[0], {(TOPIC, 0): [*BROKERS]}),
    }
    wait_until(lambda: not _is_seen(requests), "the right to be gone", PATIENCE_S, 0.3)
    for said, call in calls.items():
        with pytest.raises(NotAuthorized, match=said):
            call()


def test_a_broker_that_does_not_name_eligible_replicas_is_asked_for_the_rest(
    requests: BrokerRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> dict[tuple[str, int], PartitionState]:
        return requests.describe_partitions(BROKERS[0], [TOPIC])

    full, ranges = told(), asking.ranges
    older = lambda channel, timeout_s: {  # noqa: E731
        key: taken for key, taken in ranges(channel, timeout_s).items() if key != api_key("DescribeTopicPartitions")
    }
    monkeypatch.setattr(asking, "ranges", older)
    assert not requests.takes(BROKERS[0], "DescribeTopicPartitions")
    assert told() == full
    monkeypatch.setattr(asking, "ranges", lambda *_: {})
    with pytest.raises(
        versions.NotSpoken, match=r"Metadata is sent in version 7 to 9, but the broker at .* does not know"
    ):
        told()


def test_a_broker_that_has_moved_is_found_where_the_others_say_and_a_dead_one_is_not(
    requests: BrokerRequests, secured: SecuredCluster
) -> None:
    whole, (old,) = requests._connection, free_ports(1)
    moved = {**whole.brokers, BROKERS[0]: Address("127.0.0.1", old)}
    with pytest.raises(ConnectionRefusedError):
        BrokerRequests(Connection(moved, whole.security)).describe_partitions(BROKERS[0], [TOPIC])
    following = BrokerRequests(Connection(moved, whole.security, may_move=True))
    assert following.describe_partitions(BROKERS[0], [TOPIC]) == requests.describe_partitions(BROKERS[0], [TOPIC])
    nobody = BrokerRequests(Connection({**moved, 99: Address("127.0.0.1", old)}, whole.security, may_move=True))
    with pytest.raises(ConnectionRefusedError):
        nobody.describe_partitions(99, [TOPIC])
