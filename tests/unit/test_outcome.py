"""Classification: FAILED only with proof that nothing was written, and every result in the live ledger says what it is."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.anomalies import Outcome
from delivery_verifier.workload.live import ACKED_NOWHERE, FAILED, INDETERMINATE, SENT, encode_error, error_code, outcome_of
from delivery_verifier.workload.outcome import LOCAL_REFUSALS, REFUSED_BEFORE_APPEND, classify

CODES = sorted(
    {code for name in dir(KafkaError) if name.isupper() and isinstance(code := getattr(KafkaError, name), int) and code}
)
TABLE: list[tuple[int, int, Outcome]] = [
    (KafkaError._QUEUE_FULL, 0, Outcome.FAILED),
    (KafkaError.MSG_SIZE_TOO_LARGE, 0, Outcome.FAILED),
    (KafkaError.MSG_SIZE_TOO_LARGE, 3, Outcome.INDETERMINATE),  # may be the broker's word on a larger, second batch
    (KafkaError._UNKNOWN_PARTITION, 0, Outcome.FAILED),
    (KafkaError._UNKNOWN_PARTITION, 3, Outcome.INDETERMINATE),  # stale metadata drop a record that waits for its retry
    (KafkaError._UNKNOWN_TOPIC, 0, Outcome.FAILED),
    (KafkaError._UNKNOWN_TOPIC, 3, Outcome.INDETERMINATE),
    (KafkaError.NOT_ENOUGH_REPLICAS, 0, Outcome.FAILED),
    (KafkaError.NOT_ENOUGH_REPLICAS, 1, Outcome.INDETERMINATE),  # an earlier try may have been appended
    (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0, Outcome.INDETERMINATE),
    (KafkaError._MSG_TIMED_OUT, 0, Outcome.INDETERMINATE),
    (KafkaError._TIMED_OUT, 3, Outcome.INDETERMINATE),
    (KafkaError.REQUEST_TIMED_OUT, 0, Outcome.INDETERMINATE),
    (KafkaError._TRANSPORT, 0, Outcome.INDETERMINATE),
    (KafkaError._PURGE_INFLIGHT, 0, Outcome.INDETERMINATE),
    (KafkaError._FATAL, 0, Outcome.INDETERMINATE),
    (KafkaError.NETWORK_EXCEPTION, 0, Outcome.INDETERMINATE),
    (KafkaError.NOT_LEADER_FOR_PARTITION, 3, Outcome.INDETERMINATE),
    (KafkaError.UNKNOWN_PRODUCER_ID, 3, Outcome.INDETERMINATE),
]


@pytest.mark.parametrize(("code", "retries", "outcome"), TABLE)
def test_an_error_proves_what_the_table_says(code: int, retries: int, outcome: Outcome) -> None:
    assert outcome_of(classify(code, retries)) == outcome


@pytest.mark.parametrize("retries", [0, 1, 2147483647])
def test_an_error_that_is_in_no_list_is_indeterminate(retries: int) -> None:
    certain = LOCAL_REFUSALS | REFUSED_BEFORE_APPEND if retries == 0 else frozenset()
    assert len(CODES) > 100
    failed = {code for code in CODES if outcome_of(classify(code, retries)) == Outcome.FAILED}
    assert failed == set(certain)


@given(code=st.integers(-999, 999), base=st.sampled_from((FAILED, INDETERMINATE)))
def test_an_error_code_survives_the_slot_and_does_not_change_the_outcome(code: int, base: int) -> None:
    result = encode_error(base, code)
    assert error_code(result) == code
    assert outcome_of(result) == (Outcome.FAILED if base == FAILED else Outcome.INDETERMINATE)


@given(st.integers(0, 2**62))
def test_an_offset_makes_an_acknowledgement(offset: int) -> None:
    assert outcome_of(offset + 1) == Outcome.ACKED and error_code(offset + 1) is None


def test_an_open_slot_is_indeterminate_and_marks_without_offset_are_told_apart() -> None:
    assert outcome_of(0) == Outcome.INDETERMINATE and error_code(0) is None
    assert outcome_of(ACKED_NOWHERE) == Outcome.ACKED
    assert outcome_of(SENT) == Outcome.SENT
