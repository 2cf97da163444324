"""The command-line options that describe a run. Most of these options are fields of the Airflow form, too."""

from __future__ import annotations

import argparse
from collections.abc import Container, Iterable
from typing import Any, get_args

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.model import inputs
from delivery_verifier.model.inputs import BadInput, Refusals
from delivery_verifier.model.scenario import Claim, OwnPacing, Profile
from delivery_verifier.model.steps import STEPS


def _choices(names: Iterable[str]) -> str:
    return "{" + ",".join(names) + "}"


RUN_FIELDS: dict[str, dict[str, Any]] = {
    "scenario": {
        "metavar": "NAME",
        "help": "a scenario of the catalogue, in place of profile, fault, claim and load; `kdv list scenarios`",
    },
    "profile": {"metavar": "NAME", "help": "delivery settings to be verified (default safe); `kdv list profiles`"},
    "application": {
        "metavar": "NAME",
        "help": "a consumer under test that applies the subject's records; its effects are compared with the log "
        "(default none); one of the catalogue, or of your own; `kdv list applications`",
    },
    "fault": {"metavar": _choices(list(catalogue.FAULTS)), "help": "what is done to the brokers (default kill_leader)"},
    "fault_s": {
        "metavar": "S",
        "help": "least whole seconds that the fault lasts: "
        f"{', '.join(catalogue.USUAL_S)} only (default: until others lead; 10 for the last two)",
    },
    "claim": {
        "metavar": _choices(get_args(Claim)),
        "help": "what must hold: the settings' contract (default), or more; ordered speaks of first copies, later "
        "copies are for exactly_once to forbid",
    },
    "records": {
        "metavar": "N",
        "help": f"least number of records from the subject, {catalogue.FEWEST_RECORDS} or more (default 20000)",
    },
    "rate": {"metavar": "N", "help": "records per second and arm; without it the load is paced"},
    "pacing": {
        "metavar": _choices(get_args(OwnPacing)),
        "help": "spread over the planned duration (default), or flat_out",
    },
    "producers": {"metavar": "N", "help": "producer processes of the subject (default 1)"},
    "partitions": {"metavar": "N", "help": "partitions per topic (default 3)"},
    "replication_factor": {"metavar": "N", "help": "replicas per partition (default 3)"},
    "min_insync_replicas": {
        "metavar": "N",
        "help": "min.insync.replicas of the subject's topic (default: the profile's)",
    },
    "payload_bytes": {"metavar": "N", "help": "bytes per record, at least 70 (default 100)"},
    "transaction_records": {
        "metavar": "N",
        "help": "records of a transaction, in whole blocks and no more than a second sends; of arms with a "
        "transactional.id (default 500)",
    },
    "abort_every": {
        "metavar": "N",
        "help": "abort the 2nd transaction and then every N-th (default 10)",
    },
    "cycles": {"metavar": "N", "help": "how often the fault is repeated in one load (default 1)"},
    "seed": {"metavar": "N", "help": "which broker leads which partition (default 0)"},
    "kafka_version": {"help": "version of the brokers (default 4.3.1)"},
    "min_exposed": {
        "metavar": "N",
        "help": "fewer exposed records than this forbid HELD (default 100, or 1%% of records)",
    },
    "duration_s": {"metavar": "S", "help": "seconds over which a spread load is paced (default: the fault's, + 4)"},
    "recovery_s": {"metavar": "S", "help": "seconds for which the load goes on after the fault plan (default 2)"},
    "deadline_s": {"metavar": "S", "help": "longest single wait during the load (default: grows with the load)"},
    "fail_step": {"metavar": _choices(STEPS), "help": "make one step fail at its entry, to see the alarm work"},
}
"""The options that give the fields of a run. Maps each field to the arguments that argparse takes for its option.

`planning.params` checks the values. `kdv run` and `kdv plan` have all of these options. Other commands have some of
them.
"""


FILES: dict[str, dict[str, Any]] = {
    "producer_config": {
        "metavar": "FILE",
        "help": "producer settings: .properties, Spring Boot's, Kafka Connect's ... (docs/settings.md)",
    },
    "topic_config": {"metavar": "FILE", "help": "topic settings: .properties, KafkaTopic, server.properties"},
    "consumer_config": {
        "metavar": "FILE",
        "help": "consumer settings: checked, and explained by `kdv explain`; a run exercises --application NAME",
    },
    "client": {
        "metavar": "{java,librdkafka}[:VERSION]",
        "help": "whose defaults fill the gaps of a file (default: by its names, and the newest version), e.g. java:3.1",
    },
    "save_profile": {
        "metavar": "NAME",
        "help": "save the settings as a profile, for --profile NAME and the Airflow form",
    },
}
"""The options that name files of settings on the user's host. Maps each option to its arguments for argparse.

A run never gets these files. It gets the profile (the settings) that is read from the files. Connection and security
properties are left out of the profile, so that it holds no secrets.
"""
OVERRIDES = {"producer_override": "producer_overrides", "topic_override": "topic_overrides"}
"""Maps each option that overrides settings to a field of a run. Each use of the option overrides one setting. The field
holds the settings of all uses, one per line."""
GROUPS: dict[str, tuple[str, ...]] = {
    "the question": ("scenario", "profile", "application", "fault", "fault_s", "cycles", "claim"),
    "settings of your own": (*FILES, *OVERRIDES),
    "the load": (
        *("records", "rate", "pacing", "producers", "payload_bytes", "transaction_records", "abort_every"),
        *("duration_s", "recovery_s", "deadline_s", "min_exposed"),
    ),
    "topics and cluster": ("partitions", "replication_factor", "min_insync_replicas", "kafka_version", "seed"),
    "testing the verifier": ("fail_step",),
}
"""The groups under which --help shows the options: all of RUN_FIELDS, FILES and OVERRIDES, each once."""


def params_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the fields of a run that the command line gives. Maps the name of each field to its value.

    If the user names files of settings or a saved profile, or gives --save-profile, the field `own_profile` holds the
    complete profile, so that the run needs no file of the user. Overrides are fields of their own, but with
    --save-profile they are part of the profile. Raises BadInput if an option is not allowed. If a file or a setting in
    it is refused, the message names every other refused option, too.
    """
    from delivery_verifier.planning.build import BESIDE_A_SCENARIO, check_input
    from delivery_verifier.planning.own_settings import properties

    params = {name: getattr(arguments, name) for name in RUN_FIELDS if getattr(arguments, name, None) is not None}
    refusals = Refusals()
    with refusals:
        _check_client(arguments)
    for option, field in OVERRIDES.items():
        if lines := getattr(arguments, option):
            with refusals:
                params[field] = properties.text(properties.parse("\n".join(lines), field))
    with refusals:
        if (profile := _own_profile(arguments, params)) is not None:
            params["own_profile"] = msgspec.to_builtins(profile)
            params.pop("profile", None)
    if refusals.messages:
        params.pop("profile", None)  # was checked above
        check_input(params, refusals)
        refusals.require_none()
    if "scenario" in params and (fixed := sorted(set(params) - set(BESIDE_A_SCENARIO))):
        names = ", ".join(name.replace("_", "-") for name in fixed)
        raise BadInput(
            f"scenario is {params['scenario']!r}, which settles {names} "
            f"itself; allowed beside it: {', '.join(BESIDE_A_SCENARIO[1:4])}. Leave out one or the other"
        )
    return params


def _check_client(arguments: argparse.Namespace) -> None:
    """Raises BadInput if --client names no client, or if no file is given: settings without a file are not those of a
    client, and nobody would see that the option changed nothing."""
    from delivery_verifier.planning.own_settings import clients

    if arguments.client is None:
        return
    clients.parse(arguments.client)
    if not (arguments.producer_config or arguments.consumer_config):
        raise BadInput(
            f"client is {arguments.client!r}, but no file of settings is given; leave --client out, or give "
            "--producer-config FILE or --consumer-config FILE: it says for which client a file was written"
        )


def _own_profile(arguments: argparse.Namespace, params: dict[str, Any]) -> Profile | None:
    """Returns a complete profile: the one from the user's files, or the saved profile that the user names. Returns None
    if the user gives no file, names no saved profile, and does not use --save-profile.

    With --save-profile, also applies the overrides to the profile, removes them from `params`, and saves the profile.
    Raises BadInput if an option or a setting is not allowed.
    """
    from delivery_verifier.planning.build import check_settings
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
        own = profiles.from_files(base, *files, arguments.client)
    if arguments.save_profile:
        texts = (params.pop(field, "") for field in OVERRIDES.values())
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


def add(parser: argparse.ArgumentParser, only: Container[str] = frozenset(RUN_FIELDS)) -> None:
    """Adds options to `parser`, in GROUPS: the options in FILES and OVERRIDES, and those options in RUN_FIELDS that
    `only` names."""
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)  # --help leaves an empty group out
        for name in names:
            if name in only or name not in RUN_FIELDS:
                group.add_argument(f"--{name.replace('_', '-')}", dest=name, **_arguments_of(name))


def _arguments_of(name: str) -> dict[str, Any]:
    """Returns the arguments that argparse takes for an option."""
    if name in OVERRIDES:
        what = name.removesuffix("_override")
        return {"action": "append", "metavar": "NAME=VALUE", "help": f"one {what} setting; repeatable"}
    return {**RUN_FIELDS, **FILES}[name]
