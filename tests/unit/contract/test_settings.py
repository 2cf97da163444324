"""Tests of settings: settings that librdkafka refuses are refused before a run, for the reason that librdkafka
gives."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest
from confluent_kafka import KafkaException, Producer
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.settings import ELR_SINCE, ContradictorySettings, Settings, _has_elr
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
    written = replace(PROFILES["in_flight_1"], written_for="java")
    run = catalogue.scenario("r", profile=written, fault=catalogue.FAULTS["none"], load=Load(), records=1000)
    assert run.subjects[0].profile.written_for == "java"
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
    of_cluster = {"transaction_log_min_isr": 2, "transaction_log_elr": True, "transaction_version_2": True}
    assert defaults == of_cluster | others


# ---- At the edges: the least and the greatest values that settings may have.


PLAIN = Settings.of_profile(PROFILES["acks_all"])


RANGES = {
    "retries": (0, 2147483647),
    "max.in.flight.requests.per.connection": (1, 1_000_000),
    "delivery.timeout.ms": (1, 2147483647),
    "request.timeout.ms": (1, 900_000),
    "socket.timeout.ms": (10, 300_000),
    "linger.ms": (0, 900_000),
    "min.insync.replicas": (1, 32767),
    "flush.messages": (1, 9223372036854775807),
}
"""The ranges of librdkafka's CONFIGURATION.md and of Kafka's topic configurations; delivery.timeout.ms may be 0."""
FIELDS = {"max.in.flight.requests.per.connection": "max_in_flight"}


def with_one_value(name: str, value: Setting, base: str = "acks_all") -> Profile:
    """A profile with one other value. linger.ms is less than any delivery.timeout.ms unless it is changed itself."""
    producer = {**PROFILES[base].producer, "linger.ms": 0, "delivery.timeout.ms": 2147483647}
    if base == "transactional":
        producer["delivery.timeout.ms"] = 900
    topic = dict(PROFILES[base].topic)
    (topic if name in topic else producer)[name] = value
    return Profile(name="p", summary="", producer=producer, topic=topic)


@pytest.mark.parametrize("name", RANGES)
def test_the_least_and_the_greatest_value_are_accepted_and_those_beyond_are_not(name: str) -> None:
    least, greatest = RANGES[name]
    for value in (least, greatest):
        settings = Settings.of_profile(with_one_value(name, value))
        assert getattr(settings, FIELDS.get(name, name.replace(".", "_")), value) == value
    for value in (least - 1 if name != "delivery.timeout.ms" else -1, greatest + 1):
        with pytest.raises(ContradictorySettings, match="outside allowed range"):
            Settings.of_profile(with_one_value(name, value))


def test_a_timeout_of_zero_is_no_limit_and_any_other_must_be_longer_than_the_linger() -> None:
    assert Settings.of_profile(with_one_value("delivery.timeout.ms", 0)).delivery_timeout_ms == 0
    profile = with_one_value("delivery.timeout.ms", 7)
    assert Settings.of_profile(Profile("p", "", profile.producer | {"linger.ms": 6}, profile.topic))
    with pytest.raises(ContradictorySettings, match=r"greater than `linger\.ms`"):
        Settings.of_profile(Profile("p", "", profile.producer | {"linger.ms": 7}, profile.topic))
    zero = with_one_value("delivery.timeout.ms", 0)
    assert Settings.of_profile(Profile("p", "", zero.producer | {"linger.ms": 900_000}, zero.topic))


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("transaction.timeout.ms", 1000, 999),
        ("transaction.timeout.ms", 900_000, 900_001),
        ("delivery.timeout.ms", 60_000, 60_001),
        ("socket.timeout.ms", 60_100, 60_101),
        ("max.in.flight.requests.per.connection", 5, 6),
        ("retries", 1, 0),
    ],
)
def test_transactions_and_idempotence_have_narrower_ranges(name: str, accepted: int, refused: int) -> None:
    def with_value(value: int) -> Profile:
        profile = with_one_value(name, value, "transactional")
        producer = {"transaction.timeout.ms": 60_000, **profile.producer}
        producer |= {"transaction.timeout.ms": 60_000} if name != "transaction.timeout.ms" else {}
        producer |= {"socket.timeout.ms": 1000} if name != "socket.timeout.ms" else {}
        return Profile(name="p", summary="", producer=producer, topic=profile.topic)

    assert Settings.of_profile(with_value(accepted)).transactional_id
    with pytest.raises(ContradictorySettings):
        Settings.of_profile(with_value(refused))


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes"])
def test_topics_whose_records_never_expire_are_accepted_however_it_is_written(name: str) -> None:
    for value in (-1, "-1"):
        assert Settings.of_profile(with_topic_value(name, value)) == PLAIN
    for value in (0, 1, -2):
        with pytest.raises(ContradictorySettings, match="expire"):
            Settings.of_profile(with_topic_value(name, value))


def with_topic_value(name: str, value: Setting) -> Profile:
    base = PROFILES["acks_all"]
    return Profile(name="p", summary="", producer=base.producer, topic=base.topic | {name: value})


def test_a_gapless_guarantee_needs_idempotence_and_is_off_unless_stated() -> None:
    safe, plain = PROFILES["safe"], PROFILES["acks_all"]
    gapless: dict[str, Setting] = {"enable.gapless.guarantee": True}
    assert Settings.of_profile(Profile("p", "", safe.producer | gapless, safe.topic)).enable_idempotence
    off: dict[str, Setting] = {"enable.gapless.guarantee": "false"}
    assert not Settings.of_profile(Profile("p", "", plain.producer | off, plain.topic)).enable_idempotence


def test_an_ordinary_run_has_three_replicas_eligible_leaders_the_raw_view_and_librdkafka() -> None:
    assert (PLAIN.replication_factor, PLAIN.elr, PLAIN.client) == (3, True, "librdkafka")
    assert PLAIN.isolation_level == "read_uncommitted"


@pytest.mark.parametrize(
    ("version", "has"), [("4.1.0", True), ("4.0.9", False), ("5.0.0", True), ("3.9.1", False), ("4.10", True)]
)
def test_eligible_leaders_are_kept_since_kafka_4_1(version: str, has: bool) -> None:
    assert _has_elr(version) is has
    assert ELR_SINCE == (4, 1)
