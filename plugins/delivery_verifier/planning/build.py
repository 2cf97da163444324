"""Builds a scenario from the fields of a run: profile, fault plan, load and claim. Checks whether they fit together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast, get_args

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.cluster.backends import default_name
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.host.java.jars import kafka_versions
from delivery_verifier.load.layout import require_room
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput, Refusals
from delivery_verifier.model.scenario import Claim, ClusterSpec, Load, Profile, Scenario
from delivery_verifier.model.scenario_checks import check
from delivery_verifier.planning import own_applications
from delivery_verifier.planning.load_checks import check_exposure, check_transactions
from delivery_verifier.planning.own_settings import librdkafka, producer, profiles, topic
from delivery_verifier.planning.params import LONGEST_S, check_fields
from delivery_verifier.planning.provenance import commit, versions_of
from delivery_verifier.planning.repetition import LOAD_FIELDS, repeating_command

QUIET_S = 4.0
"""By default, a load lasts this number of seconds longer than its fault plan, so that load comes before and after the
fault."""
SLOWEST_S, SLOWEST_BYTES = 1e-4, 10e6
"""Two numbers from which the default deadline of a load follows. The deadline allows a time for each of the subject's
records: SLOWEST_S seconds, or the time that the record takes at SLOWEST_BYTES bytes per second, whichever is longer.
Even a busy host is faster."""


def scenario_from_params(params: Mapping[str, Any], name: str) -> Scenario:
    """Returns the scenario for `params`, the fields of the form or of the command line.

    A missing field takes the form's default. `name` is the run id. Raises BadInput for values that are not allowed. The
    message names every refused field and every refused override. If each value is allowed by itself, the message names
    the values that do not fit together.
    """
    params = _checked(params)
    if params.get("scenario"):
        return _catalogue_scenario(params, name)
    chosen_profile = _profile(params)
    profile = _with_min_isr(chosen_profile, params)
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
            application=own_applications.chosen(params.get("application"), _claim(params)),
            cluster=ClusterSpec(backend=default_name(), kafka_version=version, brokers=3),
            seed=int(params.get("seed") or 0),
            min_exposed=int(params["min_exposed"]) if params.get("min_exposed") is not None else _min_exposed(records),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=versions_of(version),
            commit=commit(),
            command=repeating_command(params, chosen_profile),
            fail_step=params.get("fail_step") or None,
        )
        check(msgspec.convert(msgspec.to_builtins(scenario), Scenario))
        check_transactions(scenario)
        check_exposure(scenario)
        for arm in scenario.arms:
            check_settings(arm.profile, version, load.payload_bytes)
    except (ValueError, msgspec.ValidationError) as error:
        raise BadInput(str(error)) from None
    return scenario


def _checked(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that are not None. Raises BadInput, whose message names all refused fields and overrides."""
    refusals = Refusals()
    values = check_fields(params, refusals)
    of_producer, of_topic = (str(params.get(field) or "") for field in ("producer_overrides", "topic_overrides"))
    profiles.check_overrides(of_producer, of_topic, refusals)
    refusals.require_none()
    return values


BESIDE_A_SCENARIO = ("scenario", "seed", "kafka_version", "fail_step", "owner")
"""The fields of a run that still count if a user names a scenario of the catalogue. The scenario fixes all others."""
NEVER_BESIDE_A_SCENARIO = ("own_profile", "producer_overrides", "topic_overrides", "application")
"""The fields of a run that are refused if a user names a scenario of the catalogue."""


def _catalogue_scenario(params: Mapping[str, Any], name: str) -> Scenario:
    """Returns the scenario of the catalogue that the field `scenario` names. `name` is the run id.

    The form always sends all of its fields, with their defaults. Therefore this function ignores the fields that the
    scenario fixes. The fields NEVER_BESIDE_A_SCENARIO (settings of the user's own, and the application) have no default
    in the form, so a user gave them on purpose. Raises BadInput if `params` holds one of these.
    """
    if own := [field for field in NEVER_BESIDE_A_SCENARIO if params.get(field)]:
        raise BadInput(
            f"{own[0]} is given, but scenario is {params['scenario']!r}, which settles it; allowed: one of the two"
        )
    entry = catalogue.SCENARIOS[params["scenario"]]
    fields = {key: params[key] for key in BESIDE_A_SCENARIO if params.get(key) is not None}
    version = str(fields.get("kafka_version") or ClusterSpec().kafka_version)
    scenario = catalogue.build(
        entry,
        name,
        seed=int(fields.get("seed") or 0),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions_of(version),
        commit=commit(),
        command=repeating_command(fields, catalogue.PROFILES["safe"]),
        fail_step=fields.get("fail_step"),
        kafka_version=version,
        backend=default_name(),
    )
    check(msgspec.convert(msgspec.to_builtins(scenario), Scenario))
    for arm in scenario.arms:
        check_settings(arm.profile, version, scenario.load.payload_bytes)
    return scenario


def _min_exposed(records: int) -> int:
    """Returns the default of `min_exposed`, the least number of an arm's records that each injection must expose.

    The default is one hundredth of `records`, but at most 100.
    """
    return min(100, records // 100)


def check_settings(profile: Profile, kafka_version: str | None = None, payload_bytes: int | None = None) -> None:
    """Raises BadInput if no producer or topic can have the settings of `profile`.

    If librdkafka refuses the settings, the message gives librdkafka's reason. If `kafka_version` is None, the function
    takes the default version of ClusterSpec. If `payload_bytes` is None, it takes the default payload of Load.
    """
    load, cluster = Load(), ClusterSpec()
    try:
        Settings.of_profile(profile)
        producer.check(profile.producer)
        topic.check_names(profile.topic)
        topic.check_version(profile.topic, kafka_version or cluster.kafka_version)
        librdkafka.check_producer(profile.producer)
        require_room(profile.producer, payload_bytes or load.payload_bytes)
    except ValueError as error:
        raise BadInput(f"profile {profile.name}: {error}") from None


def _profile(params: Mapping[str, Any]) -> Profile:
    """Returns the profile of the subject, the arm that the user asks about.

    This is the user's own profile or, if there is none, the profile that the field `profile` names. The user's
    overrides replace single settings of this profile.
    """
    profile = _own_profile(params.get("own_profile")) or _pick(
        "profile", params.get("profile") or "safe", profiles.known()
    )
    producer_text = str(params.get("producer_overrides") or "")
    topic_text = str(params.get("topic_overrides") or "")
    return profiles.overridden(profile, producer_text, topic_text)


def _with_min_isr(profile: Profile, params: Mapping[str, Any]) -> Profile:
    """Returns `profile`. If the field `min_insync_replicas` is filled, its value replaces the profile's
    min.insync.replicas."""
    min_isr = params.get("min_insync_replicas")
    if min_isr is None:
        return profile
    return msgspec.structs.replace(profile, topic={**profile.topic, "min.insync.replicas": int(min_isr)})


def _own_profile(value: object) -> Profile | None:
    """Returns the profile in `value`, the field `own_profile`; None if the field is empty.

    `kdv` fills this field with a whole profile, which `kdv` has read from the user's files or from a saved profile.
    Raises BadInput if the field holds no valid profile.
    """
    if not value:
        return None
    try:
        profile = msgspec.convert(value, Profile)
        Settings.of_profile(profile)
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
    fields = {key: params[key] for key in LOAD_FIELDS if params.get(key) is not None}
    duration = float(params.get("duration_s") or fault.duration_s * fault.cycles + QUIET_S)
    work_s = records * max(SLOWEST_S, int(params.get("payload_bytes") or Load().payload_bytes) / SLOWEST_BYTES)
    deadline = float(params.get("deadline_s") or min(LONGEST_S, 180 + 5 * duration + work_s))
    try:
        return msgspec.convert({**fields, "duration_s": duration, "deadline_s": deadline}, Load)
    except msgspec.ValidationError as error:
        raise BadInput(f"load: {error}") from None


def _pick(field: str, value: str, known: Mapping[str, Any]) -> Any:
    """Returns the entry of `known` with the name `value`. The user gave this name in the field `field`.

    Raises BadInput if there is no such entry. The message names `field`.
    """
    if value not in known:
        raise BadInput(f"{field} is {value!r}; allowed: {', '.join(known)}. `kdv list` describes them")
    return known[value]
