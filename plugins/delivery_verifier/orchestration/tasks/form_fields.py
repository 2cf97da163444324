"""Functions that make the fields of Airflow forms. Limits and defaults come from the classes that make up a scenario.

Three parameters mean the same in every function. `owner` is a class that makes up a scenario, for example `Load`.
`field` is the name of a field of `owner`. `more` holds further arguments of Airflow's Param.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from airflow.sdk import Param
from msgspec import Struct

from delivery_verifier.model.application import Application
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import limits
from delivery_verifier.model.scenario import Profile


def choice(title: str, options: dict[str, str], default: str, description: str, **more: Any) -> Param:
    """Returns a form field in which the user selects one of `options`. `options` maps each allowed value to its label.

    `more` holds further arguments of Airflow's Param.
    """
    return Param(
        default, type="string", enum=list(options), values_display=options, title=title, description=description, **more
    )


def optional_choice(title: str, options: dict[str, str], nothing: str, description: str, **more: Any) -> Param:
    """Returns a form field that holds one of `options`, a mapping of each allowed value to its label, or nothing.

    The field is empty at first. `nothing` is the label of the empty field. `more` holds further arguments of Airflow's
    Param.
    """
    return Param(
        None,
        type=["string", "null"],
        enum=[None, *options],
        values_display={"None": nothing, **options},
        title=title,
        description=description,
        **more,
    )


def text(title: str, description: str, section: str) -> Param:
    """Returns a form field for a text of several lines. The field may be empty."""
    return Param(
        None, type=["string", "null"], format="multiline", title=title, description=description, section=section
    )


def number(
    title: str, owner: type[Struct], field: str, default: int | None, description: str, *, least: int = 0, **more: Any
) -> Param:
    """Returns a form field for an integer.

    The integer must be at least `least`, and must be allowed as the value of `field`, a field of the class `owner`. If
    `default` is None, the form field is empty at first, and may stay empty. `more` holds further arguments of Airflow's
    Param.
    """
    kind = "integer" if default is not None else ["integer", "null"]
    minimum, maximum = limits(owner, field)
    return Param(
        default, type=kind, title=title, description=description, **bounds(max(least, minimum), maximum), **more
    )


def bounds(minimum: int, maximum: int | None) -> dict[str, Any]:
    """Returns the limits of an integer as arguments of Param. `maximum` is None if there is no greatest value.

    The result uses Param's exclusive limits: one less than `minimum`, and one more than `maximum`. Airflow then refuses
    a value outside the limits when the run is triggered. With inclusive limits, the UI would silently replace such a
    value by the limit.
    """
    return {"exclusiveMinimum": minimum - 1} | ({"exclusiveMaximum": maximum + 1} if maximum is not None else {})


def default(owner: type[Struct], field: str) -> Any:
    return next(entry.default for entry in msgspec.structs.fields(owner) if entry.name == field)


def summaries(entries: dict[str, Profile] | dict[str, Application] | dict[str, FaultPlan]) -> dict[str, str]:
    """Returns the label `<name>: <summary>` of each profile, application or fault plan, by name."""
    return {name: f"{name}: {entry.summary}" for name, entry in entries.items()}


def labels(allowed: Any, labels: dict[str, str]) -> dict[str, str]:
    """Returns the label of each value of the Literal type `allowed`, by value, in the order of the Literal.

    The argument `labels` maps values to labels. Raises KeyError if this argument has no label for an allowed value.
    """
    return {value: labels[value] for value in get_args(allowed)}
