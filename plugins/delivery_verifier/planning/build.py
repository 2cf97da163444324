"""Builds a scenario from the fields of a run: profile, fault plan, load and claim. Checks whether they fit together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast, get_args

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.cluster.backends import default_name
from delivery_verifier.contract.settings import Settings
from delivery_verifier.load.layout import require_room
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput, Refusals
from delivery_verifier.model.scenario import Claim, ClusterSpec, Load, Profile, Scenario
from delivery_verifier.model.scenario_checks import check
from delivery_verifier.planning import own_applications, subject
from delivery_verifier.planning.load_checks import check_exposure, check_transactions
from delivery_verifier.planning.own_settings import librdkafka, producer, topic
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
    refusals = Refusals()
    params = check_input(params, refusals)
    refusals.require_none()
    if params.get("scenario"):
        return _catalogue_scenario(params, name)
    try:
        return _ad_hoc_scenario(params, name)
    except BadInput:
        raise
    except (ValueError, msgspec.ValidationError) as error:
        raise BadInput(str(error)) from None


def _ad_hoc_scenario(params: Mapping[str, Any], name: str) -> Scenario:
    """Returns the scenario that the fields describe, each of which is allowed by itself. `name` is the run id.

    Raises BadInput, ValueError or msgspec.ValidationError if the fields do not fit together.
    """
    refusals, application, chosen = Refusals(), None, None
    with refusals:
        application = own_applications.chosen(params.get("application"), _claim(params))
    with refusals:
        chosen = subject.profile(params)
    refusals.require_none()
    assert chosen is not None
    fault = _fault(params)
    records = int(params["records"]) if params.get("records") is not None else 20_000
    load = _load(params, fault, records)
    if load.replication_factor == 1:
        fault = catalogue.for_one_replica(fault)
    version = str(params.get("kafka_version") or ClusterSpec().kafka_version)
    scenario = catalogue.scenario(
        name,
        profile=subject.with_remarks(subject.with_min_isr(chosen, params), params),
        fault=fault,
        claim=_claim(params),
        load=load,
        records=records,
        producers=int(params.get("producers") or 1),
        application=application,
        cluster=ClusterSpec(backend=default_name(), kafka_version=version, brokers=3),
        seed=int(params.get("seed") or 0),
        min_exposed=int(params["min_exposed"]) if params.get("min_exposed") is not None else _min_exposed(records),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions_of(version),
        commit=commit(),
        command=repeating_command(params, chosen),
        fail_step=params.get("fail_step") or None,
    )
    _require_consistent(scenario)
    return scenario


def _require_consistent(scenario: Scenario) -> None:
    """Raises BadInput if parts of the scenario do not fit together. The message names every contradiction that was
    found."""
    refusals = Refusals()
    with refusals:
        check(msgspec.convert(msgspec.to_builtins(scenario), Scenario))
    with refusals:
        check_transactions(scenario)
    with refusals:
        check_exposure(scenario)
    for arm in scenario.arms:
        with refusals:
            check_settings(arm.profile, scenario.cluster.kafka_version, scenario.load.payload_bytes)
    refusals.require_none()


def check_input(params: Mapping[str, Any], refusals: Refusals) -> dict[str, Any]:
    """Returns the allowed fields that are not None. Adds an error to `refusals` for each other field, for each refused
    setting, and for each secret."""
    values = check_fields(params, refusals)
    subject.check(values, refusals)
    return values


BESIDE_A_SCENARIO = ("scenario", "seed", "kafka_version", "fail_step", "owner")
"""The fields of a run that still count if a user names a scenario of the catalogue. The scenario fixes all others."""
NEVER_BESIDE_A_SCENARIO = (
    "own_profile",
    "producer_config",
    "client",
    "producer_overrides",
    "topic_overrides",
    "application",
)
"""The fields of a run that are refused if a user names a scenario of the catalogue."""


def _catalogue_scenario(params: Mapping[str, Any], name: str) -> Scenario:
    """Returns the scenario of the catalogue that the field `scenario` names. `name` is the run id.

    The form always sends all of its fields, with their defaults. Therefore this function ignores the fields that the
    scenario fixes. The fields NEVER_BESIDE_A_SCENARIO (settings of the user's own, and the application) have no default
    in the form, so a user gave them on purpose. Raises BadInput if `params` holds one of these.
    """
    if own := [field for field in NEVER_BESIDE_A_SCENARIO if params.get(field)]:
        verb, them = ("is", "it") if len(own) == 1 else ("are", "them")
        raise BadInput(
            f"{' and '.join(own)} {verb} given, but scenario is {params['scenario']!r}, which settles {them}; allowed: "
            "one of the two"
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
    _require_consistent(scenario)
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


def _fault(params: Mapping[str, Any]) -> FaultPlan:
    """Returns the fault plan that the fields `fault`, `fault_s` and `cycles` describe.

    Raises BadInput if there is no such plan, or if `fault_s` is given and the fault has no length.
    """
    fault: FaultPlan = _pick("fault", params.get("fault") or "kill_leader", catalogue.FAULTS)
    if (seconds := params.get("fault_s")) is not None:
        if fault.name not in catalogue.USUAL_S:
            raise BadInput(
                f"fault_s is {seconds}, but the fault {fault.name} has no length to choose; allowed: fault_s with "
                f"{', '.join(catalogue.USUAL_S)}; leave fault_s out, or choose one of these faults"
            )
        fault = catalogue.lasting(fault, int(seconds))
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
