"""Audits on a cluster that asks who reads: the verdicts are those of any other cluster, and no secret stands anywhere
afterwards."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession
from support import secret_hunt
from support.certificates import KEY_PASSWORD
from support.foreign_ledgers import HEADER, ForeignApplication, as_json_lines, planted
from support.new_topics import create_topics
from support.patience import PATIENCE_S
from support.secured_cluster import USERS, SecuredCluster, secured_cluster

from delivery_verifier.audit import perform, snapshot
from delivery_verifier.audit.form_request import request_of
from delivery_verifier.cluster import workspaces
from delivery_verifier.pipeline.direct import judge

PLANTED = {"PHANTOM": 1, "LOST": 3, "DUPLICATED": 3, "MISPLACED": 2, "REORDERED": 1}
SETTINGS = "acks=all\nenable.idempotence=true\n"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    # Another module may format a cluster at the same time, and the usual passwords then stand in a command line.
    users = {user: f"{user}-{secrets.token_hex(8)}" for user in USERS}
    with secured_cluster(tmp_path_factory.mktemp("secured"), brokers=[11], users=users) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, folder in (("RUNS", "runs"), ("WORKSPACES", "ws"), ("CONNECTIONS", "connections")):
        monkeypatch.setenv(f"KDV_{name}", str(tmp_path / folder))
    (tmp_path / "connections").mkdir()


def a_topic(cluster: SecuredCluster, name: str) -> str:
    """Makes a topic that the client may read with exactly the documented rights."""
    create_topics(cluster.properties("operator"), NewTopic(name, 2, 1))
    cluster.grant([("topic", name, "literal", operation) for operation in ("Read", "DescribeConfigs")])
    return name


def named(folder: Path, properties: dict[str, str]) -> Path:
    file = folder / "connections" / "production.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    file.chmod(0o600)
    return file


def known_secrets(cluster: SecuredCluster) -> list[str]:
    key = (cluster.certificates / "verifier.key").read_text().splitlines()[1]
    return [*cluster.users.values(), KEY_PASSWORD, key]


def test_a_command_finds_what_was_planted_and_leaves_no_secret(secured: SecuredCluster, tmp_path: Path) -> None:
    """Spark writes an event log, as a user may have asked for in its defaults."""
    topic, operator = a_topic(secured, "planted"), secured.properties("operator")
    ledger = as_json_lines(
        tmp_path / "acks.jsonl", planted("", topic, settings=operator).rows, complete=True, identity=f"header:{HEADER}"
    )
    (tmp_path / "producer.properties").write_text(SETTINGS)
    (tmp_path / "conf").mkdir()
    events = tmp_path / "events"
    events.mkdir()
    logged = "spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.rolling.enabled false\n"
    (tmp_path / "conf/spark-defaults.conf").write_text(f"{logged}spark.eventLog.dir {events.as_uri()}\n")
    config = named(tmp_path, secured.properties())
    words = [sys.executable, "-m", "delivery_verifier", "audit", "--ledger", str(ledger), "--topic", topic, "--json"]
    words += ["--command-config", str(config), "--producer-config", str(tmp_path / "producer.properties")]
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path / "conf"), "PYTHONPATH": os.pathsep.join(sys.path)}
    hidden = known_secrets(secured)
    with secret_hunt.watching_processes(hidden) as in_processes:
        ended = subprocess.run(words, env=environment, capture_output=True, timeout=PATIENCE_S, check=False)
    verdict = json.loads(ended.stdout)
    (subject,) = [arm for arm in verdict["arms"] if arm["role"] == "subject"]
    cases = {each["anomaly"]: each["count"] + each["also"] for each in subject["findings"]}
    assert verdict["verdict"] == "VIOLATED", ended.stderr
    assert {kind: count for kind, count in cases.items() if count} == PLANTED
    assert secret_hunt.in_text(ended.stdout + ended.stderr, hidden) == [] and in_processes == set()
    assert secret_hunt.in_files([tmp_path / "runs", tmp_path / "ws", events], hidden) == []
    assert b"SparkListenerSQLExecutionStart" in b"".join(file.read_bytes() for file in events.iterdir())
    assert workspaces.all_workspaces() == [] and [*(tmp_path / "ws").iterdir()] == []
    config.unlink()  # the run is judged from its files alone
    again = [sys.executable, "-m", "delivery_verifier", "reconcile", "latest", "--json"]
    repeated = subprocess.run(again, env=environment, capture_output=True, timeout=PATIENCE_S, check=False)
    assert json.loads(repeated.stdout)["arms"] == verdict["arms"], repeated.stderr


@pytest.mark.parametrize("way", ["scram", "mutual"])
def test_a_sound_ledger_is_held_with_exactly_the_documented_rights_and_a_name_for_the_cluster(
    secured: SecuredCluster, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(snapshot, "QUIET_S", 0.2)
    topic = a_topic(secured, f"sound-{way}")
    application = ForeignApplication("", topic, **secured.properties("operator"))
    application.write_many([f"order-{number}" for number in range(200)])
    as_json_lines(tmp_path / "acks.jsonl", application.rows, complete=True, identity=f"header:{HEADER}")
    properties = secured.properties()
    if way == "mutual":
        certificates = secured.certificates
        properties = {
            "bootstrap.servers": secured.servers("MTLS"),
            "security.protocol": "SSL",
            "ssl.ca.location": properties["ssl.ca.location"],
            "ssl.certificate.location": str(certificates / "verifier.crt"),
            "ssl.key.location": str(certificates / "verifier.locked.key"),
            "ssl.key.password": KEY_PASSWORD,
        }
    named(tmp_path, properties)
    fields = {"ledger": f"{tmp_path}/acks.jsonl", "topic": topic, "cluster": "production", "producer_config": SETTINGS}
    fields |= dict.fromkeys(("identity", "identity_sql", "format", "claim"), "")
    request, run_dir = request_of(fields | {"complete": False, "others_write": False}, "held"), tmp_path / "runs/held"
    perform.perform(request, run_dir, lambda _records: spark, lambda _text: None)
    verdict = judge(run_dir, lambda _progress: None, lambda: spark)
    assert (verdict.verdict, [doubt for arm in verdict.arms for doubt in arm.doubts]) == ("HELD", [])
    assert secret_hunt.in_files([tmp_path / "runs", tmp_path / "ws"], known_secrets(secured)) == []


def test_the_hunt_would_find_the_file_that_spark_reads(secured: SecuredCluster, tmp_path: Path) -> None:
    from delivery_verifier.cluster.foreign_topic import connected
    from delivery_verifier.model.external_cluster import ClusterAccess

    topic = a_topic(secured, "hunted")
    named(tmp_path, secured.properties())
    with perform._options(connected(ClusterAccess(cluster="production"), topic)) as options:
        (place,) = secret_hunt.in_files([tmp_path / "ws"], known_secrets(secured))
        assert (
            place.endswith("spark.properties")
            and secret_hunt.in_text(str(options).encode(), known_secrets(secured)) == []
        )
        (workspace,) = workspaces.all_workspaces()
        assert workspaces.is_kept(workspace) and workspaces.sweep_unless_busy() == []
        (workspace / workspaces.AWAITED).write_text("1:1")  # as if this process had been killed
        assert workspaces.sweep_unless_busy() == [workspace]
    assert [*(tmp_path / "ws").iterdir()] == []
