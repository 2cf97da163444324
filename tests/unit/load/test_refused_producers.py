"""Tests of producers that brokers refuse, in the warm-up and in the load. A producer ends with the broker's own words
and without a traceback, and its ledger stays true.

The broker is librdkafka's mock cluster. tests/kafka/test_refused_producers.py has producers without permission on real
brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from support import producer_processes
from support.evidence import RUN, SUBJECT, evidence_of, judged
from support.patience import PATIENCE_S
from support.producer_processes import sealed
from support.refusing_broker import ADD_PARTITIONS, INIT_PRODUCER_ID, PRODUCE, RefusingBroker, refusing_broker

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.client_errors import fatal_error
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.load.live_ledger import Control, Gate, State, Word
from delivery_verifier.load.producer_process import BEFORE_LOAD, IN_LOAD, ProducerDied, ProducerProcess
from delivery_verifier.model.client_errors import MEANINGS
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.settlement.acked_writer import AckedWriter

SEQUENCE, EPOCH = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.INVALID_PRODUCER_EPOCH
CLUSTER, TOPIC = KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED
TRANSACTIONAL_ID = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.fixture
def broker() -> Iterator[RefusingBroker]:
    with refusing_broker() as broker:
        yield broker


Start = Callable[[str], ProducerProcess]


@pytest.fixture
def start(broker: RefusingBroker, tmp_path: Path) -> Iterator[Start]:
    """A function that starts a producer process with a profile. The processes are killed after the test."""
    made: list[ProducerProcess] = []

    def do(profile: str) -> ProducerProcess:
        made.append(producer_processes.start(tmp_path / "live", broker.connection, profile))
        return made[-1]

    yield do
    for producer in made:
        producer.process.kill()
        producer.process.wait()


REFUSED = {
    "no permission for a producer id": ("idempotent", INIT_PRODUCER_ID, CLUSTER, "CLUSTER_AUTHORIZATION_FAILED"),
    "no permission for the transactional.id": (
        "transactional",
        INIT_PRODUCER_ID,
        TRANSACTIONAL_ID,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "no permission for the topic": ("acks_all", PRODUCE, TOPIC, "TOPIC_AUTHORIZATION_FAILED"),
    "no permission for the topic, idempotent": ("idempotent", PRODUCE, TOPIC, "TOPIC_AUTHORIZATION_FAILED"),
    "no permission for the topic, in transactions": ("transactional", PRODUCE, TOPIC, "TOPIC_AUTHORIZATION_FAILED"),
    "a gap in the sequence": ("idempotent", PRODUCE, SEQUENCE, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_producer_that_is_refused_in_its_warm_up_ends_before_its_load_with_the_brokers_words(
    broker: RefusingBroker, start: Start, tmp_path: Path, why: str
) -> None:
    profile, api, code, name = REFUSED[why]
    broker.refuse(api, code)
    producer = start(profile)
    ended = producer.process.wait(PATIENCE_S)
    assert ended == BEFORE_LOAD and not producer.may_end(ended), producer.said_last
    told = str(producer.died(ended))
    begin = f"producer one/0/0 was refused in its warm-up, before the load and before any fault: {MEANINGS[name]}"
    assert told.startswith(f"{begin}. The client said: {name}: "), told
    assert "Traceback" not in (producer.folder / "stderr").read_text()
    assert producer.control[Word.STATE] < State.WARM, "who waits for the warm-up waits until the process has ended"
    assert not {row["outcome"] for row in sealed(producer, tmp_path)} & {"ACKED", "SENT"}


IN_THE_LOAD = {
    "a gap in the sequence": ("idempotent", PRODUCE, SEQUENCE, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    "fenced in a transaction": ("transactional", PRODUCE, EPOCH, "_FENCED"),
    "no permission for the transactional.id": (
        "transactional",
        ADD_PARTITIONS,
        TRANSACTIONAL_ID,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
}


@pytest.mark.parametrize("why", IN_THE_LOAD)
def test_a_producer_that_is_refused_in_its_load_leaves_a_true_ledger_and_says_why(
    broker: RefusingBroker, start: Start, tmp_path: Path, why: str
) -> None:
    profile, api, code, name = IN_THE_LOAD[why]
    producer = start(profile)
    control = producer.control
    wait_until(lambda: control[Word.STATE] == State.WARM, "the warm-up", PATIENCE_S, detail=lambda: producer.said_last)
    control[Word.GATE] = Gate.GO
    wait_until(lambda: control[Word.REPORTED] > 100, "the load to flow", PATIENCE_S)
    broker.refuse(api, code)
    ended = producer.process.wait(PATIENCE_S)
    assert ended == IN_LOAD and producer.may_end(ended) and control[Word.STATE] == State.DONE, producer.said_last
    assert producer.ended_early.startswith(f"{name}: "), producer.ended_early
    assert "Traceback" not in (producer.folder / "stderr").read_text()
    rows = sealed(producer, tmp_path)
    acked = [row for row in rows if row["outcome"] == "ACKED"]
    assert len(acked) > 100 and len(rows) > len(acked), "something was under way"
    assert len({(row["partition"], row["offset"]) for row in acked}) == len(acked)
    assert {row["outcome"] for row in rows} <= {"ACKED", "FAILED", "INDETERMINATE"}
    assert {row["error"] for row in rows if row["outcome"] == "FAILED"} <= {"_FATAL"}, "refused by produce() itself"


def test_the_doubt_about_a_load_that_ended_early_explains_the_error_and_quotes_the_client_from_the_beginning() -> None:
    said = (
        "OUT_OF_ORDER_SEQUENCE_NUMBER: ProduceRequest for t [0] with 12 message(s) failed due to sequence " + "x" * 400
    )
    verdict = judged(evidence_of(RUN, ended_early={f"{SUBJECT}/0/0": said}))
    (doubt,) = (doubt for arm in verdict.arms for doubt in arm.doubts if doubt.name == "load_ended_early")
    meaning = MEANINGS["OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert doubt.detail == f"{SUBJECT}/0/0: {meaning}. The client said: {said}"


def fatal(code: int) -> KafkaException:
    return KafkaException(KafkaError(code, "desynchronised", fatal=True))


def chained(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("raised", "is_fatal"),
    [
        (fatal(SEQUENCE), True),
        (chained(SystemError("returned a result with an exception set"), fatal(SEQUENCE)), True),
        (chained(SystemError("again"), chained(SystemError("returned a result"), fatal(SEQUENCE))), True),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), False),
        (chained(SystemError("returned a result"), KafkaException(KafkaError(KafkaError._TRANSPORT))), False),
        (SystemError("another"), False),
        (KafkaException("no error of a client"), False),
    ],
    ids=str,
)
def test_a_fatal_error_is_found_behind_whatever_the_client_raises(raised: BaseException, is_fatal: bool) -> None:
    error = fatal_error(raised)
    assert (error is not None) == is_fatal
    assert error is None or error.code() == SEQUENCE


def test_a_load_has_ended_early_only_while_it_was_to_go_on(tmp_path: Path) -> None:
    load, (arm, *_) = RunningLoad(RUN, tmp_path), RUN.subjects
    controls = [Control(tmp_path / "live" / arm.name / str(number)) for number in range(arm.producers)]
    assert load.ended_early() == ""
    for control in controls:
        control[Word.GATE], control[Word.STATE] = Gate.GO, State.DONE
    assert load.ended_early() == arm.name
    for control in controls:
        control[Word.GATE] = Gate.RELEASE
    assert load.ended_early() == ""


def test_a_scripted_load_does_not_wait_for_a_producer_that_has_ended_early(tmp_path: Path) -> None:
    load = RunningLoad(RUN, tmp_path)
    for arm in RUN.loaded:
        for number in range(arm.producers):
            Control(tmp_path / "live" / arm.name / str(number))[Word.STATE] = State.DONE
    load.send(2)
    load.resend()


def test_the_verifiers_own_records_that_are_refused_end_the_step_with_the_brokers_words(broker: RefusingBroker) -> None:
    broker.refuse(INIT_PRODUCER_ID, CLUSTER)
    connection = cast(Connection, SimpleNamespace(client_properties=lambda: broker.connection))
    writer = AckedWriter(connection, {"log_level": "0"})
    for _ in ("refused while it is sent, or before", "refused before it is sent"):
        with pytest.raises(StepFailed, match=r"only 0 of 1 records .* no ACL allows .* CLUSTER_AUTHORIZATION_FAILED"):
            writer.write([("t", 0, b"value")])


def test_whatever_else_ends_a_producer_its_last_words_begin_with_a_line(tmp_path: Path) -> None:
    made = cast(ProducerProcess, ProducerProcess.__new__(ProducerProcess))
    made.spec = cast(Any, type("Spec", (), {"folder": str(tmp_path), "producer": 0, "session": 0}))
    made.arm = RUN.subjects[0]
    for said, last in (
        ("", ""),
        ("one\ntwo\n", "one\ntwo"),
        ("a" * 700, "a" * 500),
        (f"first\n{'b' * 490}\nthe last line\n", "the last line"),
    ):
        (tmp_path / "stderr").write_text(said)
        assert made.said_last == last
    assert isinstance(made.died(-9), ProducerDied) and str(made.died(-9)).endswith("it said last: the last line")
