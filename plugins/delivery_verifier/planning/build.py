"""From the fields of a run to a scenario: profile, fault, load and claim, checked and put together."""

from __future__ import annotations

import importlib.metadata
import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast, get_args

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.host import folders
from delivery_verifier.host.java.jars import kafka_versions
from delivery_verifier.load.layout import require_room
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.inputs import bad_input as refused
from delivery_verifier.model.scenario import Claim, ClusterSpec, Load, Profile, Scenario
from delivery_verifier.model.scenario_checks import check
from delivery_verifier.planning.own_settings import librdkafka, profiles, translation
from delivery_verifier.planning.params import LONGEST_S, checked

PACKAGES = (
    "apache-airflow",
    "apache-airflow-providers-apache-spark",
    "confluent-kafka",
    "great-expectations",
    "pyspark",
)

QUIET_S = 4.0
"""Seconds of load before and after the fault's own duration."""


def scenario_from_params(params: Mapping[str, Any], name: str) -> Scenario:
    """The scenario for form or command line fields; missing ones take the form's defaults. Raises BadInput."""
    params = checked(params)
    if params.get("scenario"):
        return _of_the_catalogue(params, name)
    chosen = _profile(params)
    profile = _with_min_isr(chosen, params)
    fault = _with_cycles(_pick("fault", params.get("fault") or "kill_leader", catalogue.FAULTS), params)
    records = int(params["records"]) if params.get("records") is not None else 20_000
    load = _load(params, fault, records)
    version = str(params.get("kafka_version") or ClusterSpec().kafka_version)
    if version not in kafka_versions():
        raise BadInput(f"kafka_version is {version!r}; allowed: {', '.join(kafka_versions())}")
    try:
        scenario = catalogue.scenario(
            name,
            profile=profile,
            fault=fault,
            claim=_claim(params),
            load=load,
            records=records,
            producers=int(params.get("producers") or 1),
            cluster=ClusterSpec(kafka_version=version, brokers=3),
            seed=int(params.get("seed") or 0),
            min_exposed=int(params["min_exposed"]) if params.get("min_exposed") is not None else _min_exposed(records),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=versions_of(version),
            commit=commit(),
            command=_command(params, chosen),
            fail_step=params.get("fail_step") or None,
        )
        check(msgspec.convert(msgspec.to_builtins(scenario), Scenario))
        _check_transactions(scenario)
        for arm in scenario.arms:
            check_settings(arm.profile, version, load.payload_bytes)
    except (ValueError, msgspec.ValidationError) as error:
        raise BadInput(str(error)) from None
    return scenario


def _check_transactions(scenario: Scenario) -> None:
    """Raises BadInput where transactions are shaped that nobody writes."""
    for name in ("transaction_records", "abort_every"):
        value = getattr(scenario.load, name)
        if value != getattr(Load(), name) and not scenario.transactional:
            remedy = "leave it out, or choose --profile transactional"
            raise refused(name, value, "nothing, for no arm has a transactional.id", remedy)


BESIDE_A_SCENARIO = ("scenario", "seed", "kafka_version", "fail_step", "owner")
"""Fields that may be given beside a scenario of the catalogue, which says everything else itself."""


def _of_the_catalogue(params: Mapping[str, Any], name: str) -> Scenario:
    """A catalogue's scenario. Fields that it settles itself are the form's defaults, and of no account; settings of the
    user's own are nobody's default, and refused."""
    if own := [field for field in ("own_profile", "producer_overrides", "topic_overrides") if params.get(field)]:
        raise BadInput(
            f"{own[0]} is given, but scenario is {params['scenario']!r}, which has settings of its own; allowed: one "
            "of the two"
        )
    entry = catalogue.SCENARIOS[params["scenario"]]
    given = {key: params[key] for key in BESIDE_A_SCENARIO if params.get(key) is not None}
    version = str(given.get("kafka_version") or ClusterSpec().kafka_version)
    scenario = catalogue.build(
        entry,
        name,
        seed=int(given.get("seed") or 0),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions_of(version),
        commit=commit(),
        command=_command(given, catalogue.PROFILES["safe"]),
        fail_step=given.get("fail_step"),
        kafka_version=version,
    )
    check(msgspec.convert(msgspec.to_builtins(scenario), Scenario))
    for arm in scenario.arms:
        check_settings(arm.profile, version, scenario.load.payload_bytes)
    return scenario


def _min_exposed(records: int) -> int:
    return min(100, max(1, records // 100))


def check_settings(profile: Profile, kafka_version: str | None = None, payload_bytes: int | None = None) -> None:
    """Refuses settings that contradict each other before anything starts, with librdkafka's own reason (BadInput)."""
    load, cluster = Load(), ClusterSpec()
    try:
        Settings.of(profile)
        translation.check_known(profile.producer, profile.topic)
        translation.check_version(profile.topic, kafka_version or cluster.kafka_version)
        librdkafka.check_producer(profile.producer)
        require_room(profile.producer, payload_bytes or load.payload_bytes)
    except ValueError as error:
        raise BadInput(f"profile {profile.name}: {error}") from None


def _profile(params: Mapping[str, Any]) -> Profile:
    profile = _own_profile(params.get("own_profile")) or _pick(
        "profile", params.get("profile") or "safe", profiles.known()
    )
    texts = (str(params.get(name) or "") for name in ("producer_overrides", "topic_overrides"))
    return profiles.overridden(profile, *texts)


def _with_min_isr(profile: Profile, params: Mapping[str, Any]) -> Profile:
    if (least := params.get("min_insync_replicas")) is not None:
        profile = msgspec.structs.replace(profile, topic={**profile.topic, "min.insync.replicas": int(least)})
    return profile


def _own_profile(given: object) -> Profile | None:
    """The settings that kdv read from files or from a saved profile, and sends whole. Raises BadInput."""
    try:
        profile = msgspec.convert(given, Profile) if given else None
        if profile is not None:
            Settings.of(profile)
        return profile
    except (msgspec.ValidationError, ContradictorySettings) as error:
        raise BadInput(f"own_profile: {error}") from None


def _with_cycles(fault: FaultPlan, params: Mapping[str, Any]) -> FaultPlan:
    return msgspec.structs.replace(fault, cycles=int(params.get("cycles") or 1))


def _claim(params: Mapping[str, Any]) -> Claim:
    claim: Any = params.get("claim") or "contract"
    if claim not in get_args(Claim):
        raise BadInput(f"claim is {claim!r}; allowed: {', '.join(get_args(Claim))}")
    return cast(Claim, claim)


def _load(params: Mapping[str, Any], fault: FaultPlan, records: int) -> Load:
    given = {
        key: params[key]
        for key in (
            "partitions",
            "replication_factor",
            "payload_bytes",
            "pacing",
            "rate",
            "recovery_s",
            "transaction_records",
            "abort_every",
        )
        if params.get(key) is not None
    }
    duration = float(params.get("duration_s") or fault.duration_s * fault.cycles + QUIET_S)
    deadline = float(params.get("deadline_s") or min(LONGEST_S, 180 + 5 * duration))
    try:
        return msgspec.convert({**given, "duration_s": duration, "deadline_s": deadline}, Load)
    except msgspec.ValidationError as error:
        raise BadInput(f"load: {error}") from None


def _pick(field: str, value: str, known: Mapping[str, Any]) -> Any:
    if value not in known:
        raise BadInput(f"{field} is {value!r}; allowed: {', '.join(known)}. `kdv list` describes them")
    return known[value]


def versions_of(kafka: str) -> dict[str, str]:
    """Versions of everything a result depends on."""
    return {"kafka": kafka, **{name: importlib.metadata.version(name) for name in PACKAGES}}


def commit() -> str:
    """The commit of this checkout, `unknown` where there is none."""
    try:
        out = subprocess.run(
            ["git", "-C", str(folders.project_root()), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return out.stdout.strip()


_OF_THE_PROFILE = ("profile", "own_profile", "producer_overrides", "topic_overrides")


def _command(params: Mapping[str, Any], profile: Profile) -> str:
    """The command that repeats this run: every field that was given, and settings of the user's own one by one."""
    given = {
        f"--{key.replace('_', '-')}": [value]
        for key, value in params.items()
        if value is not None and key != "owner" and key not in _OF_THE_PROFILE
    }
    if any(params.get(key) for key in _OF_THE_PROFILE):
        given = {**profiles.options(profile), **given}
    options = (f"{option} {shlex.quote(str(value))}" for option, values in given.items() for value in values)
    return " ".join(["kdv run", *options])
