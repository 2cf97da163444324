"""Tests of producers to which real brokers refuse a permission, in the warm-up and in the load.

tests/unit/load/test_refused_producers.py has the other errors that end a producer, on a mock cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from support.kept_clusters import Kept
from support.log_reader import read_view
from support.new_topics import create_topics
from support.patience import PATIENCE_S
from support.producer_processes import TRANSACTION_RECORDS, sealed, start

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.embedded import nodes
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.producer_process import BEFORE_LOAD, IN_LOAD
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Client, ClusterSpec

AUTHORIZED: dict[str, Setting] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Settings of a node that checks ACLs. The controller needs them, too, because it keeps the ACLs."""
PARTITIONS = 2
CLIENTS = ("librdkafka", "java")
Deny = Callable[[ResourceType, str], None]


@pytest.fixture(scope="module")
def cluster(_own_host: Path) -> Iterator[Cluster]:
    """A cluster of one broker that checks ACLs, with two topics."""
    plain = nodes.controller_settings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "controller_settings", lambda spec: plain(spec) | AUTHORIZED)
        kept = Kept(_own_host / "ws" / "acls", ClusterSpec(brokers=1, broker_settings=AUTHORIZED), None)
    with kept.cluster() as cluster:
        for name in ("closed", *(f"open-{client}" for client in CLIENTS)):
            create_topics(cluster.connection.client_properties(), NewTopic(name, PARTITIONS, 1))
            wait_until(lambda name=name: cluster.isr_full([name]), "the topic to be led", PATIENCE_S)
        yield cluster


@pytest.fixture
def deny(cluster: Cluster) -> Deny:
    """A function that denies everybody to write to a resource. Everybody may describe it."""

    def do(kind: ResourceType, name: str) -> None:
        client: AdminClient = topics.admin(cluster.connection)
        acls = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", "*", operation, permission)
            for operation, permission in (
                (AclOperation.WRITE, AclPermissionType.DENY),
                (AclOperation.DESCRIBE, AclPermissionType.ALLOW),
            )
        ]
        for future in client.create_acls(acls).values():
            future.result(PATIENCE_S)

    return do


@pytest.mark.parametrize("client", CLIENTS)
def test_a_producer_without_permission_for_its_topic_ends_in_its_warm_up_with_the_brokers_words(
    cluster: Cluster, deny: Deny, tmp_path: Path, client: Client
) -> None:
    deny(ResourceType.TOPIC, "closed")
    properties = cluster.connection.client_properties()
    producer = start(tmp_path / "live", properties, "idempotent", topic="closed", client=client)
    ended = producer.process.wait(PATIENCE_S)
    told = str(producer.died(ended))
    assert ended == BEFORE_LOAD, told
    assert "no ACL allows this user WRITE on the topic. The client said: TOPIC_AUTHORIZATION_FAILED: Broker: " in told
    rows, partitions = sealed(producer, tmp_path), [("closed", partition) for partition in range(PARTITIONS)]
    assert {row["error"] for row in rows} == {"TOPIC_AUTHORIZATION_FAILED"}
    assert {row["outcome"] for row in rows} <= {"FAILED", "INDETERMINATE"}, "some by the client, before it queued them"
    assert {*topics.high_watermarks(topics.admin(cluster.connection), partitions).values()} == {0}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_producer_that_loses_its_permission_in_the_load_ends_as_what_it_is_and_its_ledger_is_true(
    cluster: Cluster, deny: Deny, tmp_path: Path, client: Client
) -> None:
    settings = {"client.id": "one-0", **PROFILES["transactional"].producer, "transactional.id": client, "linger.ms": 5}
    more = {"topic": f"open-{client}", "settings": settings, "transaction_records": TRANSACTION_RECORDS}
    properties = cluster.connection.client_properties()
    producer = start(tmp_path / "live", properties, "transactional", client=client, **more)
    control = producer.control
    wait_until(lambda: control[Word.STATE] == State.WARM, "the warm-up", PATIENCE_S, detail=lambda: producer.said_last)
    control[Word.GATE] = Gate.GO
    wait_until(lambda: control[Word.REPORTED] > 200, "the load to flow", PATIENCE_S)
    deny(ResourceType.TRANSACTIONAL_ID, str(producer.spec.settings["transactional.id"]))
    ended = producer.process.wait(PATIENCE_S)
    assert ended == IN_LOAD and producer.may_end(ended), producer.said_last
    assert producer.ended_early.startswith("TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "), producer.ended_early
    assert "Traceback" not in (producer.folder / "stderr").read_text()
    rows, log = sealed(producer, tmp_path), read_view(producer.spec, "read_uncommitted")
    for row in rows:
        if row["outcome"] == "ACKED":
            assert log[row["partition"], row["offset"]].sequence == row["sequence"]
        else:
            assert row["outcome"] == "INDETERMINATE" or row["sequence"] not in {one.sequence for one in log.values()}
    assert sum(row["outcome"] == "ACKED" for row in rows) > 200
    (last,) = {row["transaction_outcome"] for row in rows if row["transaction"] == rows[-1]["transaction"]}
    assert last == "INDETERMINATE", "nobody told the producer how its last transaction ended"
