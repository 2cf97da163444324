"""Tests of the load on real brokers. What the ledger says of a record is true of the log, whatever happened to the
producer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from support.log_reader import read_log, read_view
from support.patience import PATIENCE_S
from support.planned_loads import PARTITIONS, Plan, outcomes, planner, run_here, sealed

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load import layout
from delivery_verifier.load.live_ledger import Control, Gate, State, Word
from delivery_verifier.model.data import dumps


@pytest.fixture
def plan(cluster: Cluster, tmp_path: Path) -> Plan:
    return planner(cluster, tmp_path)


def test_an_ack_that_the_callback_saw_survives_the_killing_of_its_producer(plan: Plan, tmp_path: Path) -> None:
    spec = plan("acks_all", records=10_000_000, settings={"linger.ms": 50})
    control = Control(Path(spec.folder))
    (tmp_path / "spec.json").write_bytes(dumps(spec))
    command = [sys.executable, "-m", "delivery_verifier.load.producer", str(tmp_path / "spec.json")]
    process = subprocess.Popen(command)
    try:
        control[Word.GATE] = Gate.GO
        wait_until(lambda: control[Word.REPORTED] > 5000 or process.poll() is not None, "the load to flow", PATIENCE_S)
        assert process.poll() is None and control[Word.STATE] == State.LOADING
    finally:
        process.kill()
        process.wait()
    rows = sealed(spec, tmp_path)
    assert len(rows) == control[Word.ANNOUNCED] and control[Word.ATTEMPTED] == -1
    acked = [row for row in rows if row["outcome"] == "ACKED"]
    assert 0 <= len(acked) - control[Word.REPORTED] <= 1, "the kill may have kept one report from being counted"
    assert control[Word.REPORTED] > 5000
    log = read_log(spec)
    for row in acked:
        there = log[row["partition"], row["offset"]]
        assert (there.sequence, there.partition_sequence) == (row["sequence"], row["partition_sequence"])
    left_open = [row for row in rows if row["outcome"] != "ACKED"]
    assert left_open, "killed in the middle of a load, something must have been under way"
    for row in left_open:
        assert (row["outcome"], row["made_by"], row["offset"]) == ("INDETERMINATE", "recovery", None)
        assert row["settled_at"] is None
    assert {header.sequence for header in log.values()} <= {row["sequence"] for row in rows}


def test_back_pressure_neither_loses_nor_reorders(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "QUEUE_RECORDS", 1)
    spec = plan("idempotent", records=4000, settings={"linger.ms": 20})
    made = run_here(spec)
    assert made.client.limit == 4 * spec.block, "the queue holds four blocks, so the load was held back all the time"
    rows, log = sealed(spec, tmp_path), read_log(spec)
    assert outcomes(rows) == {"ACKED": len(rows)} and len(rows) >= 4000
    for partition in range(PARTITIONS):
        there = [log[key].partition_sequence for key in sorted(log) if key[0] == partition]
        assert there == list(range(len(there)))
    assert len(log) == len(rows)


def test_of_transactions_the_ledger_says_what_who_reads_committed_sees(
    plan: Plan, cluster: Cluster, tmp_path: Path
) -> None:
    spec = plan("transactional", records=1000, transaction_records=40, abort_every=5)
    made = run_here(spec)
    assert [made.control[word] for word in (Word.BEGUN, Word.COMMITTED, Word.ABORTED)] == [25, 20, 5]
    rows = sealed(spec, tmp_path)
    ended = {row["transaction"]: row["transaction_outcome"] for row in rows}
    assert outcomes(rows) == {"ACKED": 1000} and [ended[str(n)] for n in range(1, 25, 5)] == ["ABORTED"] * 5
    visible = {
        (row["partition"], row["offset"]): row["sequence"] for row in rows if ended[row["transaction"]] == "COMMITTED"
    }
    assert {place: header.sequence for place, header in read_view(spec, "read_committed").items()} == visible and len(
        visible
    ) == 800
    everything = [(spec.topic, partition) for partition in range(PARTITIONS)]
    ends = topics.high_watermarks(topics.admin(cluster.connection), everything)
    unseen = {
        partition: batches.unseen(
            cluster.requests,
            cluster.partitions([spec.topic])[spec.topic, partition].leader,
            spec.topic,
            partition,
            0,
            ends[spec.topic, partition],
        )
        for partition in range(PARTITIONS)
    }
    assert unseen == {0: (25, 100), 1: (25, 100)}, (
        "one marker to end each transaction in each partition, and what was aborted"
    )
    assert {p: ends[spec.topic, p] - unseen[p].control for p in unseen} == {0: 500, 1: 500}


def test_a_transaction_that_cannot_be_committed_is_aborted_and_the_load_goes_on(plan: Plan, tmp_path: Path) -> None:
    """The brokers refuse every batch because of its size. The client then refuses the rest of the transaction."""
    spec = plan("transactional", topic={"max.message.bytes": "200"}, records=200, transaction_records=40)
    made = run_here(spec)
    rows = sealed(spec, tmp_path)
    assert made.fatal is None and len(rows) == 200
    assert {row["transaction_outcome"] for row in rows} == {"ABORTED"}
    assert set(outcomes(rows)) <= {"INDETERMINATE", "FAILED"} and outcomes(rows)["INDETERMINATE"] > 0
    assert read_view(spec, "read_committed") == {}


def test_what_a_full_queue_refuses_is_failed_and_not_in_the_log(plan: Plan, tmp_path: Path) -> None:
    """Normally the producer pauses before the client's queue is full. Here the queue is smaller than the producer
    expects. The refused records must be FAILED."""
    spec = plan("acks_all", records=2000, block=100, settings={"linger.ms": 200, "queue.buffering.max.messages": 30})
    made = run_here(spec)
    rows, log = sealed(spec, tmp_path), read_log(spec)
    failed = {row["sequence"] for row in rows if row["outcome"] == "FAILED"}
    assert failed and len(failed) == made.control[Word.FAILED]
    assert {row["error"] for row in rows if row["sequence"] in failed} == {"_QUEUE_FULL"}
    assert {header.sequence for header in log.values()} == {row["sequence"] for row in rows} - failed


def test_acks_0_never_claims_an_offset(plan: Plan, tmp_path: Path) -> None:
    spec = plan("acks_0")
    run_here(spec)
    rows = sealed(spec, tmp_path)
    assert outcomes(rows) == {"SENT": len(rows)} and len(rows) >= 2000
    assert {row["offset"] for row in rows} == {None}
    assert None not in {row["settled_at"] for row in rows}


def test_records_too_large_for_the_client_are_failed_and_not_in_the_log(plan: Plan, tmp_path: Path) -> None:
    spec = plan("idempotent", records=50, payload_bytes=2000, settings={"message.max.bytes": 1500})
    run_here(spec)
    rows = sealed(spec, tmp_path)
    assert outcomes(rows) == {"FAILED": len(rows)} and {row["error"] for row in rows} == {"MSG_SIZE_TOO_LARGE"}
    assert read_log(spec) == {}


def test_records_too_large_for_the_broker_are_indeterminate_and_not_in_the_log(plan: Plan, tmp_path: Path) -> None:
    """The broker's error is about one try of the client. The client does not say how many tries there were, so an
    earlier try may have been written."""
    spec = plan("acks_all", {"max.message.bytes": "500"}, {"retries": 0}, records=50, payload_bytes=2000)
    run_here(spec)
    rows = sealed(spec, tmp_path)
    assert outcomes(rows) == {"INDETERMINATE": len(rows)} and {row["error"] for row in rows} == {"MSG_SIZE_TOO_LARGE"}
    assert read_log(spec) == {}


def test_settings_that_the_client_refuses_end_the_producer_with_its_reason(plan: Plan, tmp_path: Path) -> None:
    spec = plan("idempotent", settings={"acks": "1"})
    (tmp_path / "spec.json").write_bytes(msgspec.json.encode(spec))
    command = [sys.executable, "-m", "delivery_verifier.load.producer", str(tmp_path / "spec.json")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1 and "`acks` must be set to `all`" in ended.stderr
