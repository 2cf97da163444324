"""Tests of producers with another librdkafka than the installed one, on a mock cluster of librdkafka. The wheels are
real: the tests that need one are marked slow, because they may fetch it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import msgspec
import pytest
from support import producer_processes
from support.mock_broker import MockBroker
from support.patience import PATIENCE_S

from delivery_verifier.catalogue import SCENARIOS, build
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load import pool as pools
from delivery_verifier.load.live_ledger import Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.producer_process import ProducerProcess
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model.client import CLIENTS

RUN = build(SCENARIOS["acks_1.frozen_followers"], "a-run")
Start = Callable[..., ProducerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts a producer process with a profile, and more fields of its spec."""
    broker, made = MockBroker(), list[ProducerProcess]()

    def do(profile: str, **more: Any) -> ProducerProcess:
        made.append(producer_processes.start(tmp_path / "live", broker.connection, profile, **more))
        return made[-1]

    yield do
    for producer in made:
        producer.process.kill()
        producer.process.wait()


def libraries(producer: ProducerProcess) -> set[Path]:
    """Returns the folders from which the process has loaded the libraries of confluent-kafka."""
    mapped = Path(f"/proc/{producer.process.pid}/maps").read_text().splitlines()
    return {Path(line.split()[-1]).parents[1] for line in mapped if "/confluent_kafka" in line}


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["idempotent", "transactional"])
@pytest.mark.parametrize("version", ["", *CLIENTS["librdkafka"].versions])
def test_each_version_of_librdkafka_sends_and_its_ledger_is_whole(
    start: Start, tmp_path: Path, profile: str, version: str
) -> None:
    producer = start(profile, client_version=version, records=400, rate=None)
    wait_until(lambda: producer.control[Word.STATE] >= State.WARM, "its warm-up", PATIENCE_S)
    installed = Path(confluent_kafka.__file__).parents[1]
    assert libraries(producer) == {wheels.environment(version) or installed}
    producer.control[Word.GATE] = Gate.RELEASE
    assert producer.process.wait(PATIENCE_S) == 0, producer.said_last
    assert Counter(row["outcome"] for row in producer_processes.sealed(producer, tmp_path)) == {"ACKED": 400}


def test_a_producer_that_has_another_version_than_it_was_to_have_ends_before_it_sends(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "environment", lambda version: None)
    producer = start("idempotent", client_version="2.13.2")
    ended = producer.process.wait(PATIENCE_S)
    assert ended == 1 and not producer.may_end(ended)
    assert "was to have confluent-kafka 2.13.2 with librdkafka 2.13.2, and has 2.16.1" in str(producer.died(ended))
    assert producer.control[Word.STATE] == State.STARTING


def test_a_version_that_cannot_be_had_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(version: str) -> Path:
        raise wheels.WheelError(f"librdkafka {version} cannot be had")

    monkeypatch.setattr(wheels, "environment", refuse)
    started = list[ProducerSpec]()
    monkeypatch.setattr(pools, "start_process", started.append)
    arms = tuple(msgspec.structs.replace(arm, client_version="2.13.0") for arm in RUN.arms)
    with pytest.raises(wheels.WheelError, match=r"2\.13\.0 cannot be had"):
        ProducerPool(
            msgspec.structs.replace(RUN, arms=arms), {"librdkafka": {"bootstrap.servers": "127.0.0.1:1"}}, tmp_path
        )
    assert started == [] and not (tmp_path / "live").exists()
