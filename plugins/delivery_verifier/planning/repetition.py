"""Writes the command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from delivery_verifier.host import folders
from delivery_verifier.model.scenario import Load, Profile
from delivery_verifier.planning.own_settings import profiles

LOAD_FIELDS = (
    "partitions",
    "replication_factor",
    "payload_bytes",
    "pacing",
    "rate",
    "recovery_s",
    "transaction_records",
    "abort_every",
)
"""The fields of a run that `Load` has under the same name."""
_PROFILE_FIELDS = ("profile", "own_profile", "producer_config", "client", "producer_overrides", "topic_overrides")
"""The fields of a run that describe the subject's profile."""
_DEFAULTS: dict[str, object] = {
    "claim": "contract",
    **{"cycles": 1, "producers": 1, "seed": 0},
    **{field: getattr(Load(), field) for field in LOAD_FIELDS},
}
"""The values that mean the same as leaving the field of the run out. The command omits fields with these values. It
always states the version of Kafka if the user gave one: the default version changes with time, and the command is
stored with the run."""


def repeating_command(params: Mapping[str, Any], profile: Profile) -> str:
    """Returns the `kdv run` command that repeats this run. If this host has no checkout of the project, the command has
    the option --direct, because the local Airflow needs the checkout.

    A field of `params` becomes an option of the command. Left out are `owner`, fields with their default values, and
    the fields that describe the profile. If the user gave a field that describes the profile, the command gets options
    that describe `profile` instead (see `profiles.options`).
    """
    options = {
        f"--{key.replace('_', '-')}": [value]
        for key, value in params.items()
        if value is not None and key not in ("owner", *_PROFILE_FIELDS) and _DEFAULTS.get(key) != value
    }
    if any(params.get(key) for key in _PROFILE_FIELDS):
        options = {**profiles.options(profile), **options}
    words = (f"{option} {shlex.quote(str(value))}" for option, values in options.items() for value in values)
    # The local Airflow needs a checkout, which an installed wheel does not have.
    direct = [] if (folders.project_root() / "dags" / "verify_delivery.py").is_file() else ["--direct"]
    return " ".join(["kdv run", *direct, *words])
