"""Params: the fields of a run, and the check of each field. The fields come from a form, a REST call or a command
line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from msgspec import Struct

from delivery_verifier import catalogue
from delivery_verifier.host.java.jars import kafka_versions
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput, Refusals, bad_input, choice, decimal, limits, nearest, whole
from delivery_verifier.model.scenario import Arm, Claim, Load, OwnPacing, Scenario
from delivery_verifier.model.steps import STEPS
from delivery_verifier.planning import own_applications
from delivery_verifier.planning.own_settings import clients, profiles

Check = Callable[[str, object], object]
"""The type of a check: a function that takes the name and the value of a field, and returns the value in the field's
own type. The function raises BadInput if the value is not allowed."""
LISTED = "`kdv list` describes them"
MOST = 10**11
"""The upper limit of a whole-number field for which the scenario's data classes declare no upper limit."""
LONGEST_S = 86_400.0
"""The longest duration and the longest deadline that a user can ask for: one day."""
FEWEST_TO_ABORT = 2
"""The least value that a user can give to the field `abort_every`. With 1 an arm would abort every transaction, and
with 0 none. An arm can be HELD only if it has both committed and aborted transactions."""


def checked(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that are not None, with each value in the type of its field.

    Raises BadInput if a field is unknown or a value is not allowed. The message names all such fields.
    """
    refusals = Refusals()
    values = check_fields(params, refusals)
    refusals.require_none()
    return values


def check_fields(params: Mapping[str, Any], refusals: Refusals) -> dict[str, Any]:
    """Returns the allowed fields that are not None, with each value in the type of its field. Adds an error to
    `refusals` for each field that is unknown or has a value that is not allowed."""
    values: dict[str, Any] = {}
    for name, value in params.items():
        with refusals:
            if name not in FIELDS:
                near = nearest(name, FIELDS)
                raise bad_input("field", name, ", ".join(FIELDS), f"did you mean {near}?" if near else "leave it out")
            if value is not None:
                values[name] = FIELDS[name](name, value)
    return values


def as_conf(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `params` in the types that Airflow's form requires. If a field takes a number and its value is a text,
    the text becomes a number.

    Raises BadInput for an unknown field and for a value that is not allowed.
    """
    numbers = {name: value for name, value in checked(params).items() if isinstance(value, int | float)}
    return {**params, **numbers}


def _one_of(known: Iterable[str], remedy: str = "") -> Check:
    return lambda field, value: choice(field, value, known, remedy)


def _with_underscores(value: object) -> object:
    """If `value` is a text, returns it with an underscore in place of each hyphen: `kill-leader` becomes `kill_leader`.
    Otherwise returns `value`."""
    return value.replace("-", "_") if isinstance(value, str) else value


def _number(owner: type[Struct], name: str, example: int, least: int = 0) -> Check:
    """Returns a check for a whole number. The number must lie within the limits of the field `name` of the class
    `owner`.

    The number must also be at least `least`. The error message proposes the number `example`.
    """
    low, high = limits(owner, name)
    low = max(low, least)
    return lambda field, value: whole(field, value, low, MOST if high is None else high, example)


def _seconds(low: float, high: float, *, above: bool = False) -> Check:
    """Returns a check for a number from `low` to `high`. If `above` is true, the number must be greater than `low`."""
    return lambda field, value: decimal(field, value, low, high, above=above)


def _profile(field: str, value: object) -> str:
    """Returns `value`, the name of a profile. Raises BadInput if there is none, or if the name stands for two."""
    name = choice(field, value, [*profiles.known(), profiles.OWN], LISTED)
    profiles.require_unambiguous(name)
    return name


def _text(field: str, value: object) -> str:
    """Returns `value`, which must be a text, without a byte order mark. Raises BadInput for anything else. The message
    does not show the value, because it may hold a password."""
    if not isinstance(value, str):
        raise BadInput(f"{field} is no text; allowed: .properties syntax, one name=value to a line")
    return value.removeprefix("\ufeff")


def _client(field: str, value: object) -> str:
    """Returns `value`, the name of a client, also with a version. Raises BadInput if the client or the version is not
    known."""
    text = str(value)
    if text:  # an empty field of a form
        clients.parse(text, field)
    return text


FIELDS: dict[str, Check] = {
    "scenario": _one_of(catalogue.SCENARIOS, LISTED),
    "profile": _profile,
    "application": own_applications.check_name,
    "fault": lambda field, value: choice(field, _with_underscores(value), catalogue.FAULTS, LISTED),
    "fault_s": lambda field, value: whole(field, value, 1, catalogue.LONGEST_FAULT_S, 30),
    "claim": _one_of(get_args(Claim)),
    "pacing": _one_of(get_args(OwnPacing)),
    "kafka_version": lambda field, value: choice(field, value, kafka_versions()),
    "fail_step": _one_of(STEPS),
    "records": _number(Arm, "records", 20_000, least=catalogue.FEWEST_RECORDS),
    "rate": _number(Load, "rate", 2000),
    "producers": _number(Arm, "producers", 1),
    "partitions": _number(Load, "partitions", 3),
    "replication_factor": _number(Load, "replication_factor", 3),
    "min_insync_replicas": _number(Load, "replication_factor", 2),
    "payload_bytes": _number(Load, "payload_bytes", 100),
    "transaction_records": _number(Load, "transaction_records", 500),
    "abort_every": lambda field, value: whole(field, value, FEWEST_TO_ABORT, limits(Load, field)[1] or MOST, 10),
    "cycles": _number(FaultPlan, "cycles", 1),
    "seed": _number(Scenario, "seed", 0),
    "min_exposed": _number(Scenario, "min_exposed", 100, least=1),
    "duration_s": _seconds(0, LONGEST_S, above=True),
    "recovery_s": _seconds(0, 3600),
    "deadline_s": _seconds(0, LONGEST_S, above=True),
    "client": _client,
    **dict.fromkeys(("producer_config", "producer_overrides", "topic_overrides"), _text),
    **dict.fromkeys(("own_profile", "owner"), lambda _field, value: value),
}
"""Maps the name of a field of a run to the check of the field. The checks of the last two fields accept any value,
because the code that uses these fields checks their values."""
