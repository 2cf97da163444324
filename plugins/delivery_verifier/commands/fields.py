"""The options that say what a run is, which are the fields of the Airflow form as well."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, get_args

from delivery_verifier import catalogue
from delivery_verifier.scenario import STEPS, Claim, Pacing


def _shown(choices: Iterable[str]) -> str:
    return "{" + ",".join(choices) + "}"


RUN_FIELDS: dict[str, dict[str, Any]] = {
    "profile": {"metavar": _shown(list(catalogue.PROFILES)), "help": "delivery settings to be verified (default safe)"},
    "fault": {"metavar": _shown(list(catalogue.FAULTS)), "help": "what is done to the brokers (default kill_leader)"},
    "claim": {"metavar": _shown(get_args(Claim)), "help": "what must hold: the settings' contract (default), or more"},
    "records": {"metavar": "N", "help": "at least so many records from the subject (default 20000)"},
    "rate": {"metavar": "N", "help": "records per second and arm; without it the load is paced"},
    "pacing": {"metavar": _shown(get_args(Pacing)), "help": "spread over the planned duration (default), or flat_out"},
    "producers": {"metavar": "N", "help": "producer processes of the subject (default 1)"},
    "partitions": {"metavar": "N", "help": "partitions per topic (default 3)"},
    "replication_factor": {"metavar": "N", "help": "replicas per partition (default 3)"},
    "min_insync_replicas": {"metavar": "N", "help": "min.insync.replicas of the subject's topic (default: the profile's)"},
    "payload_bytes": {"metavar": "N", "help": "bytes per record, at least 70 (default 100)"},
    "cycles": {"metavar": "N", "help": "how often the fault is repeated in one load (default 1)"},
    "seed": {"metavar": "N", "help": "which broker leads which partition (default 0)"},
    "kafka_version": {"help": "version of the brokers (default 4.3.1)"},
    "min_exposed": {"metavar": "N", "help": "fewer exposed records than this forbid HELD (default 100, or 1%% of records)"},
    "duration_s": {"metavar": "S", "help": "seconds over which a spread load is paced (default: the fault's, + 4)"},
    "fail_step": {"metavar": _shown(STEPS), "help": "make one step fail at its entry, to see the alarm work"},
}
"""Options of `run` and `plan`, which are the fields of the Airflow form as well; `params` checks them."""


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields that were given on the command line."""
    return {name: getattr(arguments, name) for name in RUN_FIELDS if getattr(arguments, name) is not None}


def add(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` an option for each field."""
    for name, options in RUN_FIELDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, **options)
