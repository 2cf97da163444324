"""What single fields of a run allow, where their types and limits do not say it: names that this host knows, and checks
of texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from delivery_verifier import catalogue
from delivery_verifier.host import folders
from delivery_verifier.model import client, external_cluster, operator_commands
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.inputs import BadInput, bad_input, choice
from delivery_verifier.model.scenario import OwnPacing

OWN: Final = "own"
"""The name of the user's own profile, as long as the user has not saved the profile under another name."""
LISTED = "`kdv list` describes them"
_RUN = re.compile(r"[A-Za-z0-9._-]{1,249}")


def scenarios() -> dict[str, str]:
    """Returns the label of each scenario of the catalogue, by name."""
    return {name: f"{name}: {entry.title}" for name, entry in catalogue.SCENARIOS.items()}


def profiles() -> dict[str, str]:
    """Returns the label of each profile by name: of the catalogue, saved on this host, and the pasted one."""
    from delivery_verifier.planning.own_settings import profiles

    pasted = f"{OWN}: the producer settings that you paste below, under Own settings"
    return {**_summaries(profiles.known()), OWN: pasted}


def applications() -> dict[str, str]:
    """Returns the label of each application by name: of the catalogue, and the user's own."""
    from delivery_verifier.planning import user_applications

    return _summaries(user_applications.known())


def faults() -> dict[str, str]:
    """Returns the label of each fault plan of the catalogue, by name."""
    return _summaries(catalogue.FAULTS)


def claims() -> dict[str, str]:
    """Returns the label of each claim, by name."""
    return {claim: f"{claim}: {kind.meaning}" for claim, kind in CLAIMS.items()}


def pacings() -> dict[OwnPacing, str]:
    """Returns the label of each pacing: how fast the producers send if the user enters no rate."""
    return {
        "spread": "spread: at a steady rate, the minimum number of records over the planned duration",
        "flat_out": "flat_out: as fast as the client can",
    }


def kafka_versions() -> dict[str, str]:
    """Returns the versions of Kafka that can be fetched. Each is its own label."""
    from delivery_verifier.host.java.jars import kafka_versions

    return {version: version for version in kafka_versions()}


def written_for() -> tuple[str, ...]:
    """Returns clients that forms and shells propose, also with versions."""
    from delivery_verifier.planning.own_settings import clients

    return clients.PROPOSED


def clients() -> tuple[str, ...]:
    """Returns clients that forms and shells propose for a run: single ones, and several."""
    versions = [f"{name}:{version}" for name, kind in client.CLIENTS.items() for version in kind.versions]
    return ("librdkafka", "librdkafka,java", "java", *versions)


def check_clients(field: str, value: object) -> str:
    """Returns `value`, the clients of a run, with the version of each: a repeated run has the same. Raises BadInput for
    a client or a version that no run can have. An empty field of a form names librdkafka."""
    text = str(value).strip() or client.VersionedClient().text
    return ",".join(each.text for each in client.parse(text, field))


def check_profile(field: str, value: object) -> str:
    """Returns `value`, the name of a profile. Raises BadInput if there is none, or if the name stands for two."""
    from delivery_verifier.planning.own_settings.profiles import require_unambiguous

    name = choice(field, value, profiles(), LISTED)
    require_unambiguous(name)
    return name


def check_application(field: str, value: object) -> str:
    """Returns `value`, the name of an application. Raises BadInput for anything else."""
    from delivery_verifier.planning import user_applications

    return user_applications.check_name(field, value)


def check_fault(field: str, value: object) -> str:
    """Returns `value`, the name of a fault, with underscores for hyphens. Raises BadInput if there is none."""
    return choice(field, value.replace("-", "_") if isinstance(value, str) else value, catalogue.FAULTS, LISTED)


def check_written_for(field: str, value: object) -> str:
    """Returns `value`, the name of a client, also with a version. Raises BadInput if one of them is not known."""
    from delivery_verifier.planning.own_settings.clients import parse

    text = str(value)
    if text:  # an empty field of a form
        parse(text, field)
    return text


def clusters() -> tuple[str, ...]:
    """Returns the names of the clusters that the operator has described in the folder of connections."""
    folder = folders.connections_dir()
    paths = [path for path in (folder.iterdir() if folder.is_dir() else ()) if path.is_dir() or path.suffix]
    return tuple(sorted({path.name if path.is_dir() else path.stem for path in paths}))


def check_cluster(field: str, value: object) -> str:
    """Returns `value`, the name of a cluster that somebody else runs. Raises BadInput for anything else. Whether there
    is such a cluster is for the step plan to say, because only a task can ask Airflow."""
    text = str(value)
    if text and not external_cluster.is_name(text):
        raise bad_input(field, value, f"NAME, or {external_cluster.AIRFLOW}CONN_ID: up to 80 of A-Z a-z 0-9 _ . -")
    return text


def commands() -> tuple[str, ...]:
    """Returns the names of the commands that the operator has written."""
    return tuple(sorted(path.stem for path in folders.commands_dir().glob("*.toml")))


def check_commands(field: str, value: object) -> str:
    """Returns `value`, the name of commands of the operator. Raises BadInput for anything else, and does not show it:
    somebody may have typed a command."""
    text = str(value)
    if text and not re.fullmatch(operator_commands.PATTERN, text):
        raise BadInput(
            f"{field} is no name; allowed: {', '.join(commands()) or 'none yet'}; a command is never typed here: the "
            f"operator of the host writes it to {folders.commands_dir()}/NAME.toml"
        )
    return text


def check_beside(field: str, value: object) -> str:
    """Returns `value`, the names of runs, one to a line. Raises BadInput for anything else."""
    text = check_text(field, value)
    for name in text.split():
        if not _RUN.fullmatch(name):
            raise bad_input(field, name, "names of runs, one to a line, of A-Z a-z 0-9 . _ -")
    return text


def check_text(field: str, value: object) -> str:
    """Returns `value`, which must be a text, without a byte order mark. Raises BadInput for anything else. The message
    does not show the value, because it may hold a password."""
    if not isinstance(value, str):
        raise BadInput(f"{field} is no text; allowed: .properties syntax, one name=value to a line")
    return value.removeprefix("\ufeff")


def _summaries(entries: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"{name}: {entry.summary}" for name, entry in entries.items()}
