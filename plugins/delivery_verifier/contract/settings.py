"""The delivery settings of one arm. For settings that librdkafka refuses, this module raises an error with librdkafka's
reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from delivery_verifier.model.application import Application, Discipline
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import RAW, Arm, ClusterSpec, Isolation, Profile, Scenario

Acks = Literal["0", "1", "all"]

ALIASES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
}
"""Maps each alias that librdkafka has for a setting to the setting's canonical name. A profile (see `scenario.Profile`)
with an alias is refused, because a profile could give alias and canonical name different values."""


class ContradictorySettings(VerifierError, ValueError):
    """The error for settings that librdkafka refuses, or on which the contract cannot rule.

    The contract cannot rule in these cases: a setting is missing, an alias is used as the name of a setting (see
    ALIASES), or records of the topic expire.
    """


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings that delivery depends on. The fields have Kafka's names, some of them shortened, in snake case.

    Timeouts are in ms. If `delivery_timeout_ms` is 0, there is no limit. If `transactional_id` is empty, the producer
    writes no transactions. `elr` says whether the cluster keeps eligible leader replicas (KIP-966). `client` is the
    client that has these settings. The rules know one difference between its versions: `ends_are_fenced`.
    """

    acks: Acks
    enable_idempotence: bool
    retries: int
    max_in_flight: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    socket_timeout_ms: int
    transactional_id: str
    replication_factor: int
    min_insync_replicas: int
    unclean_leader_election: bool
    elr: bool
    flush_messages: int
    isolation_level: Isolation
    client: Client
    transaction_log_min_isr: int = 2
    """How many in-sync replicas confirm an entry of the transaction log (transaction.state.log.min.isr)."""
    transaction_version_2: bool = True
    """Whether brokers offer version 2 of transactions (KIP-890), which new clusters have since Kafka 4.0."""
    transaction_log_elr: bool = True
    """Whether the transaction log has eligible leader replicas. The field `elr` is about the arm's topic instead."""
    discipline: Discipline | None = None
    """The discipline of the arm's application, i.e. when the application lets go of a record (see
    `model.application.Discipline`). None if the arm has no application."""
    auto_offset_reset: str = "earliest"
    """Where a group without a committed offset starts."""
    client_version: str = ""
    """The version of `client`, e.g. `3.1`. Empty: its newest, of librdkafka the installed one."""

    @classmethod
    def of_profile(
        cls,
        profile: Profile,
        replication_factor: int = 3,
        elr: bool = True,
        isolation_level: Isolation = RAW,
        client: Client = "librdkafka",
        transaction_log_min_isr: int = 2,
    ) -> Settings:
        """Returns the settings of `profile`. Raises ContradictorySettings if librdkafka refuses them or the contract
        cannot rule on them.

        The profile must state every setting, so that no default of a client or broker counts. The other parameters are
        not part of a profile. Their defaults are the values of an ordinary run: three replicas, eligible leader
        replicas (which Kafka has since 4.1), a consumer that also reads records of aborted transactions, and librdkafka
        as the client. The parameter `client` alone decides the client. For which client the profile was written does
        not matter; the version for which it was written counts only if the two are the same client.
        """
        _check_names(profile)
        settings = cls(
            acks=_acks(profile.producer),
            enable_idempotence=_boolean(profile.producer, "enable.idempotence"),
            retries=_number(profile.producer, "retries", 0, 2147483647),
            max_in_flight=_number(profile.producer, "max.in.flight.requests.per.connection", 1, 1_000_000),
            delivery_timeout_ms=_number(profile.producer, "delivery.timeout.ms", 0, 2147483647),
            request_timeout_ms=_number(profile.producer, "request.timeout.ms", 1, 900_000),
            socket_timeout_ms=_number(profile.producer, "socket.timeout.ms", 10, 300_000),
            transactional_id=str(profile.producer.get("transactional.id", "")),
            replication_factor=replication_factor,
            min_insync_replicas=_number(profile.topic, "min.insync.replicas", 1, 32767),
            unclean_leader_election=_boolean(profile.topic, "unclean.leader.election.enable"),
            elr=elr,
            flush_messages=_number(profile.topic, "flush.messages", 1, 9223372036854775807),
            isolation_level=isolation_level,
            client=client,
            client_version=profile.written_for_version if client == profile.written_for else "",
            transaction_log_min_isr=transaction_log_min_isr,
            transaction_log_elr=elr,
        )
        _check_together(settings, profile.producer)
        return settings

    @classmethod
    def of_arm(cls, scenario: Scenario, arm: Arm) -> Settings:
        """Returns the settings of `arm`, whose producers use `arm.client`. Raises ContradictorySettings if librdkafka
        refuses them, or if the contract cannot rule on them.

        `scenario` decides how many replicas there are, and whether the cluster keeps eligible leader replicas (`elr`).
        """
        cluster, own = scenario.cluster, arm.java_properties
        settings = cls.of_profile(
            arm.profile,
            scenario.load.replication_factor,
            elr=cluster.elr and _has_elr(cluster.kafka_version),
            client=arm.client,
            transaction_log_min_isr=transaction_log_min_isr(cluster),
        )
        settings = replace(
            settings,
            # The Java client has the times that a user wrote for it. librdkafka allows less, so the profile may
            # state less.
            delivery_timeout_ms=int(own.get("delivery.timeout.ms", settings.delivery_timeout_ms)),
            request_timeout_ms=int(own.get("request.timeout.ms", settings.request_timeout_ms)),
            socket_timeout_ms=int(own.get("request.timeout.ms", settings.socket_timeout_ms)),
            # The version that runs counts, not the one for which the settings were written.
            client_version=arm.versioned_client.version,
            # An older cluster that was upgraded keeps its version of transactions, and nobody asks it for that.
            transaction_version_2=cluster.external is None and _version(cluster.kafka_version) >= FENCED_ENDS_SINCE,
        )
        return settings.consumed_by(arm.application) if arm.application else settings

    def consumed_by(self, application: Application) -> Settings:
        """Returns these settings for an arm whose records `application` applies.

        The settings of a user application are unknown. For such an application, the contract assumes two things:
        the application may read records of aborted transactions, and auto.offset.reset explains no skipped record.
        """
        consumer = application.consumer
        isolation: Isolation = "read_committed" if consumer.get("isolation.level", RAW) != RAW else RAW
        reset = str(consumer.get("auto.offset.reset", "earliest"))
        return replace(self, discipline=application.discipline, auto_offset_reset=reset, isolation_level=isolation)

    @property
    def ends_are_fenced(self) -> bool:
        """Whether every end of a transaction raises the producer epoch (KIP-890), so that a late request to end an
        earlier transaction is refused. Only the Java client since FENCED_ENDS_SINCE asks brokers for that, and only
        where they offer it."""
        return (
            self.transaction_version_2
            and self.client == "java"
            and (not self.client_version or _version(self.client_version) >= FENCED_ENDS_SINCE)
        )

    @property
    def without_effect(self) -> str:
        """A sentence on min.insync.replicas, if it has no effect beside these `acks`. Otherwise an empty text."""
        if self.acks == "all" or self.min_insync_replicas == 1:
            return ""
        return (
            f"min.insync.replicas={self.min_insync_replicas} has no effect with acks={self.acks}: only with acks=all "
            "does a broker wait for other replicas before it acknowledges."
        )


def transaction_log_min_isr(cluster: ClusterSpec) -> int:
    """Returns transaction.state.log.min.isr of the brokers of `cluster`. If the broker settings do not set it, the
    value is 2, or 1 if there is only one broker."""
    return int(cluster.broker_settings.get("transaction.state.log.min.isr", min(2, cluster.brokers)))


MOST_TRANSACTION_TIMEOUT_MS = 900_000
"""The greatest transaction.timeout.ms that brokers with the default of transaction.max.timeout.ms accept."""
ELR_SINCE = (4, 1)
"""The first version of Kafka (major, minor) whose new clusters keep eligible leader replicas by default (KIP-966)."""


FENCED_ENDS_SINCE = (4, 0)
"""The first version (major, minor) of the Java client that speaks version 2 of transactions (KIP-890), and of brokers
whose new clusters offer it."""


def _has_elr(kafka_version: str) -> bool:
    return _version(kafka_version) >= ELR_SINCE


def _version(text: str) -> tuple[int, ...]:
    """Returns the numbers of a version, to be compared with a major and a minor number. A missing minor number is 0."""
    return *(int(part) for part in text.split(".") if part.isdigit()), 0


def _check_names(profile: Profile) -> None:
    """Raises ContradictorySettings if `profile` uses an alias of a setting, or if records of its topic expire."""
    for alias, name in ALIASES.items():
        if alias in profile.producer:
            raise ContradictorySettings(f"{alias}: write {name}, its canonical name")
    for name in ("retention.ms", "retention.bytes"):
        if str(profile.topic.get(name, -1)) != "-1":
            raise ContradictorySettings(f"{name}: records that expire cannot be distinguished from lost ones, use -1")


def _check_together(settings: Settings, producer: Mapping[str, Setting]) -> None:
    """Raises ContradictorySettings for a combination of settings that librdkafka does not allow, although each setting
    is valid by itself."""
    if settings.transactional_id:
        _check_transactional(settings, producer)
    if settings.enable_idempotence:
        if settings.max_in_flight > 5:
            raise ContradictorySettings("`max.in.flight` must be set <= 5 when `enable.idempotence` is true")
        if settings.retries < 1:
            raise ContradictorySettings("`retries` must be set >= 1 when `enable.idempotence` is true")
        if settings.acks != "all":
            raise ContradictorySettings("`acks` must be set to `all` when `enable.idempotence` is true")
    elif _boolean({"enable.gapless.guarantee": False, **producer}, "enable.gapless.guarantee"):
        raise ContradictorySettings("`enable.gapless.guarantee` requires `enable.idempotence` to be enabled")
    timeout = settings.delivery_timeout_ms
    if timeout and _linger_ms(producer) >= timeout:
        raise ContradictorySettings("`message.timeout.ms` must be greater than `linger.ms`")


def _check_transactional(settings: Settings, producer: Mapping[str, Setting]) -> None:
    """Raises ContradictorySettings for a transactional.id without idempotence, and for timeouts that are too long.

    With such timeouts, an attempt could last longer than its transaction, and be written into the next transaction.
    """
    if not settings.enable_idempotence:
        raise ContradictorySettings("`transactional.id` requires `enable.idempotence=true`")
    timeout = _number(producer, "transaction.timeout.ms", 1000, 2147483647)
    if timeout > MOST_TRANSACTION_TIMEOUT_MS:
        raise ContradictorySettings(
            f"transaction.timeout.ms is {timeout}, and brokers refuse a producer that asks for more than their "
            f"transaction.max.timeout.ms, which is {MOST_TRANSACTION_TIMEOUT_MS} by default; set that or less, no run "
            "exercises more"
        )
    if settings.delivery_timeout_ms > timeout:
        raise ContradictorySettings("`message.timeout.ms` must be set <= `transaction.timeout.ms`")
    if settings.socket_timeout_ms > timeout + 100:
        raise ContradictorySettings("`socket.timeout.ms` must be set <= `transaction.timeout.ms` + 100")


def _linger_ms(producer: Mapping[str, Setting]) -> float:
    """Returns linger.ms, which librdkafka takes as a decimal. Raises ContradictorySettings if it is no number from 0 to
    900,000."""
    value = _value(producer, "linger.ms")
    if isinstance(value, str) and re.fullmatch(r"[0-9]+\.[0-9]+", value):
        return float(value)
    return _number(producer, "linger.ms", 0, 900_000)


def _value(properties: Mapping[str, Setting], name: str) -> Setting:
    if name not in properties:
        raise ContradictorySettings(f"{name}: must be stated, nothing is left to a default")
    return properties[name]


def _acks(producer: Mapping[str, Setting]) -> Acks:
    text = str(_value(producer, "acks")).lower()
    known: dict[str, Acks] = {"0": "0", "1": "1", "all": "all", "-1": "all"}
    if text not in known:
        raise ContradictorySettings(f"acks: {text!r} is none of 0, 1, all (brokers refuse any other)")
    return known[text]


def _number(properties: Mapping[str, Setting], name: str, low: int, high: int) -> int:
    value = _value(properties, name)
    try:
        number = int(value) if not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None:
        raise ContradictorySettings(f"{name}: {value!r} is no whole number")
    if not low <= number <= high:
        raise ContradictorySettings(f'"{name}" value {number} is outside allowed range {low}..{high}')
    return number


def _boolean(properties: Mapping[str, Setting], name: str) -> bool:
    text = str(_value(properties, name)).lower()
    if text not in ("true", "false"):
        raise ContradictorySettings(f"{name}: {text!r} is neither true nor false")
    return text == "true"
