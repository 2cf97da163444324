"""What an audit needs to reach a topic that somebody else made: exactly the documented rights suffice, and what is
missing is named within seconds, before anything is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import NewTopic
from support.new_topics import create_topics
from support.patience import PATIENCE_S
from support.secured_cluster import SecuredCluster

from delivery_verifier.cluster import foreign_topic
from delivery_verifier.cluster.check.cluster_check import WITHIN_S, Unreachable
from delivery_verifier.cluster.foreign_topic import RightsMissing
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.external_cluster import ClusterAccess

TOPIC = "orders"
Reach = Callable[..., set[str]]


@pytest.fixture(scope="module")
def orders(secured: SecuredCluster) -> Iterator[str]:
    create_topics(secured.properties("operator"), NewTopic(TOPIC, 3, 3))
    yield TOPIC
    for deleted in secured.operator.delete_topics([TOPIC]).values():
        deleted.result(PATIENCE_S)


@pytest.fixture
def lacking(secured: SecuredCluster, orders: str, config: Callable[[dict[str, str]], str]) -> Reach:
    """Gives the client exactly the operations `granted` on the topic. Returns the rights that an audit then misses."""
    access = ClusterAccess(command_config=config(secured.properties()))

    def missing(*granted: str, expected: set[str]) -> set[str]:
        secured.grant([("topic", orders, "literal", operation) for operation in granted])
        seen = list[set[str]]()

        def look() -> bool:
            began_s, said = time.monotonic(), ""
            try:
                connection = foreign_topic.connected(access, orders)
                assert foreign_topic.facts(connection, orders).partitions == 3
                assert {*foreign_topic.look(connection, orders, 3)} == {0, 1, 2}
            except RightsMissing as error:
                said = str(error)
            assert time.monotonic() - began_s < WITHIN_S
            seen.append({line.split()[1] for line in said.splitlines()[1:]})
            for operation in seen[-1]:
                assert f"kafka-acls --bootstrap-server {secured.servers()}" in said
                assert f"--allow-principal User:verifier --operation {operation} --topic {orders}" in said
            return seen[-1] == expected

        wait_until(look, "the rights to count", PATIENCE_S, 0.3, detail=lambda: str(seen))
        return seen[-1]

    return missing


def test_read_and_describe_configs_suffice(lacking: Reach) -> None:
    assert lacking("Read", "DescribeConfigs", expected=set()) == set()


@pytest.mark.parametrize(
    ("granted", "expected"),
    [
        ((), {"Describe", "Read", "DescribeConfigs"}),
        (("Read",), {"DescribeConfigs"}),
        (("DescribeConfigs",), {"Describe", "Read"}),
        (("Describe", "DescribeConfigs"), {"Read"}),
    ],
)
def test_each_missing_right_is_named_with_the_command_that_gives_it(
    lacking: Reach, granted: tuple[str, ...], expected: set[str]
) -> None:
    assert lacking(*granted, expected=expected) == expected


def test_a_wrong_password_is_named_and_not_shown(
    secured: SecuredCluster, orders: str, config: Callable[[dict[str, str]], str]
) -> None:
    access = ClusterAccess(command_config=config(secured.properties(sasl_password="wrong-one")))
    began_s = time.monotonic()
    with pytest.raises(Unreachable, match=r"sasl\.password") as refused:
        foreign_topic.connected(access, orders)
    assert "wrong-one" not in str(refused.value) and time.monotonic() - began_s < WITHIN_S


def test_a_leader_that_cannot_be_reached_is_named(
    secured: SecuredCluster, orders: str, config: Callable[[dict[str, str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers stay as they are. What one of them answers is made to look like silence."""
    secured.grant([("topic", orders, "literal", operation) for operation in ("Read", "DescribeConfigs")])
    real = foreign_topic.cluster_check.facts.software

    def deaf(asking: object, broker: int) -> object:
        if broker == secured.brokers[1]:
            raise TimeoutError
        return real(asking, broker)  # type: ignore[arg-type]

    monkeypatch.setattr(foreign_topic.cluster_check.facts, "software", deaf)
    with pytest.raises(Unreachable, match=f"^broker {secured.brokers[1]} "):
        foreign_topic.connected(ClusterAccess(command_config=config(secured.properties())), orders)
