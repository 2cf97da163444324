"""Checks of a request: each field by itself, the fields against each other, and the scenario that is made of them. The
message of each check names the fields that are wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.contract.settings import Settings
from delivery_verifier.load.layout import require_room
from delivery_verifier.model.inputs import BadInput, ValidationErrors, bad_input, nearest
from delivery_verifier.model.scenario import ClusterSpec, Load, Profile, Scenario
from delivery_verifier.model.scenario_checks import check
from delivery_verifier.planning import arm_clients, subject, user_applications
from delivery_verifier.planning.choices import OWN
from delivery_verifier.planning.own_settings import java_properties, librdkafka, producer, topic
from delivery_verifier.planning.request import FIELDS, Request


def as_conf(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `params` in the types that Airflow's form requires. If a field takes a number and its value is a text,
    the text becomes a number.

    Raises BadInput if a field is unknown or a value is not allowed. The message names all such fields.
    """
    errors = ValidationErrors()
    values = _check_each(params, errors)
    errors.require_none()
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
    return {**params, **numbers}


def check_request(params: Mapping[str, Any], errors: ValidationErrors) -> dict[str, Any]:
    """Returns the allowed fields that are not None, with each value in the type of its field. Adds each error to
    `errors`: a field or a setting that is not allowed, a secret, and fields that do not fit together."""
    values = _check_each(params, errors)
    request = Request(**values)
    if request.scenario:
        with errors:
            _require_no_own_settings(request)
    else:
        for check_together in (_require_one_source, _require_length, _require_order):
            with errors:
                check_together(request)
    subject.check(request, errors)
    return values


def check_scenario(scenario: Scenario) -> None:
    """Raises BadInput if parts of the scenario do not fit together. The message names every contradiction that was
    found."""
    errors = ValidationErrors()
    with errors:
        check(msgspec.convert(msgspec.to_builtins(scenario), Scenario))
    with errors:
        _check_transactions(scenario)
    with errors:
        _check_exposure(scenario)
    for arm in scenario.loaded:
        with errors:
            arm_clients.check(scenario.load, arm)
    for arm in scenario.arms:
        with errors:
            check_settings(arm.profile, scenario.cluster.kafka_version, scenario.load.payload_bytes)
    errors.require_none()


def check_settings(profile: Profile, kafka_version: str | None = None, payload_bytes: int | None = None) -> None:
    """Raises BadInput if no producer or topic can have the settings of `profile`.

    If librdkafka refuses the settings, the message gives librdkafka's reason. If `kafka_version` is None, the function
    takes the default version of ClusterSpec. If `payload_bytes` is None, it takes the default payload of Load.
    """
    load, cluster = Load(), ClusterSpec()
    try:
        Settings.of_profile(profile)
        producer.check(profile.producer)
        java_properties.check(profile)
        topic.check_names(profile.topic)
        topic.check_version(profile.topic, kafka_version or cluster.kafka_version)
        librdkafka.check_producer(profile.producer)
        require_room(profile.producer, payload_bytes or load.payload_bytes)
    except ValueError as error:
        raise BadInput(f"profile {profile.name}: {error}") from None


def require_nothing_settled(names: Collection[str], scenario: str) -> None:
    """Raises BadInput if `names`, the fields that a command line gives, has one that a scenario of the catalogue
    settles. A form always sends all of its fields, so there they are ignored."""
    if settled := sorted(name for name in names if FIELDS[name].words.beside_a_scenario != "counts"):
        allowed = [name for name, field in FIELDS.items() if field.option and field.words.beside_a_scenario == "counts"]
        raise BadInput(
            f"scenario is {scenario!r}, which settles {', '.join(name.replace('_', '-') for name in settled)} itself; "
            f"allowed beside it: {', '.join(allowed[1:])}. Leave out one or the other"
        )


def _check_each(params: Mapping[str, Any], errors: ValidationErrors) -> dict[str, Any]:
    """Returns the allowed fields that are not None, with each value in the type of its field. Adds an error to
    `errors` for each field that is unknown or has a value that is not allowed."""
    values: dict[str, Any] = {}
    for name, value in params.items():
        with errors:
            if name not in FIELDS:
                near = nearest(name, FIELDS)
                raise bad_input("field", name, ", ".join(FIELDS), f"did you mean {near}?" if near else "leave it out")
            if value is not None:
                values[name] = FIELDS[name].check(value)
    return values


def _require_no_own_settings(request: Request) -> None:
    """Raises BadInput if fields are filled that a scenario of the catalogue settles, and that no form fills by itself:
    a user gave them on purpose."""
    refused = (name for name, field in FIELDS.items() if field.words.beside_a_scenario == "refused")
    if own := [name for name in refused if getattr(request, name)]:
        verb, them = ("is", "it") if len(own) == 1 else ("are", "them")
        raise BadInput(
            f"{' and '.join(own)} {verb} given, but scenario is {request.scenario!r}, which settles {them}; allowed: "
            "one of the two"
        )


def _require_length(request: Request) -> None:
    """Raises BadInput if the length of the fault is given, and the fault has none."""
    if request.fault_s is not None and request.fault not in catalogue.USUAL_S:
        raise BadInput(
            f"fault_s is {request.fault_s}, but the fault {request.fault} has no length to choose; allowed: fault_s "
            f"with {', '.join(catalogue.USUAL_S)}; leave fault_s out, or choose one of these faults"
        )


def _require_order(request: Request) -> None:
    """Raises BadInput if the application is a user application and the claim is `ordered`, because nobody checks the
    order of the effects of user applications."""
    application = user_applications.known()[request.application] if request.application else None
    if application is not None and application.discipline == "own" and request.claim == "ordered":
        raise BadInput(
            "claim is 'ordered', which cannot be checked of a user application: its effects have no order; allowed "
            "with it: contract, at_most_once, at_least_once, exactly_once"
        )


def _require_one_source(request: Request) -> None:
    """Raises BadInput, with every contradiction, if more than one field gives all producer settings, or if a field
    belongs to another source than the one that was chosen."""
    is_pasted = subject.is_pasted(request)
    if contradictions := [*(_beside_pasted(request) if is_pasted else _without_pasted(request))]:
        raise BadInput(*contradictions)


def _beside_pasted(request: Request) -> Iterator[str]:
    if request.profile != OWN:
        yield (
            f"profile is {request.profile!r}, but producer_config gives all producer settings; choose the profile "
            f"{OWN}, or empty producer_config"
        )
    if request.own_profile:
        yield "own_profile and producer_config both give all producer settings; leave one of them out"
    if (request.producer_overrides or "").strip():
        yield (
            "producer_overrides is given, but producer_config gives all producer settings; write the overrides into "
            "producer_config"
        )


def _without_pasted(request: Request) -> Iterator[str]:
    if request.profile == OWN and not request.own_profile:
        yield (
            f"profile is {OWN!r}, but producer_config is empty; paste the producer settings there, or choose another "
            "profile"
        )
    if request.written_for:
        yield (
            f"written_for is {request.written_for!r}, but producer_config is empty; leave it out: it says for which "
            "client pasted settings were written"
        )


def _check_transactions(scenario: Scenario) -> None:
    """Raises BadInput if a field describes transactions, but no arm writes transactions."""
    for name in ("transaction_records", "abort_every"):
        value = getattr(scenario.load, name)
        if value != getattr(Load(), name) and not scenario.transactional:
            remedy = "leave it out, or choose --profile transactional"
            raise bad_input(name, value, "nothing, for no arm has a transactional.id", remedy)


def _check_exposure(scenario: Scenario) -> None:
    """Raises BadInput if the load has fewer records than `min_exposed` times the number of cycles. Each cycle must
    expose at least `min_exposed` records, or no arm can be HELD.

    There is no check in two cases:

    * The fault plan has no steps.
    * The user gave no rate, and the pacing is not `spread`. With `flat_out`, for example, the load sends as many
      records as possible while the fault lasts.
    """
    load, cycles, records = scenario.load, scenario.fault.cycles, scenario.subjects[0].records
    needed = scenario.min_exposed * cycles
    planned = max(records, int((load.rate or 0) * load.duration_s))
    if scenario.fault.steps and planned < needed and (load.rate or load.pacing == "spread"):
        reason = (
            f"at least {needed}, for each of {cycles} cycles of the fault must expose {scenario.min_exposed} records"
        )
        raise bad_input("records", records, reason, "or lower cycles or min_exposed")
