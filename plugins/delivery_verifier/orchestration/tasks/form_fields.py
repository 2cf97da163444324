"""Kinds of form fields, with limits and defaults taken from the scenario's own fields."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from airflow.sdk import Param
from msgspec import Struct

from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import limits
from delivery_verifier.model.scenario import Profile


def choice(title: str, options: dict[str, str], default: str, description: str, **more: Any) -> Param:
    """A field with one of the options, each with its label. More arguments go to Param."""
    return Param(
        default, type="string", enum=list(options), values_display=options, title=title, description=description, **more
    )


def text(title: str, description: str, section: str) -> Param:
    """A field of several lines, which may be empty."""
    return Param(
        None, type=["string", "null"], format="multiline", title=title, description=description, section=section
    )


def number(title: str, owner: type[Struct], field: str, default: int | None, description: str, **more: Any) -> Param:
    """An integer within the limits of the scenario's field. Without a default it may be empty."""
    kind = "integer" if default is not None else ["integer", "null"]
    return Param(default, type=kind, title=title, description=description, **bounds(owner, field), **more)


def bounds(owner: type[Struct], field: str) -> dict[str, Any]:
    """`minimum` and `maximum` of an integer field, as the scenario declares them."""
    minimum, maximum = limits(owner, field)
    return {"minimum": minimum} | ({"maximum": maximum} if maximum is not None else {})


def default(owner: type[Struct], field: str) -> Any:
    """The default of a field of the scenario."""
    return next(entry.default for entry in msgspec.structs.fields(owner) if entry.name == field)


def summaries(entries: dict[str, Profile] | dict[str, FaultPlan]) -> dict[str, str]:
    """The label `name: summary` of each profile or fault plan."""
    return {name: f"{name}: {entry.summary}" for name, entry in entries.items()}


def labels(allowed: Any, labels: dict[str, str]) -> dict[str, str]:
    """Labels for all values a Literal allows, in its order. Raises KeyError where one has no label."""
    return {value: labels[value] for value in get_args(allowed)}
