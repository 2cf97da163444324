"""Tests of which setting gave a record up: by the client's error and the settings, with a change and its price."""

from __future__ import annotations

from dataclasses import replace

import pytest

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.giving_up import FATAL, OF_TRANSACTIONS, RETRIED, TIMED_OUT, giving_up
from delivery_verifier.contract.settings import Settings

IDEMPOTENT, ACKS_ALL = (Settings.of_profile(PROFILES[name]) for name in ("idempotent", "acks_all"))
WITHOUT_RETRIES = Settings.of_profile(PROFILES["retries_off"])
TRANSACTIONAL = Settings.of_profile(PROFILES["transactional"])


def how(error: str, settings: Settings = IDEMPOTENT, **producer: int) -> str:
    given = {name.replace("_", "."): value for name, value in producer.items()}
    return giving_up(error, settings, given).how


@pytest.mark.parametrize("error", sorted(TIMED_OUT))
def test_what_waited_for_too_long_was_given_up_by_the_delivery_timeout(error: str) -> None:
    short = replace(IDEMPOTENT, delivery_timeout_ms=5000)
    assert how(error, short) == "given up after delivery.timeout.ms=5000 (message.timeout.ms)"
    # Three tries of a minute each are longer than two minutes.
    assert "delivery.timeout.ms=120000" in how(error, replace(ACKS_ALL, retries=3))


@pytest.mark.parametrize("error", sorted(RETRIED))
def test_what_was_tried_often_enough_was_given_up_by_the_retries(error: str) -> None:
    expected = f"given up after retries=0 (message.send.max.retries) on the error {error}"
    assert how(error, WITHOUT_RETRIES) == expected
    assert how(error, ACKS_ALL) == f"refused with {error}", "retries without an end cannot have ended"


def test_a_request_that_timed_out_for_the_last_time_ran_out_of_retries_before_the_delivery_timeout() -> None:
    assert how("_MSG_TIMED_OUT", WITHOUT_RETRIES).startswith("given up after retries=0")
    forever = replace(ACKS_ALL, retries=5, delivery_timeout_ms=0)
    assert how("_MSG_TIMED_OUT", forever).startswith("given up after retries=5")
    assert "delivery.timeout.ms=5000" in how("_MSG_TIMED_OUT", replace(WITHOUT_RETRIES, delivery_timeout_ms=5000))


@pytest.mark.parametrize("error", sorted(OF_TRANSACTIONS))
def test_what_its_transaction_took_along_names_the_timeout_of_transactions(error: str) -> None:
    expected = "dropped with an aborted transaction (transaction.timeout.ms=50000)"
    assert how(error, TRANSACTIONAL, transaction_timeout_ms=50000) == expected
    assert how(error) == f"refused with {error}"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("", "left open by a producer that ended"),
        ("TOPIC_AUTHORIZATION_FAILED", "refused with TOPIC_AUTHORIZATION_FAILED"),
        *((error, f"refused after a fatal error of the client ({error})") for error in sorted(FATAL)),
        (
            "_QUEUE_FULL",
            "refused by a full queue of the client (queue.buffering.max.messages, queue.buffering.max.kbytes)",
        ),
    ],
)
def test_what_no_timeout_ended_is_named_by_its_error(error: str, expected: str) -> None:
    assert how(error) == how(error, WITHOUT_RETRIES) == expected


@pytest.mark.parametrize("settings", [IDEMPOTENT, ACKS_ALL, WITHOUT_RETRIES, TRANSACTIONAL])
def test_every_way_has_a_change_and_every_change_of_settings_a_price(settings: Settings) -> None:
    for error in ("", *TIMED_OUT, *RETRIED, *OF_TRANSACTIONS, *FATAL, "_QUEUE_FULL"):
        way = giving_up(error, settings, {"transaction.timeout.ms": 60000})
        assert way.change.endswith(".") and "; " not in way.how, "the verdict's sentence is cut at such a sign"
        assert way.price.startswith("The price:") or way.how.startswith("refused with")


def test_what_a_program_dropped_when_it_ended_is_named_only_where_nothing_else_left_records_open() -> None:
    dropped = giving_up("", IDEMPOTENT, {}, dropped=1_200)
    assert dropped.how == (
        "dropped by the program, which ended on SIGTERM without flush() and had 1,200 in its client's queue"
    )
    assert "flush()" in dropped.change and dropped.price.startswith("The price:") and "; " not in dropped.how
    assert giving_up("", IDEMPOTENT, {}).how == "left open by a producer that ended"
    timed_out = giving_up("_MSG_TIMED_OUT", IDEMPOTENT, {}, dropped=1_200)
    assert timed_out == giving_up("_MSG_TIMED_OUT", IDEMPOTENT, {}), "a report came, so the program did not drop it"


def test_the_price_of_a_late_retry_is_a_second_copy_unless_brokers_discard_it() -> None:
    unsafe, safe = (giving_up("_MSG_TIMED_OUT", settings, {}) for settings in (ACKS_ALL, IDEMPOTENT))
    assert "twice" in unsafe.price and "twice" not in safe.price
    unsafe, safe = (giving_up("_TRANSPORT", replace(settings, retries=1), {}) for settings in (ACKS_ALL, IDEMPOTENT))
    assert "twice" in unsafe.price and "twice" not in safe.price
    assert "transaction.timeout.ms must be at least as long" in giving_up("_MSG_TIMED_OUT", TRANSACTIONAL, {}).change
