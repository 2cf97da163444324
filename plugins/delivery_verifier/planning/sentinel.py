"""The fields of a sentinel, a small verified load without a fault that a schedule puts on a cluster that somebody else
runs. The values of a scheduled sentinel stand in a file.

Airflow's DAG processor imports this module every few seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from delivery_verifier.host import variables
from delivery_verifier.model.inputs import bad_input, choice, whole
from delivery_verifier.planning.request import FIELDS

VARIABLE = "KDV_SENTINEL"
"""The environment variable with the path of a JSON file. The file has the fields of the sentinel, its schedule, and
what becomes of its results."""
RECORDS = 1_000
"""By default, the least number of records of a run."""
KEEP = 20
"""By default, how many run directories of HELD runs are kept."""
MOST_KEPT = 5_000
"""The most HELD runs that can be kept. The history, which names them, is read as far as that."""
NAMES = (
    "cluster",
    "profile",
    "records",
    "rate",
    "payload_bytes",
    "partitions",
    "replication_factor",
    "min_insync_replicas",
    "beside",
)
"""The fields of a run that a sentinel has. A run of a sentinel has the default of every other field, and no fault."""


class Settings(Struct, frozen=True):
    """What the file of KDV_SENTINEL says.

    * `fields`: the value of each field in NAMES. `schedule`: a cron expression in UTC, or None.
    * `metrics`: the folder of a Prometheus textfile collector, or None.
    * `keep`: how many run directories of HELD runs are kept.
    """

    fields: dict[str, Any]
    schedule: str | None = None
    metrics: Path | None = None
    keep: int = KEEP


def settings() -> Settings:
    """Returns the settings of the scheduled sentinel. Without the variable KDV_SENTINEL, nothing is scheduled.

    Raises BadInput if the file cannot be read, has a field or a value that is not allowed, or has a schedule and names
    no cluster.
    """
    plain: dict[str, Any] = {name: FIELDS[name].default for name in NAMES} | {"cluster": "", "records": RECORDS}
    file = variables.path(VARIABLE)
    if file is None:
        return Settings(plain)
    try:
        written = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise bad_input(VARIABLE, str(file), "a readable JSON file with the fields of a sentinel", str(error)) from None
    if not isinstance(written, dict):
        raise bad_input(VARIABLE, str(file), "a file that holds one JSON object")
    for name in written:
        choice(f"{file}: field", name, (*NAMES, "schedule", "metrics", "keep"))
    schedule = variables.as_cron(f"{file}: schedule", _text(file, written, "schedule")) or None
    metrics, keep = _text(file, written, "metrics"), written.get("keep", KEEP)
    if metrics and not Path(metrics).is_absolute():
        raise bad_input(f"{file}: metrics", metrics, "an absolute path of a folder")
    checked = {name: FIELDS[name].check(value) for name, value in written.items() if name in NAMES}
    if schedule and not checked.get("cluster"):
        raise bad_input(f"{file}: cluster", "", "the name of a cluster, because there is a schedule")
    keep = whole(f"{file}: keep", keep, 1, MOST_KEPT, example=KEEP)
    return Settings(plain | checked, schedule, Path(metrics) if metrics else None, keep)


def request_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a run (see `request`) for the fields of a sentinel in `params`. Raises BadInput if they
    name no cluster."""
    if not params["cluster"]:
        raise bad_input("cluster", "", "the name of a cluster: NAME for NAME.properties, or airflow:CONN_ID")
    return {name: params[name] for name in NAMES if params[name] not in (None, "")} | {"fault": "none"}


def _text(file: Path, written: Mapping[str, Any], name: str) -> str:
    value = written.get(name, "")
    if not isinstance(value, str):
        raise bad_input(f"{file}: {name}", str(value), "a text")
    return value
