"""One real run from a user's own files: the producers get what the files say, and no secret of theirs is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from stored import arm

from delivery_verifier import cli, direct, home
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.commands import fields
from delivery_verifier.runs import RunDirectory
from delivery_verifier.verdict import RunVerdict
from delivery_verifier.workload.spec import ProducerSpec

PRODUCER = """\
bootstrap.servers=prod-1.example:9093
security.protocol=SASL_SSL
sasl.jaas.config=PlainLoginModule required username="orders" password="hunter2";
ssl.key.password=swordfish
key.serializer=org.apache.kafka.common.serialization.StringSerializer
acks=all
enable.idempotence=true
max.in.flight.requests.per.connection=5
buffer.memory=16777216
max.block.ms=1000
"""
SECRETS = (b"hunter2", b"swordfish", b"prod-1.example")


@pytest.fixture(scope="module")
def own(kafka_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes]:
    """The run, its verdict, what each of its producers was told, and everything in its workspace while it ran."""
    file = tmp_path_factory.mktemp("own") / "producer.properties"
    file.write_text(PRODUCER)
    line = ["run", "--producer-config", str(file), "--topic-override", "min.insync.replicas=2"]
    line += ["--fault", "none", "--records", "1000", "--duration-s", "3"]
    params: dict[str, Any] = fields.given(cli._parser().parse_args(line))
    specs: list[ProducerSpec] = []
    seen: list[bytes] = []
    run = RunDirectory(home.runs_dir() / "own-settings")

    def watch(step: str, state: str, _seconds: float) -> None:
        if (step, state) == ("produce", "success"):
            workspace = Path(Cluster.of(run).workspace)
            files = [path for path in workspace.rglob("*") if path.is_file() and path.stat().st_size < 1_000_000]  # no preallocated index
            seen.extend(path.read_bytes() for path in files)
            specs.extend(msgspec.json.decode(path.read_bytes(), type=ProducerSpec) for path in files if path.name == "spec.json")

    return run, direct.run(params, "own-settings", watch, kafka_spark), specs, b"".join(seen)


def test_a_run_from_a_users_own_file_is_held_with_the_settings_it_was_given(
    own: tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes],
) -> None:
    run, verdict, specs, _ = own
    assert (verdict.verdict, verdict.green, arm(verdict, "own").verdict) == ("HELD", True, "HELD")
    subject = run.scenario.subjects[0]
    (told,) = [spec for spec in specs if spec.arm == subject.ordinal]
    assert told.settings == {**subject.profile.producer, "client.id": "own-0"}  # how logs and the proxy tell producers apart
    given = {"acks": "all", "enable.idempotence": True, "max.in.flight.requests.per.connection": 5, "queue.buffering.max.kbytes": 16384}
    assert given.items() <= told.settings.items() and "bootstrap.servers" not in told.settings
    assert subject.profile.topic["min.insync.replicas"] == 2
    assert any("sasl.jaas.config" in note and "the cluster under test is the verifier's own" in note for note in subject.profile.notes)
    assert "max.block.ms" in (run.path / "report.html").read_text()


def test_no_secret_of_the_file_is_in_any_file_of_the_run(own: tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes]) -> None:
    run, _, _, workspace = own
    everything = [file.read_bytes() for file in (*run.path.rglob("*"), *(home.runs_dir() / home.DATA_DOCS).rglob("*")) if file.is_file()]
    assert len(everything) > 20 and workspace
    for secret in SECRETS:
        assert secret not in workspace and not any(secret in file for file in everything)
