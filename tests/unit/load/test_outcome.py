"""Tests of outcomes: the outcome that a producer derives from a delivery report, and the encoding of results in the
live ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.load.delivery_reports import delivery_callback
from delivery_verifier.load.error_codes import UNKNOWN, UNLISTED, code_of, error_name
from delivery_verifier.load.live_ledger import (
    ACKED_NOWHERE,
    FAILED,
    INDETERMINATE,
    MOST_CODE,
    SENT,
    Word,
    encode_error,
    error_code,
    outcome_of,
)
from delivery_verifier.load.producer import SequencedProducer
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model import record
from delivery_verifier.model.outcomes import Outcome

CODES = sorted(
    {code for name in dir(KafkaError) if name.isupper() and isinstance(code := getattr(KafkaError, name), int) and code}
)


class Report:
    """A stand-in for a delivered message. It has only what the callback reads."""

    def value(self) -> bytes:
        return record.encode("abcdefgh", 1, 0, 0, 0, 0, 0, 100)


def producer(folder: Path, **settings: Any) -> SequencedProducer:
    """Returns a producer that has announced one record and cannot reach a broker."""
    made = SequencedProducer(
        ProducerSpec(
            folder=str(folder),
            connection={"bootstrap.servers": "127.0.0.1:1"},
            settings=PROFILES["acks_all"].producer | {"log_level": 0} | settings,
            topic="t",
            run_token="abcdefgh",
            arm=1,
            producer=0,
            session=0,
            records=1,
            rate=None,
            block=1,
            partitions=1,
            payload_bytes=100,
            deadline_s=1.0,
        )
    )
    made.ledger.open(0, 1, 1)
    return made


@pytest.mark.parametrize("retries", [0, 2147483647])
def test_no_error_in_a_delivery_report_proves_that_a_record_was_not_written(tmp_path: Path, retries: int) -> None:
    """This also holds with retries=0. If the leader that wrote a record is replaced, the client sends the record again
    without counting a retry. The error may then be the answer to the second try."""
    made = producer(tmp_path, retries=retries)
    assert len(CODES) > 100
    report = delivery_callback(made.ledger, made.control, "all")
    for code in CODES:
        report(KafkaError(code), cast(Any, Report()))
        result = made.ledger.segments[0].result[0]
        assert (outcome_of(result), error_code(result)) == (Outcome.INDETERMINATE, code_of(code))
        assert error_name(code_of(code)) == KafkaError(code).name(), "the ledger has librdkafka's name of the error"
    assert made.control[Word.INDETERMINATE] == len(CODES) and made.control[Word.FAILED] == 0


def test_a_fatal_error_of_the_client_ends_the_load_and_any_other_is_raised(tmp_path: Path) -> None:
    made = producer(tmp_path)

    def fail(error: KafkaError | KafkaException) -> None:
        raise cast(Exception, error)

    fatal = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "desynchronised", fatal=True)
    for raised in (fatal, KafkaException(fatal)):  # by `flush`, by `poll`
        made.fatal = None
        made._unless_fatal(lambda raised=raised: fail(raised))  # type: ignore[misc]
        assert made.fatal and "desynchronised" in made.fatal
    with pytest.raises(KafkaException):
        made._unless_fatal(lambda: fail(KafkaException(KafkaError(KafkaError._TRANSPORT))))
    try:
        made._unless_fatal(lambda: fail(KafkaError(KafkaError._TRANSPORT)))
        pytest.fail("an error that is not fatal was passed over")
    except KafkaError as error:  # type: ignore[misc]  # which pytest.raises does not take for an exception
        assert error.code() == KafkaError._TRANSPORT


@given(code=st.integers(0, MOST_CODE), base=st.sampled_from((FAILED, INDETERMINATE)))
def test_an_error_code_survives_the_slot_and_does_not_change_the_outcome(code: int, base: int) -> None:
    result = encode_error(base, code)
    assert error_code(result) == code
    assert outcome_of(result) == (Outcome.FAILED if base == FAILED else Outcome.INDETERMINATE)


@pytest.mark.parametrize("code", [-1, -192, MOST_CODE + 1])
def test_a_number_that_is_no_code_makes_no_result(code: int) -> None:
    """FAILED minus such a number would be a result that stands for another outcome."""
    with pytest.raises(ValueError, match=f"is {code}; allowed: 0 to 4999"):
        encode_error(FAILED, code)


def test_every_error_of_the_client_has_a_code_of_its_own_and_one_that_is_new_is_named_as_unlisted() -> None:
    codes = [code_of(code) for code in CODES]
    assert len({*codes}) == len(CODES) and UNLISTED not in codes, "append the new errors to error_codes.CLIENT_ERRORS"
    assert {code for code in CODES if code > 0} == {code for code in codes if code < UNKNOWN}
    assert code_of(-136) == code_of(4000) == UNLISTED and error_name(UNLISTED) == "UNLISTED"


def test_codes_keep_their_meaning() -> None:
    codes = {
        "_BAD_MSG": 1001,
        "_MSG_TIMED_OUT": 1008,
        "_QUEUE_FULL": 1016,
        "_PURGE_QUEUE": 1048,
        "_DESTROY_BROKER": 1063,
    }
    assert {name: code_of(getattr(KafkaError, name)) for name in codes} == codes
    assert code_of(KafkaError.UNKNOWN) == 1000 and code_of(KafkaError.MSG_SIZE_TOO_LARGE) == 10


@given(st.integers(0, 2**62))
def test_an_offset_makes_an_acknowledgement(offset: int) -> None:
    assert outcome_of(offset + 1) == Outcome.ACKED and error_code(offset + 1) is None


def test_an_open_slot_is_indeterminate_and_marks_without_offset_are_distinguished() -> None:
    assert outcome_of(0) == Outcome.INDETERMINATE and error_code(0) is None
    assert outcome_of(ACKED_NOWHERE) == Outcome.ACKED
    assert outcome_of(SENT) == Outcome.SENT
