"""Spark reads the topics of a cluster that asks who reads: in this process, on a Spark Connect server, and as a
submitted job. No secret stands anywhere afterwards, though each Spark shows all that it can.

The hunt itself is shown to find what it should: a secret that the test plants.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession
from support import secret_hunt
from support.certificates import KEY_PASSWORD, STORE_PASSWORD
from support.new_topics import create_topics
from support.patience import PATIENCE_S
from support.run_directories import TOKEN, attempt, scenario, table, write
from support.secured_cluster import USERS, SecuredCluster, secured_cluster
from support.shown_spark import SHOWN, Stand, ask, shown_server

from delivery_verifier.cluster.security import spark_options
from delivery_verifier.host.java.jars import spark_jars
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.ports import free_ports
from delivery_verifier.model import record
from delivery_verifier.model.data import dumps
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.orchestration.tasks import spark_job
from delivery_verifier.store.run_directory import RunDirectory
from spark_jobs import reconcile as job
from spark_jobs.reading.read_topic import read_topics
from spark_jobs.reading.write_log import read_offsets_of
from spark_jobs.session.classic import settings

RECORDS = 500
WAYS = ("scram", "plain", "locked", "store")


class Hunted:
    """A run on a secured cluster: `workspace` is its workspace, and `secrets` are what nobody may show."""

    def __init__(self, cluster: SecuredCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.workspace, self.run = folder / "ws" / TOKEN, RunDirectory(folder / "run")
        key = (cluster.certificates / "verifier.key").read_text().splitlines()[1]
        self.secrets = [*cluster.users.values(), KEY_PASSWORD, STORE_PASSWORD, key]

    def hunt(self, *more: Path) -> list[str]:
        """Where the secrets stand in the files of the run."""
        return secret_hunt.in_files([self.folder / "ws", self.run.path, *more], self.secrets)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    # Another module may format a cluster at the same time, and the usual passwords then stand in a command line.
    users = {user: f"{user}-{secrets.token_hex(8)}" for user in USERS}
    with secured_cluster(tmp_path_factory.mktemp("secured"), brokers=[11], users=users) as cluster:
        yield cluster


@pytest.fixture
def hunted(secured: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hunted:
    """A run whose topic holds RECORDS records and two markers per partition, and a file for each way to connect."""
    made = Hunted(secured, tmp_path)
    made.workspace.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("KDV_CONNECTIONS", str(tmp_path / "connections"))
    (tmp_path / "connections").mkdir()
    own, mutual = secured.properties(), {"security.protocol": "SSL", "bootstrap.servers": secured.servers("MTLS")}
    certificates = secured.certificates
    mutual["ssl.ca.location"] = own["ssl.ca.location"]
    locked = {
        "ssl.certificate.location": str(certificates / "verifier.crt"),
        "ssl.key.location": str(certificates / "verifier.locked.key"),
        "ssl.key.password": KEY_PASSWORD,
    }
    store = {"ssl.keystore.location": str(certificates / "verifier.p12"), "ssl.keystore.password": STORE_PASSWORD}
    ways = (own, own | {"sasl.mechanism": "PLAIN"}, mutual | locked, mutual | store)
    for name, properties in zip(WAYS, ways, strict=True):
        file = tmp_path / "connections" / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        file.chmod(0o600)
    _fill(made, f"kdv-{re.sub('[^a-z]+', '-', tmp_path.name)[:40]}")
    return made


def _fill(hunted: Hunted, topic: str) -> None:
    operator = hunted.cluster.properties("operator")
    hunted.cluster.grant([("topic", "kdv-", "prefixed", "Read")])
    plain = scenario(["one"])
    arms = tuple(msgspec.structs.replace(arm, topic_name=f"{topic}-{arm.name}") for arm in plain.arms)
    made = msgspec.structs.replace(plain, arms=arms)
    create_topics(operator, *(NewTopic(arm.topic_name, 2, 1, config={"retention.ms": "-1"}) for arm in arms))
    client = Producer({**operator, "acks": "all", "enable.idempotence": True, "linger.ms": 20})
    subject = made.arm("one")
    for n in range(RECORDS):
        value = record.encode(TOKEN, subject.ordinal, 0, 0, n, 0, n, 100)
        client.produce(subject.topic_name, value, partition=0)
    assert client.flush(PATIENCE_S) == 0
    for arm in arms:
        for partition in (0, 1):
            for n in range(2):
                value = record.encode(TOKEN, arm.ordinal, record.MARKER_PRODUCER, 0, n, 0, n, 100)
                client.produce(arm.topic_name, value, partition=partition)
    assert client.flush(PATIENCE_S) == 0
    run = write(hunted.run.path, made, [attempt("one", n, offset=n) for n in range(RECORDS)], [])
    (run.path / "read_topic.json").unlink()
    offsets = msgspec.json.decode((run.path / "offsets.json").read_bytes(), type=Offsets)
    ends = [RECORDS if (part.arm, part.partition) == ("one", 0) else 0 for part in offsets.partitions]
    parts = [
        msgspec.structs.replace(part, end=end, live_end=end + 2)
        for part, end in zip(offsets.partitions, ends, strict=True)
    ]
    with run.writing("settle") as output:
        changed = msgspec.structs.replace(offsets, bootstrap_servers="nowhere.example:1", partitions=parts)
        (output.staging / "offsets.json").write_bytes(dumps(changed))
        output.counts |= run.manifest("settle").counts


def _require_books(run: RunDirectory) -> None:
    assert run.manifest("read_topic").counts["read/one"] == RECORDS
    assert {row["law"] for row in table(run, "books/laws.parquet") if row["left"] != row["right"]} == set()


def test_a_spark_of_ones_own_reads_in_every_way(hunted: Hunted, kafka_spark: SparkSession) -> None:
    whole = RECORDS + 2 * len(read_offsets_of(hunted.run).partitions)
    for way in WAYS:
        connection = Stand(way, hunted.workspace).connection
        with spark_options.granted(connection, hunted.workspace) as options:
            frame = read_topics(kafka_spark, read_offsets_of(hunted.run), connection=options)
            assert frame.count() == whole, way
            plan = frame._jdf.queryExecution().toString()  # all four plans
        assert secret_hunt.in_text(plan.encode(), hunted.secrets) == []
    assert hunted.hunt() == []


def test_a_spark_connect_server_shows_no_secret_in_its_pages_answers_and_events(hunted: Hunted) -> None:
    home, sixth = hunted.folder / "home", f"planted-{secrets.token_hex(8)}"
    with shown_server(home) as server, secret_hunt.watching_processes(hunted.secrets) as in_processes:
        said = ask("read", server.url, str(hunted.run.path), str(hunted.workspace), *WAYS)
        whole = RECORDS + 2 * hunted.run.read_scenario().load.partitions
        assert said.splitlines()[: len(WAYS)] == [f"{way} {whole}" for way in WAYS]
        _require_books(hunted.run)
        found, pages = secret_hunt.in_ui(server.ui, hunted.secrets)
        assert found == [] and secret_hunt.in_text(said.encode(), hunted.secrets) == []
        assert {"/connect/", "/jobs/", "/stages/", "/environment/", "/SQL/"} <= pages, sorted(pages)
        paths, _ = secret_hunt.in_ui(server.ui, [str(hunted.workspace / spark_options.FILE)])
        assert any("/connect/" in page for page in paths), "the pages show the options, and what they show is a path"
        ask("plant", server.url, str(hunted.run.path / "scenario.json"), sixth)
        shown, _ = secret_hunt.in_ui(server.ui, [sixth])
    assert any("/connect/" in page for page in shown) and any("/api/v1/" in page for page in shown), shown
    assert hunted.hunt(home) == [] and in_processes == set()
    assert any(str(server.events) in place for place in secret_hunt.in_files([home], [sixth]))


def test_a_submitted_job_shows_no_secret_in_its_command_events_and_output(hunted: Hunted, tmp_path: Path) -> None:
    (ui,) = free_ports(1)
    events = tmp_path / "events"
    events.mkdir()
    conf = settings() | SHOWN | {"spark.ui.port": str(ui), "spark.eventLog.dir": events.as_uri()}
    conf["spark.jars"] = ",".join(map(str, spark_jars()))
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    environment = os.environ | {
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]", *options]
    cluster = Stand("scram", hunted.workspace)
    with (
        secret_hunt.watching_processes(hunted.secrets) as in_processes,
        spark_job.connected(cluster, spark_options.HERE) as arguments,
    ):
        words = [*submit, str(job.__file__), "--run-dir", str(hunted.run.path), *arguments]
        ended = subprocess.run(words, env=environment, capture_output=True, timeout=PATIENCE_S, check=False)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said[-4000:]
    _require_books(hunted.run)
    assert secret_hunt.in_text(said, hunted.secrets) == []
    assert hunted.hunt(events) == [] and in_processes == set()
    assert any(events.iterdir()) and [*hunted.workspace.iterdir()] == []


def test_the_hunt_finds_what_is_planted(hunted: Hunted) -> None:
    sixth = f"planted-{secrets.token_hex(8)}"
    assert secret_hunt.in_files([hunted.folder / "connections"], hunted.secrets), "the operator's own file has it"
    (hunted.workspace / "x").write_text(f"a={sixth}")
    assert secret_hunt.in_files([hunted.folder], [sixth]) == [f"{sixth} in {hunted.workspace / 'x'}"]
    asleep = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    for words, environment, name in (([*asleep, sixth], {}, "cmdline"), (asleep, {"SIXTH": sixth}, "environ")):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(words, env=os.environ | environment, **pipes) as process:
            assert process.stdout is not None
            process.stdout.readline()
            found = secret_hunt.in_processes([sixth])
            process.kill()
        assert found == {f"{sixth} in /proc/{process.pid}/{name}"}
    with spark_options.granted(Stand("scram", hunted.workspace).connection, hunted.workspace):
        (place,) = hunted.hunt()
        assert place == f"{hunted.cluster.users['verifier']} in {hunted.workspace / spark_options.FILE}", (
            "the one file, mode 0600"
        )
