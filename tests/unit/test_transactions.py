"""Transactions of a producer: what librdkafka says of a commit or an abort, and what the ledger makes of it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import batches
from delivery_verifier.scenario import BadInput, Load, check
from delivery_verifier.workload import transactions
from delivery_verifier.workload.crew import _settings
from delivery_verifier.workload.live import Control, Word
from delivery_verifier.workload.transactions import Transactions, Unended


def failed(**kind: bool) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "as asked", **kind))


RETRIABLE, ABORTABLE, FATAL = failed(retriable=True), failed(txn_requires_abort=True), failed(fatal=True)
OTHER = failed()


class Client:
    """Answers each call with the next of its answers, and remembers what it was asked."""

    def __init__(self, *answers: KafkaException | None) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*_: Any) -> None:
            self.asked.append(name.removesuffix("_transaction"))
            answer = self.answers.pop(0) if self.answers and name.endswith(("commit_transaction", "abort_transaction")) else None
            if answer is not None:
                raise answer

        return call


def made(folder: Path, client: Client, abort_every: int = 0, deadline_s: float = 5.0) -> Transactions:
    folder.mkdir(exist_ok=True)
    return Transactions(client, folder, 4, abort_every, deadline_s)  # type: ignore[arg-type]


def outcomes(folder: Path, count: int) -> list[tuple[str, str]]:
    numbered, ended = transactions.columns(folder, 4, np.arange(4 * count))
    return list(zip(numbered.to_pylist(), ended.to_pylist(), strict=True))[::4]


@pytest.mark.parametrize(
    ("answers", "asked", "outcome"),
    [
        ([], ["commit"], "COMMITTED"),
        ([RETRIABLE, RETRIABLE], ["commit", "commit", "commit"], "COMMITTED"),
        ([ABORTABLE], ["commit", "abort"], "ABORTED"),
        ([ABORTABLE, RETRIABLE], ["commit", "abort", "abort"], "ABORTED"),
        ([RETRIABLE, ABORTABLE], ["commit", "commit", "abort"], "ABORTED"),
    ],
)
def test_what_may_be_called_again_is_and_what_must_be_aborted_is(
    tmp_path: Path, answers: list[KafkaException], asked: list[str], outcome: str
) -> None:
    client = Client(*answers)
    one = made(tmp_path, client)
    one.before_block()
    one.after_block(3)
    one.after_block(4)
    assert client.asked == ["begin", *asked]
    assert outcomes(tmp_path, 1) == [("0", outcome)]
    assert [Control(tmp_path)[word] for word in (Word.BEGUN, Word.COMMITTED, Word.ABORTED)] == [
        1, int(outcome == "COMMITTED"), int(outcome == "ABORTED"),
    ]  # fmt: skip


@pytest.mark.parametrize("answers", [[FATAL], [OTHER], [ABORTABLE, FATAL], [RETRIABLE, FATAL]])
def test_what_the_client_cannot_end_nobody_knows(tmp_path: Path, answers: list[KafkaException]) -> None:
    one = made(tmp_path, Client(*answers))
    one.before_block()
    with pytest.raises(KafkaException):
        one.end()
    assert outcomes(tmp_path, 1) == [("0", "INDETERMINATE")]


def test_a_commit_that_never_ends_is_given_up_and_indeterminate(tmp_path: Path) -> None:
    one = made(tmp_path, Client(*[RETRIABLE] * 100_000), deadline_s=0.01)
    one.before_block()
    with pytest.raises(Unended, match="commit_transaction did not end within"):
        one.end()
    assert outcomes(tmp_path, 1) == [("0", "INDETERMINATE")]


def test_every_kth_is_aborted_on_purpose_once_all_of_it_is_acknowledged(tmp_path: Path) -> None:
    client = Client()
    one = made(tmp_path, client, abort_every=3)  # the second, and every third from it on
    for _ in range(6):
        one.before_block()
        one.end()
    one.end()  # nothing is open
    assert "".join(call[0] for call in client.asked) == "bcbfabc" * 2
    assert [outcome for _, outcome in outcomes(tmp_path, 7)] == [
        "COMMITTED", "ABORTED", "COMMITTED", "COMMITTED", "ABORTED", "COMMITTED", "INDETERMINATE",
    ]  # fmt: skip


def test_a_transaction_is_whole_blocks_and_spans_two_partitions_where_there_are_two() -> None:
    assert [transactions.size(500, block, partitions) for block, partitions in ((3, 3), (1000, 3), (1000, 1))] == [501, 2000, 1000]
    assert [transactions.size(500, 3, 3, rate) for rate in (10_000, 77, 2)] == [501, 78, 6], "none stays open for long"


def test_without_transactions_the_columns_are_empty(tmp_path: Path) -> None:
    numbered, ended = transactions.columns(tmp_path, 0, np.arange(5))
    assert numbered.null_count == ended.null_count == 5


def test_every_producer_has_a_transactional_id_of_its_own() -> None:
    arm = scenario("r", profile=PROFILES["transactional"], fault=FAULTS["none"], load=Load(), records=100, producers=2).subjects[0]
    assert [_settings(arm, number)["transactional.id"] for number in range(2)] == [
        "kdv-transactional-0", "kdv-transactional-1",
    ]  # fmt: skip
    plain = scenario("r", profile=PROFILES["safe"], fault=FAULTS["none"], load=Load(), records=100)
    assert "transactional.id" not in _settings(plain.subjects[0], 0)
    assert plain.transactional == ()


def test_a_transactional_arm_does_not_go_with_what_it_could_not_answer_for() -> None:
    from delivery_verifier.catalogue import SCENARIOS, build

    entry = next(it for it in SCENARIOS.values() if any(step.act.clients for step in it.fault.steps))
    arms = tuple(msgspec.structs.replace(plan, profile=PROFILES["transactional"]) for plan in entry.arms)
    with pytest.raises(BadInput, match=r"transactional\.id, which does not go with"):
        check(build(msgspec.structs.replace(entry, arms=arms), "r"))


def batch(first: int, records: int, control: bool = False, magic: int = 2) -> bytes:
    """A record batch of Kafka's format 2, without its records."""
    header = struct.pack(">ibIhiqqqhii", 0, magic, 0, 0x20 if control else 0, records - 1, 0, 0, 1, 0, 0, records)
    return struct.pack(">qi", first, len(header)) + header


def served(monkeypatch: pytest.MonkeyPatch, *answers: bytes) -> None:
    left = list(answers)
    monkeypatch.setattr(batches, "_fetch", lambda *_: left.pop(0))


def test_control_records_are_counted_off_the_headers_up_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = batch(0, 5) + batch(5, 1, control=True)
    served(monkeypatch, whole + batch(6, 3)[:40], batch(5, 1, control=True) + batch(6, 3) + batch(9, 1, True) + batch(10, 1, True))
    assert batches.control_records(1, "t", 0, 0, 10) == 2


def test_offsets_that_no_batch_holds_are_no_control_records(monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, batch(0, 5) + batch(6, 1, control=True))
    with pytest.raises(ConnectionError, match="no batch holds offset 5, the next begins at 6"):
        batches.control_records(1, "t", 0, 0, 7)
    served(monkeypatch, b"")
    with pytest.raises(ConnectionError, match="gave no batch of t/0 at offset 0"):
        batches.control_records(1, "t", 0, 0, 7)
    served(monkeypatch, batch(0, 5, magic=1))
    with pytest.raises(ConnectionError, match="format 1"):
        batches.control_records(1, "t", 0, 0, 7)
