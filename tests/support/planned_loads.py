"""Loads of one producer on a cluster of a test: what it is to send, and its ledger afterwards."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka.admin import NewTopic

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.layout import LoadLayout
from delivery_verifier.load.live_ledger import Gate, Word
from delivery_verifier.load.producer import SequencedProducer
from delivery_verifier.load.publish_ledger import publish_ledger
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.data import Setting
from support.log_reader import TOKEN
from support.new_topics import create_topics
from support.patience import PATIENCE_S

PARTITIONS = 2
Row = dict[str, Any]
Plan = Callable[..., ProducerSpec]


def planner(cluster: Cluster, folder: Path) -> Plan:
    """Returns a function that creates a topic with two partitions, and returns the specification of a producer for
    this topic. The folder of its live ledger lies in `folder`."""

    def plan(
        profile: str, topic: dict[str, str] | None = None, settings: dict[str, Setting] | None = None, **more: Any
    ) -> ProducerSpec:
        name = f"load-{uuid.uuid4().hex[:8]}"
        wanted = NewTopic(name, PARTITIONS, 3, config={"retention.ms": "-1", **(topic or {})})
        create_topics(cluster.connection.client_properties(), wanted)
        wait_until(lambda: cluster.isr_full([name]), "the topic to be led", PATIENCE_S)
        plain: dict[str, Any] = {
            "folder": str(folder / f"live-{name}"),
            "connection": cluster.connection.client_properties(),
            "topic": name,
            "settings": PROFILES[profile].producer | (settings or {}),
            "run_token": TOKEN,
            "arm": 1,
            "producer": 0,
            "session": 0,
            "records": 2000,
            "rate": None,
            "block": 10,
            "partitions": PARTITIONS,
            "payload_bytes": 100,
            "deadline_s": PATIENCE_S,
        }
        return ProducerSpec(**(plain | more))

    return plan


def run_here(spec: ProducerSpec) -> SequencedProducer:
    """Runs a whole load in this process, without waiting for other processes. Returns the producer."""
    made = SequencedProducer(spec)
    made.control[Word.GATE] = Gate.RELEASE
    made.run()
    return made


def sealed(spec: ProducerSpec, folder: Path) -> list[Row]:
    """Turns the live ledger of the producer into the final ledger, in `folder`, and returns its rows."""
    file = folder / f"{spec.topic}.parquet"
    publish_ledger(
        Path(spec.folder), file, "one", 0, 0, LoadLayout(spec.block, spec.partitions), spec.transaction_records
    )
    return list(pq.read_table(file).to_pylist())


def outcomes(rows: list[Row]) -> dict[str, int]:
    """Counts the rows by outcome."""
    return dict(Counter(row["outcome"] for row in rows))
