"""Tests of settings: settings that librdkafka refuses are refused before a run, for the reason that librdkafka
gives."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest
from confluent_kafka import KafkaException, Producer
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Load, Profile


def changed(name: str = "idempotent", topic: dict[str, Setting] | None = None, **producer: Setting) -> Profile:
    base = PROFILES[name]
    named = {key.replace("_", "."): value for key, value in producer.items()}
    return Profile(name="p", summary="", producer=base.producer | named, topic=base.topic | (topic or {}))


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_of_the_catalogue_is_accepted(name: str) -> None:
    assert Settings.of_profile(PROFILES[name]).enable_idempotence == (name in ("idempotent", "safe", "transactional"))


@pytest.mark.parametrize(
    "contradiction",
    [
        {"acks": "1"},
        {"acks": 0},
        {"retries": 0},
        {"max.in.flight.requests.per.connection": 6},
        {"linger.ms": 200_000},
        {"linger.ms": 200_000, "enable.idempotence": False},
        {"enable.idempotence": False, "enable.gapless.guarantee": True},
        {"transaction.timeout.ms": 60000, "enable.idempotence": False},
        {"transaction.timeout.ms": 60000, "delivery.timeout.ms": 60001},
        {"transaction.timeout.ms": 30000, "delivery.timeout.ms": 30000},
    ],
)
def test_a_contradiction_is_refused_with_the_reason_librdkafka_gives(
    contradiction: dict[str, Setting],
) -> None:
    base = changed("transactional" if "transaction.timeout.ms" in contradiction else "idempotent")
    profile = Profile(name="p", summary="", producer=base.producer | contradiction, topic=base.topic)
    with pytest.raises(KafkaException) as theirs:
        Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **profile.producer})
    with pytest.raises(ContradictorySettings) as ours:
        Settings.of_profile(profile)
    assert str(ours.value) in theirs.value.args[0].str()


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (changed("acks_all", acks="2"), "none of 0, 1, all"),
        (changed(retries=-1), "outside allowed range"),
        (changed(retries=True), "no whole number"),
        (changed(enable_idempotence="perhaps"), "neither true nor false"),
        (changed(max_in_flight=1), "canonical"),
        (changed(transactional_id="t"), "transaction.timeout.ms: must be stated"),
        (changed("transactional", transaction_timeout_ms=900_001), "their transaction.max.timeout.ms, which is 900000"),
        (changed(topic={"retention.ms": 1000}), "expire"),
        (changed(topic={"min.insync.replicas": 0}), "outside allowed range"),
        (changed(topic={"flush.messages": 0}), "outside allowed range"),
        (changed(socket_timeout_ms=5), "outside allowed range"),
    ],
)
def test_a_setting_whose_promise_is_unknown_is_refused(profile: Profile, reason: str) -> None:
    with pytest.raises(ContradictorySettings, match=reason):
        Settings.of_profile(profile)


def test_a_setting_that_is_not_stated_is_refused_and_never_defaulted() -> None:
    profile = Profile(name="p", summary="", producer={"acks": "all"}, topic={})
    with pytest.raises(ContradictorySettings, match="must be stated"):
        Settings.of_profile(profile)


def test_acks_minus_one_means_all() -> None:
    assert Settings.of_profile(changed(acks=-1)).acks == "all"


@pytest.mark.parametrize(
    ("version", "elr", "has"), [("4.3.1", True, True), ("4.0.2", True, False), ("4.3.1", False, False)]
)
def test_an_arm_has_the_replicas_of_its_load_and_eligible_leaders_where_its_cluster_keeps_them(
    version: str, elr: bool, has: bool
) -> None:
    made = catalogue.scenario("r", profile=PROFILES["safe"], fault=catalogue.FAULTS["none"], load=Load(), records=1000)
    cluster = replace(made.cluster, kafka_version=version, elr=elr)
    run = replace(made, cluster=cluster, load=replace(made.load, replication_factor=2))
    found = Settings.of_arm(run, run.arms[0])
    assert (found.elr, found.replication_factor) == (has, 2)


def test_the_arm_of_a_run_has_librdkafka_whatever_client_its_settings_were_written_for() -> None:
    """A verdict is about the client that ran: a permission or promise of the Java client must not count."""
    written = replace(PROFILES["in_flight_1"], client="java")
    run = catalogue.scenario("r", profile=written, fault=catalogue.FAULTS["none"], load=Load(), records=1000)
    assert run.subjects[0].profile.client == "java"
    assert Settings.of_arm(run, run.subjects[0]).client == "librdkafka"
    assert Settings.of_profile(written, client="java").client == "java"


@pytest.mark.parametrize(("brokers", "stated", "expected"), [(3, {}, 2), (2, {}, 2), (1, {}, 1), (3, {"min": 1}, 1)])
def test_the_transaction_log_has_the_replicas_that_its_cluster_gives_it(
    brokers: int, stated: dict[str, int], expected: int
) -> None:
    made = catalogue.scenario("r", profile=PROFILES["safe"], fault=catalogue.FAULTS["none"], load=Load(), records=1000)
    settings = {"transaction.state.log.min.isr": value for value in stated.values()}
    run = replace(made, cluster=replace(made.cluster, brokers=brokers, broker_settings=settings))
    assert Settings.of_arm(run, run.arms[0]).transaction_log_min_isr == expected


def test_a_transaction_log_has_two_replicas_that_confirm_and_eligible_leaders_unless_stated() -> None:
    defaults = {field.name: field.default for field in fields(Settings) if field.default is not MISSING}
    others = {"discipline": None, "auto_offset_reset": "earliest", "client_version": ""}
    assert defaults == {"transaction_log_min_isr": 2, "transaction_log_elr": True} | others
