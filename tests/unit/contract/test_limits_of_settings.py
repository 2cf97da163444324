"""Limits of settings: what runs out first, the ranges of librdkafka, and versions without a minor number."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from delivery_verifier import catalogue
from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.giving_up import giving_up
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.model.scenario import Load, Profile

ACKS_ALL = Settings.of_profile(PROFILES["acks_all"])


def test_tries_that_last_as_long_as_the_delivery_timeout_did_not_run_out_before_it() -> None:
    as_long = replace(ACKS_ALL, retries=1, socket_timeout_ms=60_000, delivery_timeout_ms=120_000)
    assert "delivery.timeout.ms=120000" in giving_up("_MSG_TIMED_OUT", as_long, {}).how
    shorter = replace(as_long, socket_timeout_ms=59_999)
    assert "retries=1" in giving_up("_MSG_TIMED_OUT", shorter, {}).how


def test_who_ran_out_of_retries_is_told_librdkafkas_default_which_has_no_end() -> None:
    way = giving_up("_TRANSPORT", replace(ACKS_ALL, retries=3), {})
    assert "leave retries at 2147483647." in way.change
    assert giving_up("_TRANSPORT", replace(ACKS_ALL, retries=2147483646), {}).how.startswith("given up after retries=")


def test_a_transaction_timeout_beyond_librdkafkas_range_is_refused_with_this_range() -> None:
    base = PROFILES["transactional"]
    beyond = Profile("p", "", {**base.producer, "transaction.timeout.ms": 2147483648}, base.topic)
    with pytest.raises(ContradictorySettings, match=r"outside allowed range 1000\.\.2147483647"):
        Settings.of_profile(beyond)


@pytest.mark.parametrize(("version", "has"), [("4", False), ("5", True), ("4.1", True), ("4.0.9", False)])
def test_a_cluster_whose_version_has_no_minor_number_is_the_first_of_its_major_version(version: str, has: bool) -> None:
    made = catalogue.scenario("r", profile=PROFILES["safe"], fault=catalogue.FAULTS["none"], load=Load(), records=1000)
    run = changed(made, cluster=changed(made.cluster, kafka_version=version, elr=True))
    assert Settings.of_arm(run, run.arms[0]).elr is has


@pytest.mark.parametrize(
    ("version", "fenced"), [("", True), ("4", True), ("4.0.0", True), ("4.2", True), ("3.9", False), ("3", False)]
)
def test_late_ends_of_transactions_are_refused_of_java_clients_since_4(version: str, fenced: bool) -> None:
    java = replace(ACKS_ALL, client="java", client_version=version)
    assert java.ends_are_fenced is fenced
    assert not replace(java, client="librdkafka").ends_are_fenced
