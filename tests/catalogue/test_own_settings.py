"""Tests of one real run with a user's own producer settings and with transactions. The producers get the settings of
the file, a read_committed consumer sees exactly the committed records, and no secret of the file is stored."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.own_host import alive
from support.stored_runs import arm

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line import options
from delivery_verifier.host import folders
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.model.snapshot import read_offsets
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.run_directory.run_directory import RunDirectory

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
transactional.id=orders
transaction.timeout.ms=50000
"""
RECORDS = 6000
"""The number of records: twelve transactions of 500 records each. At least one of them, the second, is aborted on
purpose."""
SECRETS = (b"hunter2", b"swordfish", b"prod-1.example")


@pytest.fixture(scope="module")
def own(
    kafka_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes]:
    """The run directory, the verdict, the specification of each producer, and the bytes of all files in the workspace
    after the load."""
    file = tmp_path_factory.mktemp("own") / "producer.properties"
    file.write_text(PRODUCER)
    line = ["run", "--producer-config", str(file), "--topic-override", "min.insync.replicas=2"]
    line += ["--fault", "none", "--records", str(RECORDS), "--duration-s", "4"]
    params: dict[str, Any] = options.params_of(cli._parser().parse_args(line))
    specs: list[ProducerSpec] = []
    seen: list[bytes] = []
    run = RunDirectory(folders.runs_dir() / "own-settings")

    def watch(progress: StepProgress) -> None:
        if (progress.step, progress.state) == ("produce", "success"):
            workspace = Path(Cluster.of_run(run).workspace)
            files = [
                path for path in workspace.rglob("*") if path.is_file() and path.stat().st_size < 1_000_000
            ]  # no preallocated index
            seen.extend(path.read_bytes() for path in files)
            specs.extend(
                msgspec.json.decode(path.read_bytes(), type=ProducerSpec) for path in files if path.name == "spec.json"
            )

    return run, direct.run(params, "own-settings", watch, kafka_spark), specs, b"".join(seen)


def test_a_run_from_a_users_own_file_is_held_with_the_settings_it_was_given(
    own: tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes],
) -> None:
    run, verdict, specs, _ = own
    assert (verdict.verdict, verdict.green, arm(verdict, "own").verdict) == ("HELD", True, "HELD")
    subject = run.read_scenario().subjects[0]
    (told,) = [spec for spec in specs if spec.arm == subject.ordinal]
    # how logs and the proxy distinguish producers, and brokers their transactions
    assert told.settings == {**subject.profile.producer, "client.id": "own-0", "transactional.id": "orders-own-0"}
    given = {
        "acks": "all",
        "enable.idempotence": True,
        "max.in.flight.requests.per.connection": 5,
        "queue.buffering.max.kbytes": 16384,
        "transaction.timeout.ms": 50_000,
        "delivery.timeout.ms": 50_000,
    }
    assert given.items() <= told.settings.items() and "bootstrap.servers" not in told.settings
    assert subject.profile.topic["min.insync.replicas"] == 2
    assert any(
        "sasl.jaas.config" in note and "the cluster under test is the verifier's own" in note
        for note in subject.profile.notes
    )
    assert any(
        note.startswith("transactional.id: every producer has one of its own, orders-<arm>-<number>")
        for note in subject.profile.notes
    )
    assert "delivery.timeout.ms=50000: librdkafka allows no more than transaction.timeout.ms" in subject.profile.notes
    assert "max.block.ms" in (run.path / "report.html").read_text()


def test_what_was_aborted_is_in_the_log_and_not_in_the_committed_view(
    own: tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes],
) -> None:
    run, _, _, _ = own
    told = {
        word: run.manifest("produce").counts[f"transactions_{word}/own/0/0"]
        for word in ("begun", "committed", "aborted")
    }
    assert told["aborted"] >= 1 and told["committed"] >= 1 and told["begun"] == told["aborted"] + told["committed"]
    views = Counter(
        (row["arm"], row["view"]) for row in pq.read_table(run.path / "log", columns=["arm", "view"]).to_pylist()
    )
    aborted = pq.read_table(
        run.path / "ledger", filters=[("arm", "=", "own"), ("transaction_outcome", "=", "ABORTED")]
    ).num_rows
    assert (
        0 < views["own", "committed"] < views["own", "raw"]
        and views["own", "raw"] - views["own", "committed"] == aborted
    )
    assert ("control-acks_0", "committed") not in views, "who writes no transactions is read once"
    offsets = read_offsets((run.path / "offsets.json").read_bytes())
    assert sum(part.aborted_records for part in offsets.partitions if part.arm == "own") == aborted
    assert all(part.control_records for part in offsets.partitions if part.arm == "own")


def test_no_secret_of_the_file_is_in_any_file_of_the_run(
    own: tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes],
) -> None:
    run, _, _, workspace = own
    everything = [
        file.read_bytes()
        for file in (*run.path.rglob("*"), *(folders.runs_dir() / folders.DATA_DOCS).rglob("*"))
        if file.is_file()
    ]
    assert len(everything) > 20 and workspace
    for secret in SECRETS:
        assert secret not in workspace and not any(secret in file for file in everything)


def test_a_run_leaves_nothing_but_its_run_directory_also_where_others_crashed(
    own: tuple[RunDirectory, RunVerdict, list[ProducerSpec], bytes],
) -> None:
    """`test_crashes` runs before this run, on the same host. Only the workspaces of VIOLATED runs are kept on
    purpose."""
    assert lease.lock_owner() is None
    assert not (workspaces.folder() / own[0].read_scenario().run_token).exists()
    assert alive("KDV_LOCK", os.environ["KDV_LOCK"], r"embedded\.agent|kafka\.Kafka|load\.producer") == {}
