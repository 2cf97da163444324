"""Tests of a producer's transactions: the answers of librdkafka to a commit or an abort, and the outcome that the
ledger shows."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException
from support.record_batches import damaged, with_crc

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.cluster.protocol.batches import ABORT, COMMIT
from delivery_verifier.cluster.protocol.fetch import Fetched
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.load import transactions
from delivery_verifier.load.live_ledger import Control, Word
from delivery_verifier.load.pool import _settings
from delivery_verifier.load.transactions import Transactions, Unended
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Load
from delivery_verifier.model.scenario_checks import check

ASKING = BrokerRequests(Connection({1: Address("nowhere", 1)}))


def failed(**kind: bool) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, "as asked", **kind))


RETRIABLE, ABORTABLE, FATAL = failed(retriable=True), failed(txn_requires_abort=True), failed(fatal=True)
OTHER = failed()


class Client:
    """A stand-in for a client. It answers each commit and abort with the next of `answers`, and keeps the names of all
    calls in `asked`."""

    def __init__(self, *answers: KafkaException | None) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*_: Any) -> None:
            self.asked.append(name.removesuffix("_transaction"))
            answer = (
                self.answers.pop(0)
                if self.answers and name.endswith(("commit_transaction", "abort_transaction"))
                else None
            )
            if answer is not None:
                raise answer

        return call


def made(folder: Path, client: Client, abort_every: int = 0, deadline_s: float = 5.0) -> Transactions:
    folder.mkdir(exist_ok=True)
    return Transactions(client, folder, 4, abort_every, deadline_s)  # type: ignore[arg-type]


def outcomes(folder: Path, count: int) -> list[tuple[str, str]]:
    numbered, ended = transactions.transaction_columns(folder, 4, np.arange(4 * count))
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
        1,
        int(outcome == "COMMITTED"),
        int(outcome == "ABORTED"),
    ]


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
        "COMMITTED",
        "ABORTED",
        "COMMITTED",
        "COMMITTED",
        "ABORTED",
        "COMMITTED",
        "INDETERMINATE",
    ]


def test_a_transaction_is_whole_blocks_and_spans_two_partitions_where_there_are_two() -> None:
    assert [transactions.size(500, block, partitions) for block, partitions in ((3, 3), (1000, 3), (1000, 1))] == [
        501,
        2000,
        1000,
    ]
    assert [transactions.size(500, 3, 3, rate) for rate in (10_000, 77, 2)] == [501, 78, 6], "none stays open for long"


def test_without_transactions_the_columns_are_empty(tmp_path: Path) -> None:
    numbered, ended = transactions.transaction_columns(tmp_path, 0, np.arange(5))
    assert numbered.null_count == ended.null_count == 5


def test_every_producer_has_a_transactional_id_of_its_own() -> None:
    arm = scenario(
        "r", profile=PROFILES["transactional"], fault=FAULTS["none"], load=Load(), records=100, producers=2
    ).subjects[0]
    assert [_settings(arm, number)["transactional.id"] for number in range(2)] == [
        "kdv-transactional-0",
        "kdv-transactional-1",
    ]
    plain = scenario("r", profile=PROFILES["safe"], fault=FAULTS["none"], load=Load(), records=100)
    assert "transactional.id" not in _settings(plain.subjects[0], 0)
    assert plain.transactional == ()


def test_a_transactional_arm_does_not_go_with_what_it_could_not_answer_for() -> None:
    from delivery_verifier.catalogue import SCENARIOS, build

    entry = next(it for it in SCENARIOS.values() if any(step.action == "resend" for step in it.fault.steps))
    arms = tuple(msgspec.structs.replace(plan, profile=PROFILES["transactional"]) for plan in entry.arms)
    with pytest.raises(BadInput, match=r"transactional\.id, which does not go with"):
        check(build(msgspec.structs.replace(entry, arms=arms), "r"))


def test_who_starts_again_after_a_kill_begins_another_transaction_and_knows_nothing_of_the_open_one(
    tmp_path: Path,
) -> None:
    """Transactions of 4 records, blocks of 2. The producer is killed with 2 of 4 sent, and later with nothing open."""
    first = made(tmp_path, Client())
    for sequence in (2, 4, 6):
        first.before_block()
        first.after_block(sequence)
    second = made(tmp_path, Client())
    second.take_over(6)
    for sequence in (8, 10):
        second.before_block()
        second.after_block(sequence)
    third = made(tmp_path, Client())
    third.take_over(10)
    third.before_block()
    third.after_block(12)
    numbered, ended = transactions.transaction_columns(tmp_path, 4, np.arange(12))
    assert numbered.to_pylist() == [*"000011222233"]
    outcomes_of = dict(zip(numbered.to_pylist(), ended.to_pylist(), strict=True))
    assert outcomes_of == {"0": "COMMITTED", "1": "INDETERMINATE", "2": "COMMITTED", "3": "INDETERMINATE"}
    control = Control(tmp_path)
    assert [control[word] for word in (Word.BEGUN, Word.COMMITTED, Word.MISCOUNTED)] == [4, 2, 0]


@pytest.mark.parametrize(
    ("word", "by", "miscounted"), [(Word.BEGUN, 1, 0), (Word.COMMITTED, -1, 0), (Word.BEGUN, 2, 2)]
)
def test_a_kill_explains_one_transaction_too_many_or_too_few(
    tmp_path: Path, word: Word, by: int, miscounted: int
) -> None:
    first = made(tmp_path, Client())
    first.before_block()
    first.after_block(4)
    control = Control(tmp_path)
    control[word] += by
    made(tmp_path, Client()).take_over(4)
    counts = [control[counter] for counter in (Word.BEGUN, Word.COMMITTED, Word.MISCOUNTED)]
    assert counts == [1, 1, miscounted]


def test_open_transactions_are_proven_only_where_an_arm_writes_some() -> None:
    from delivery_verifier.catalogue import SCENARIOS, build

    entry = SCENARIOS["producer.killed_in_transaction"]
    check(build(entry, "r"))
    arms = tuple(msgspec.structs.replace(plan, profile=PROFILES["safe"]) for plan in entry.arms)
    with pytest.raises(BadInput, match="proof transactions_open, and no arm has a transactional"):
        check(build(msgspec.structs.replace(entry, arms=arms), "r"))


def batch(
    first: int, records: int, ends: int | None = None, magic: int = 2, of: int = 1, transactional: bool = True
) -> bytes:
    """Returns a record batch of producer id `of`, in Kafka's format 2: a data batch without its records, or a control
    batch with its key.

    `ends` is the type of the control record; None makes a data batch. The time delta of the control record takes two
    bytes, as is possible for a varint.
    """
    attributes = (0x10 if transactional else 0) | (0 if ends is None else 0x20)
    header = struct.pack(">ibIhiqqqhii", 0, magic, 0, attributes, records - 1, 0, 0, of, 0, 0, records)
    body = (
        b"" if ends is None else bytes((34, 0, 0x80, 1, 0, 8)) + struct.pack(">hh", 0, ends) + bytes((12,)) + bytes(7)
    )
    return with_crc(struct.pack(">qi", first, len(header + body)) + header + body)


def served(monkeypatch: pytest.MonkeyPatch, *answers: bytes) -> None:
    left = list(answers)
    monkeypatch.setattr(BrokerRequests, "fetch", lambda *_: Fetched(0, left.pop(0)))


def test_control_records_are_counted_off_the_headers_up_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = batch(0, 5) + batch(5, 1, ends=COMMIT)
    rest = batch(5, 1, ends=COMMIT) + batch(6, 3) + batch(9, 1, ends=COMMIT) + batch(10, 1, ends=COMMIT)
    served(monkeypatch, whole + batch(6, 3)[:40], rest)
    assert batches.unseen(ASKING, 1, "t", 0, 0, 10) == (2, 0)
    assert batches.unseen(ASKING, 1, "t", 0, 0, 0) == (0, 0), "an empty partition, of which nothing is fetched"


def test_records_are_aborted_if_the_next_control_batch_of_their_producer_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A marker of another producer, or of an earlier or later transaction, does not decide on a record. A producer
    without transactions has no markers."""
    log = (
        batch(0, 4, of=7)
        + batch(4, 2, of=8)
        + batch(6, 1, ends=ABORT, of=9)
        + batch(7, 3, of=7)
        + batch(10, 1, ends=COMMIT, of=8)
        + batch(11, 1, ends=ABORT, of=7)
        + batch(12, 5, of=7)
        + batch(17, 1, ends=COMMIT, of=7)
        + batch(18, 1, ends=ABORT, of=7)
        + batch(19, 2, of=-1, transactional=False)
    )
    served(monkeypatch, log)
    assert batches.unseen(ASKING, 1, "t", 0, 0, 21) == (5, 7)


def test_what_is_hidden_is_what_was_aborted_or_has_not_ended_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    log = (
        batch(0, 4, of=7)
        + batch(4, 2, of=8)
        + batch(6, 3, of=7)
        + batch(9, 1, ends=COMMIT, of=8)
        + batch(10, 1, ends=ABORT, of=7)
        + batch(11, 2, of=8)
        + batch(13, 2, of=-1, transactional=False)
        + batch(15, 1, ends=COMMIT, of=8)
    )
    served(monkeypatch, log)
    aborted = [(2, 0, 4, False), (2, 6, 9, False)]
    assert batches.hidden(ASKING, 1, "t", 2, 0, 16) == (3, aborted)
    served(monkeypatch, log)
    assert batches.hidden(ASKING, 1, "t", 2, 0, 15) == (2, [*aborted, (2, 11, 13, True)])
    served(monkeypatch, log)
    assert batches.hidden(ASKING, 1, "t", 2, 0, 10) == (1, [(2, 0, 4, True), (2, 6, 9, True)])
    assert batches.hidden(ASKING, 1, "t", 2, 0, 0) == (0, [])


def test_what_ends_a_transaction_may_stand_behind_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    log = batch(0, 5) + batch(5, 2, transactional=False) + batch(7, 1, ends=ABORT) + batch(8, 1, ends=COMMIT)
    served(monkeypatch, log)
    assert batches.unseen(ASKING, 1, "t", 0, 0, 5) == (0, 5)
    served(monkeypatch, log[: len(batch(0, 5))], b"")
    with pytest.raises(ConnectionError, match="gave no batch of t/0 at offset 5"):
        batches.unseen(ASKING, 1, "t", 0, 0, 5)


def test_a_batch_whose_checksum_is_wrong_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = batch(0, 5) + damaged(batch(5, 1, ends=ABORT)) + damaged(batch(6, 4)) + batch(10, 1, ends=COMMIT)
    served(monkeypatch, log)
    assert batches.unseen(ASKING, 1, "t", 0, 0, 11) == (1, 0)


def test_offsets_that_no_batch_holds_are_no_control_records(monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, batch(0, 5) + batch(6, 1, ends=COMMIT))
    with pytest.raises(ConnectionError, match="no batch holds offset 5, the next begins at 6"):
        batches.unseen(ASKING, 1, "t", 0, 0, 7)
    served(monkeypatch, b"")
    with pytest.raises(ConnectionError, match="gave no batch of t/0 at offset 0"):
        batches.unseen(ASKING, 1, "t", 0, 0, 7)
    served(monkeypatch, batch(0, 5, magic=1))
    with pytest.raises(ConnectionError, match="format 1"):
        batches.unseen(ASKING, 1, "t", 0, 0, 7)


def test_a_control_record_that_ends_no_transaction_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, batch(0, 1, ends=2))
    with pytest.raises(ConnectionError, match="control record at offset 0 ends no transaction: type 2"):
        batches.unseen(ASKING, 1, "t", 0, 0, 1)


def test_control_records_behind_an_open_transaction_are_counted_although_it_has_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = batch(0, 5, of=7) + batch(5, 2, of=8) + batch(7, 1, ends=COMMIT, of=8) + batch(8, 1, ends=ABORT, of=9)
    for start, end, count in ((0, 9, 2), (0, 8, 1), (0, 7, 0), (5, 9, 2)):
        served(monkeypatch, log if start == 0 else log[len(batch(0, 5)) :])
        assert batches.controls(ASKING, 1, "t", 0, start, end) == count
    served(monkeypatch, log, b"")
    with pytest.raises(ConnectionError, match="gave no batch of t/0 at offset 9"):
        batches.unseen(ASKING, 1, "t", 0, 0, 9)
    assert batches.controls(ASKING, 1, "t", 0, 9, 9) == 0, "an empty range, of which nothing is fetched"
