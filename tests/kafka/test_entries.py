"""Entries of the catalogue on real brokers: what they say is lost or written twice is, to the record, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from quality.oracle import Row, judge

from delivery_verifier import direct, record
from delivery_verifier.catalogue import CANARY, ENTRIES
from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.injection import Injection, PartitionSnapshot, read_injections, read_offsets
from delivery_verifier.runs import RunDirectory
from delivery_verifier.scenario import Bound, Scenario
from delivery_verifier.steps.create_topics import create_topics
from delivery_verifier.steps.plan import plan_from_params
from delivery_verifier.steps.settle import settle
from delivery_verifier.steps.start_cluster import start_cluster
from delivery_verifier.steps.stop_cluster import stop_cluster
from delivery_verifier.waiting import wait_until

OPERATORS = {"=": int.__eq__, ">=": int.__ge__, "<=": int.__le__}


def run_up_to_settle(name: str) -> tuple[Scenario, list[Injection], dict[str, Counter[str]]]:
    """The scenario, its injections, and the books of every arm, recounted without Spark."""
    run = RunDirectory(plan_from_params({"scenario": name}, name))
    try:
        start_cluster(run.path)
        create_topics(run.path)
        direct._load_under_fault(run.path, lambda step, state, seconds: None)
        settle(run.path)
        offsets = read_offsets(run.sealed("settle", "offsets.json"))
        with lease.renewed(Cluster.of(run).socket):
            loaded = [one for one in offsets.partitions if one.arm != CANARY]
            logs = {one.arm: read_log(offsets.bootstrap_servers, one) for one in loaded}
    finally:
        stop_cluster(run.path)
    books = {arm.name: judge(ledger_of(run.path, arm.name), logs[arm.name])[0] for arm in run.scenario.loaded}
    return run.scenario, read_injections(run.sealed("inject_fault", "injections.json")), books


def ledger_of(run_dir: Path, arm: str) -> list[Row]:
    return [row for file in sorted((run_dir / "ledger").glob(f"{arm}-*")) for row in pq.read_table(file).to_pylist()]


def read_log(bootstrap_servers: str, of: PartitionSnapshot) -> list[Row]:
    """The records below the snapshot's end."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "recount", "enable.auto.commit": False})
    consumer.assign([TopicPartition(of.topic, of.partition, of.start)])
    found: list[Row] = []

    def all_read() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            assert message.error() is None
            header = record.parse(message.value() or b"")
            assert header is not None
            found.append(
                {"partition": of.partition, "offset": message.offset(), "foreign": False, "crc_ok": header.crc_ok}
                | {name: getattr(header, name) for name in ("producer", "session", "sequence", "attempt")}
            )
        return len(found) >= of.live_end - of.start

    wait_until(all_read, f"{of.topic} to be read", 30)
    consumer.close()
    return [row for row in found if row["offset"] < of.end]


def holds(bound: Bound, books: Counter[str]) -> bool:
    return OPERATORS[bound.op](books[bound.count.lower()], bound.value)


@pytest.mark.parametrize("name", ["min_isr_1.last_in_sync_killed", "duplicates.frozen_leader"])
def test_an_entry_loses_or_writes_twice_exactly_what_it_says(name: str) -> None:
    scenario, injections, books = run_up_to_settle(name)
    assert injections and all(injection.bit for injection in injections), [injection.proof for injection in injections]
    for plan in ENTRIES[name].arms:
        found = books[plan.name]
        assert all(holds(bound, found) for bound in plan.expectation.bounds), (plan.name, found)
        if plan.role == "control":
            assert not any(found[kind] for kind in ("lost", "duplicated", "reordered", "phantom", "corrupted")), (plan.name, found)
        assert found["attempted"] == found["log_records"] - found["extra_copies"] + found["lost"] == scenario.arm(plan.name).records
