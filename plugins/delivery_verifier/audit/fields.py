"""The fields of an audit's form. The values of a scheduled audit stand in a file.

Airflow's DAG processor imports this module every few seconds.
"""

from __future__ import annotations

import json
from typing import Any, get_args

from delivery_verifier.host import variables
from delivery_verifier.model.audit import IDENTITIES, LedgerFormat
from delivery_verifier.model.inputs import bad_input, choice
from delivery_verifier.model.scenario import Claim

VARIABLE = "KDV_AUDIT"
"""The environment variable with the path of a JSON file. The file has the fields of the scheduled audit, and its
schedule."""
SCHEDULE = "schedule"
TEXTS: dict[str, tuple[str, str]] = {
    "ledger": (
        "Ledger",
        "Paths of the files of the ledger, absolute, on the host of the worker, separated by blanks. `*` stands for "
        "any characters, e.g. /data/acks-*.jsonl.",
    ),
    "topic": ("Topic", "The topic that the application wrote to."),
    "cluster": (
        "Cluster",
        "HOST:PORT of its brokers, separated by commas; or the name of one of your clusters: NAME for NAME.properties "
        "in the folder of connections, or airflow:CONN_ID.",
    ),
    "identity": ("Identity", f"Where a record names its claim: {IDENTITIES}. Empty: as the ledger's first line says."),
    "identity_sql": ("Identity in SQL", "In its place: a Spark SQL expression over key, value and headers."),
    "format": ("Format", "Format of the files. Empty: by their names."),
    "claim": ("Claim", "What must hold. Empty: what the settings promise; without settings, at_least_once."),
    "producer_config": (
        "Producer settings",
        "A whole .properties file: what the application's producer used. Without it, only the claim is judged. "
        "Passwords are refused.",
    ),
}
"""The fields with a text: title and description, in the order of the form."""
FLAGS: dict[str, tuple[str, str]] = {
    "complete": ("Complete", "Every attempt is in the ledger, also those without an answer."),
    "others_write": ("Others write", "Other applications write to the topic, too."),
}
"""The fields that are true or false."""
CHOICES: dict[str, tuple[str, ...]] = {
    "format": ("", *get_args(LedgerFormat)),
    "claim": ("", *get_args(Claim)),
}
"""The allowed values of some fields."""


def defaults() -> tuple[dict[str, Any], str | None]:
    """Returns the default of each field, and the schedule: a cron expression in UTC, or None. Both stand in the file
    that the environment variable KDV_AUDIT names. Without the variable, all fields are empty, and nothing is scheduled.

    Raises BadInput if the file cannot be read, or has a field or a value that is not allowed.
    """
    plain: dict[str, Any] = dict.fromkeys(TEXTS, "") | dict.fromkeys(FLAGS, False)
    file = variables.path(VARIABLE)
    if file is None:
        return plain, None
    try:
        written = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise bad_input(VARIABLE, str(file), "a readable JSON file with the fields of an audit", str(error)) from None
    if not isinstance(written, dict):
        raise bad_input(VARIABLE, str(file), "a file that holds one JSON object")
    for name, value in written.items():
        choice(f"{file}: field", name, (*plain, SCHEDULE))
        if not isinstance(value, bool if name in FLAGS else str):
            raise bad_input(f"{file}: {name}", str(value), "true or false" if name in FLAGS else "a text")
        if name in CHOICES:
            choice(f"{file}: {name}", value, CHOICES[name])
    schedule = variables.as_cron(f"{file}: {SCHEDULE}", written.pop(SCHEDULE, "")) or None
    return plain | written, schedule
