"""The form with which a user triggers the DAG audit_delivery in the Airflow UI: the fields of an audit (see
`audit.fields`) as Airflow's Params. A scheduled audit uses the defaults."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from delivery_verifier.audit import fields

_LONG = frozenset({"producer_config"})
"""The fields whose text has several lines."""


def params() -> dict[str, Param]:
    """Returns the form's fields by name, in the order of the form. Raises BadInput if the file of the scheduled audit
    is not allowed."""
    values, _ = fields.defaults()
    texts = {name: _text(name, values[name]) for name in fields.TEXTS}
    flags = {
        name: Param(values[name], type="boolean", title=title, description=description)
        for name, (title, description) in fields.FLAGS.items()
    }
    return texts | flags


def _text(name: str, value: str) -> Param:
    title, description = fields.TEXTS[name]
    schema: dict[str, Any] = {"type": "string", "title": title, "description": description}
    if name in fields.CHOICES:
        schema["enum"] = list(fields.CHOICES[name])
    if name in _LONG:
        schema["format"] = "multiline"
    return Param(value, **schema)
