"""The form with which a user triggers the DAG verify_delivery in the Airflow UI: the fields of a run (see
`planning.request`) as Airflow's Params."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from delivery_verifier import catalogue
from delivery_verifier.host import folders
from delivery_verifier.planning.request import FIELDS, sections
from delivery_verifier.progress import estimates

DEFAULTS: dict[str, Any] = {name: field.default for name, field in FIELDS.items() if field.title}
"""The value of each field before the user enters anything, by field name."""


def params() -> dict[str, Param]:
    """Returns the form's fields by name, in the order of the form. `DEFAULTS` has the same fields.

    The fields without a section come first, so that they are always visible.
    """
    return {
        name: _param(name, title)
        for key, title in sections().items()
        for name in DEFAULTS
        if FIELDS[name].words.section == key
    }


def _param(name: str, section: str) -> Param:
    schema = FIELDS[name].schema
    if name == "records":
        schema["description"] += f" {_estimate()}"
    if section:
        schema["section"] = section
    return Param(DEFAULTS[name], **schema)


def _estimate() -> str:
    """Returns a sentence that says how long a run with the default values takes: on this host, estimated from earlier
    runs, or on two cores, if too few runs have finished here.

    The time is rounded to half minutes. Reason: if the text of a field changes, Airflow stores a new version of the
    DAG.
    """
    runs = estimates.finished(folders.stored_runs())
    is_known = len(runs) >= estimates.RUNS_NEEDED
    usual_s = estimates.seconds_of(runs if is_known else (), estimates.BEFORE_LOAD_S | estimates.DEFAULTS_S)
    load_s = catalogue.FAULTS[DEFAULTS["fault"]].duration_s + FIELDS["recovery_s"].default
    halves = max(1, round((sum(usual_s.values()) + load_s) / 30))
    minutes = "half a minute" if halves == 1 else f"{halves / 2:g} minute{'s'[: halves != 2]}"
    where = "on this host" if is_known else "on two cores"
    return f"With the defaults of this form, a run takes about {minutes} {where}."
