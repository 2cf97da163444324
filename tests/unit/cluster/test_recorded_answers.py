"""Requests and answers that were recorded between this verifier and Apache Kafka (tests/data/broker_answers.json): each
request is sent as it was then, and each answer is read as it was then. Who wrote the recordings encoded and decoded
them by hand, with none of today's library."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.broker_answers import answered

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import messages
from delivery_verifier.cluster.protocol.fetch import Fetched, whole_batches
from delivery_verifier.cluster.protocol.requests import BrokerRequests

RECORDED = json.loads((Path(__file__).parents[2] / "data" / "broker_answers.json").read_text())["recorded"]
CORRELATION = slice(8, 16)
"""The place of the correlation id in a request in hexadecimal. Any number will do."""


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["request"])
def test_what_was_recorded_is_sent_and_read_alike(recorded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sent, answers = list[str](), [bytes.fromhex(answer) for answer in recorded["answered"]]
    answered(monkeypatch, lambda request: (sent.append(request.hex()), answers.pop(0))[1])
    arguments = recorded["arguments"]
    if recorded["request"] == "assign_replicas":
        arguments = [{tuple(partition): replicas for partition, replicas in arguments[0]}]
    read = getattr(BrokerRequests(Connection({1: Address("h", 1)})), recorded["request"])(1, *arguments)
    assert [without_correlation(request) for request in sent] == [*map(without_correlation, recorded["sent"])]
    assert said(read) == recorded["read"]


def without_correlation(request: str) -> str:
    return request[: CORRELATION.start] + request[CORRELATION.stop :]


def said(read: object) -> str:
    """Returns `read` as Python writes it. Of batches it is what their headers say, and whether their checksums fit."""
    if not isinstance(read, Fetched):
        return repr(read)
    batches = [(batch.first, batch.end, batch.epoch, batch.crc, batch.sound) for batch in whole_batches(read.data)]
    return repr((read.high_watermark, batches))


def test_every_request_was_recorded() -> None:
    sent = {recorded["request"] for recorded in RECORDED} | {"epoch_ends", "not_leading"}  # both ask as epoch_end does
    sent.add(
        "create_partitions"
    )  # newer than the recordings: tests/kafka/shared_cluster/test_commands.py asks a broker
    assert sent == {name for name in vars(BrokerRequests) if not name.startswith("_")}


class Alone:
    """Stands in for kafka-python's class of a message. `met` says whether two threads were in it at once."""

    inside, met = 0, False

    def __init__(self, **_: object) -> None: ...

    def with_header(self, *_: object) -> None: ...

    def encode(self, header: bool) -> bytes:
        return self.decode()

    @classmethod
    def parse_header(cls, *_: object) -> None: ...

    @classmethod
    def decode(cls, *_: object) -> bytes:
        cls.inside += 1
        for _ in range(50):
            time.sleep(0)  # lets another thread run
            cls.met |= cls.inside > 1
        cls.inside -= 1
        return b""


def test_only_one_thread_at_a_time_is_in_the_library_which_compiles_for_each_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "_classes", lambda _: (Alone, Alone))
    together = threading.Barrier(2)

    def use() -> None:
        together.wait()
        messages.encoded("Fetch", 12)
        messages.decoded("Fetch", 12, b"", Address("h", 1))

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not Alone.met


def test_the_library_of_the_messages_is_imported_with_the_first_message() -> None:
    code = "import sys, delivery_verifier.cluster.handle; print('kafka' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
