"""Writes the command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from delivery_verifier.host import folders
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.own_settings import profiles
from delivery_verifier.planning.request import FIELDS


def repeating_command(values: Mapping[str, Any], profile: Profile) -> str:
    """Returns the `kdv run` command that repeats this run. If this host has no checkout of the project, the command has
    the option --direct, because the local Airflow needs the checkout.

    Each of `values`, the fields that the user gave, becomes an option of the command, in the order of `--help`. Left
    out are default values (but see `Words.is_stated`), and fields without an option. If the user gave a field that
    describes the profile, the command gets options that describe `profile` instead (see `profiles.options`).
    """
    options: dict[str, list[Any]] = {}
    if any(values.get(name) for name, field in FIELDS.items() if field.words.is_of_profile):
        options = {**profiles.options(profile)}
    for name, field in FIELDS.items():
        is_needed = values.get(name) is not None and (field.words.is_stated or values[name] != field.default)
        if is_needed and field.option and not field.words.is_of_profile:
            options[f"--{field.option.replace('_', '-')}"] = [values[name]]
    words = (f"{option} {shlex.quote(str(value))}" for option, values in options.items() for value in values)
    # The local Airflow needs a checkout, which an installed wheel does not have.
    direct = [] if (folders.project_root() / "dags" / "verify_delivery.py").is_file() else ["--direct"]
    return " ".join(["kdv run", *direct, *words])
