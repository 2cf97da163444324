"""The command-line options that describe a run: those of the fields of a run (see `planning.request`), and files of
settings."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import Any

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.model import inputs
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.request import FIELDS

FILES: dict[str, dict[str, dict[str, Any]]] = {
    "producer_config": {
        "topic_config": {"metavar": "FILE", "help": "topic settings: .properties, KafkaTopic, server.properties"},
        "consumer_config": {
            "metavar": "FILE",
            "help": "consumer settings: checked, and explained by `kdv explain`; a run exercises --application NAME",
        },
    },
    "written_for": {
        "save_profile": {
            "metavar": "NAME",
            "help": "save the settings as a profile, for --profile NAME and the Airflow form",
        },
    },
}
"""The options for settings of the user's own that are no fields of a run: each with its arguments for argparse, by the
field behind whose option it stands.

A run never gets the user's files, also not that of `producer_config`. It gets the profile (the settings) that is read
from them. Connection and security properties are left out of the profile, so that it holds no secrets.
"""
OVERRIDES = tuple(name for name, field in FIELDS.items() if field.words.option)
"""The fields that override settings. Each use of the option gives one setting."""
OF_SETTINGS = frozenset({*FILES, *OVERRIDES})
"""The fields whose options name a file, or give one setting in each use. Every command that takes options of a run has
them."""
OF_VALUES = tuple(name for name, field in FIELDS.items() if field.option and name not in OF_SETTINGS)
"""The fields whose options give their values."""


def params_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of a run that the command line gives. Maps the name of each field to its value.

    If the user names files of settings or a saved profile, or gives --save-profile, the field `own_profile` holds the
    complete profile, so that the run needs no file of the user. Overrides are fields of their own, but with
    --save-profile they are part of the profile. Raises BadInput if an option is not allowed. If a file or a setting in
    it is refused, the message names every other refused option, too.
    """
    from delivery_verifier.planning.consistency import check_request, require_nothing_settled
    from delivery_verifier.planning.own_settings import properties

    params = {name: getattr(arguments, name) for name in OF_VALUES if getattr(arguments, name, None) is not None}
    errors = ValidationErrors()
    with errors:
        _check_written_for(arguments)
    for field in OVERRIDES:
        if lines := getattr(arguments, FIELDS[field].option):
            with errors:
                params[field] = properties.text(properties.parse("\n".join(lines), field))
    with errors:
        if (profile := _own_profile(arguments, params)) is not None:
            params["own_profile"] = msgspec.to_builtins(profile)
            params.pop("profile", None)
    if errors.messages:
        params.pop("profile", None)  # was checked above
        check_request(params, errors)
        errors.require_none()
    if "scenario" in params:
        require_nothing_settled(params, params["scenario"])
    return params


def _check_written_for(arguments: argparse.Namespace) -> None:
    """Raises BadInput if --written-for names no client, or if no file is given: settings without a file are not those
    of a client, and nobody would see that the option changed nothing."""
    from delivery_verifier.planning.own_settings import clients

    if arguments.written_for is None:
        return
    clients.parse(arguments.written_for, "written_for")
    if not (arguments.producer_config or arguments.consumer_config):
        raise BadInput(
            f"written_for is {arguments.written_for!r}, but no file of settings is given; leave --written-for out, or "
            "give --producer-config FILE or --consumer-config FILE: it says for which client a file was written"
        )


def _own_profile(arguments: argparse.Namespace, params: dict[str, Any]) -> Profile | None:
    """Returns a complete profile: the one from the user's files, or the saved profile that the user names. Returns None
    if the user gives no file, names no saved profile, and does not use --save-profile.

    With --save-profile, also applies the overrides to the profile, removes them from `params`, and saves the profile.
    Raises BadInput if an option or a setting is not allowed.
    """
    from delivery_verifier.planning.consistency import check_settings
    from delivery_verifier.planning.own_settings import profiles

    if name := params.get("profile"):
        profiles.require_unambiguous(name)
    if name and arguments.producer_config:
        raise BadInput(f"profile is {name!r}, but producer_config gives all producer settings: give one of the two")
    if name in catalogue.PROFILES or not name:
        base = catalogue.PROFILES[name] if name else None
    else:
        base = profiles.known().get(name) or _unknown(name)
    files = (arguments.producer_config, arguments.topic_config, arguments.consumer_config)
    own = None if name in catalogue.PROFILES else base
    if any(files):
        own = profiles.from_files(base, *files, arguments.written_for)
    if arguments.save_profile:
        texts = (params.pop(field, "") for field in OVERRIDES)
        own = profiles.overridden(own or base or catalogue.PROFILES["safe"], *texts)
        check_settings(own)
        own = profiles.save(own, arguments.save_profile)
    return own


def _unknown(name: str) -> Profile:
    """Never returns a profile. Raises BadInput, because the saved profile `name` cannot be read or does not exist."""
    from delivery_verifier.planning.own_settings import profiles

    if (why := profiles.unreadable().get(f"{name}.json")) is not None:
        raise BadInput(f"profile is {name!r}, but {profiles.folder() / name}.json cannot be read: {why}")
    inputs.choice("profile", name, profiles.known(), "`kdv list profiles` describes them")
    raise AssertionError("unreachable")


def add(parser: argparse.ArgumentParser, only: Container[str] = OF_VALUES) -> None:
    """Adds options to `parser`, under the headings of the fields: all for settings of the user's own, and those of
    OF_VALUES that `only` names."""
    groups: dict[str, Any] = {}
    for name, field in FIELDS.items():
        if not field.option or not (name in only or name in OF_SETTINGS):
            continue
        if (title := field.words.group) not in groups:
            groups[title] = parser.add_argument_group(title)
        for option, argument in {field.option: field.argument, **FILES.get(name, {})}.items():
            groups[title].add_argument(f"--{option.replace('_', '-')}", dest=option, **argument)
