"""The form with which a user triggers the DAG verify_sentinel in the Airflow UI. A scheduled sentinel uses the
defaults."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from delivery_verifier.model import external_cluster
from delivery_verifier.planning import choices
from delivery_verifier.planning.request import FIELDS
from delivery_verifier.planning.sentinel import NAMES, settings


def params() -> dict[str, Param]:
    """Returns the form's fields by name, in the order of the form. Raises BadInput if the file of the scheduled
    sentinel is not allowed."""
    values = settings().fields
    return {name: _cluster(values[name]) if name == "cluster" else _param(name, values[name]) for name in NAMES}


def _cluster(value: str) -> Param:
    return Param(
        value,
        type="string",
        title=FIELDS["cluster"].title,
        examples=list(choices.clusters()),
        pattern=rf"^({external_cluster.PATTERN})$",
        description="The name of a file or folder in the operator's folder of connections, or airflow:CONN_ID, a "
        "connection of type kafka.",
    )


def _param(name: str, value: Any) -> Param:
    schema = FIELDS[name].schema
    if name == "records":
        schema["description"] = f"Number of records, {FIELDS[name].least:,} or more."
    return Param(value, **schema)
