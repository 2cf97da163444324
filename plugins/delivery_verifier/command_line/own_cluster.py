"""The options by which a user names a cluster that somebody else runs, and the check of that cluster by `kdv plan`."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from delivery_verifier.host import folders
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Scenario

if TYPE_CHECKING:
    from delivery_verifier.model.external_cluster import ClusterAccess
    from delivery_verifier.planning.cluster_plan import ClusterPlan

TITLE = "a cluster that somebody else runs"


def add(parser: argparse.ArgumentParser, *, runs: bool = False, breaks: bool = False) -> None:
    """Adds the options to `parser`. They have the names that Kafka's own tools have (KIP-1147). `runs`: the command
    runs something there, and may do so beside other runs. `breaks`: it has a fault plan."""
    group = parser.add_argument_group(TITLE)
    group.add_argument("--bootstrap-server", metavar="HOST:PORT", help="servers to ask first, separated by commas")
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="how to connect: Java's or librdkafka's properties, or a mounted secret",
    )
    group.add_argument(
        "--command-property", metavar="NAME=VALUE", action="append", default=[], help="one property, but no secret"
    )
    group.add_argument("--cluster", metavar="NAME", help="a cluster by its name: NAME.properties in KDV_CONNECTIONS")
    if breaks:
        text = "break brokers there by commands of yours: NAME.toml in KDV_COMMANDS; `kdv schema commands` has the form"
        group.add_argument("--commands", metavar="NAME", help=text)
    if runs:
        text = "go on beside this run of another home, and touch nothing of it"
        group.add_argument("--beside", metavar="RUN", action="append", default=[], help=text)


def is_named(arguments: argparse.Namespace) -> bool:
    """Returns whether `arguments` name a cluster that somebody else runs."""
    named = (arguments.bootstrap_server, arguments.command_config, arguments.cluster)
    return bool(arguments.command_property) or any(name is not None for name in named)


def access_of(arguments: argparse.Namespace, *, is_direct: bool = True) -> ClusterAccess | None:
    """Returns how `arguments` name a cluster that somebody else runs, or None if they name none.

    A file is named by its absolute path, because other processes of the run read it, too. Through Airflow, only a name
    may go, so there a file in the folder of connections is named by its name. Says on stderr which properties have no
    effect. Raises BadInput and UnsupportedSecurity if the connection cannot be used.
    """
    from delivery_verifier.cluster.external.cluster import read
    from delivery_verifier.model.external_cluster import ClusterAccess

    if not is_named(arguments):
        if getattr(arguments, "beside", None):
            raise BadInput(f"--beside names a run on {TITLE}, and no cluster is named; name it, or leave --beside out")
        if getattr(arguments, "commands", None) is not None:
            raise BadInput(f"--commands break {TITLE}, and no cluster is named; name it, or leave --commands out")
        return None
    config = arguments.command_config
    access = ClusterAccess(
        bootstrap_server=arguments.bootstrap_server,
        command_config=str(Path(config).expanduser().absolute()) if config else config,
        command_property=tuple(arguments.command_property),
        cluster=arguments.cluster,
        beside=tuple(getattr(arguments, "beside", ())),
        commands=getattr(arguments, "commands", None),
    )
    if not is_direct:
        access = _by_name(access)
        if not is_known_here(access):
            return access
    for name in read(access).left_out:
        print(f"kdv: {name} is no property of a connection, and has no effect here", file=sys.stderr)
    return access


def is_known_here(access: ClusterAccess) -> bool:
    """Returns whether this process can read the connection: a connection of Airflow must stand in its environment."""
    from delivery_verifier.cluster.security import airflow_connections

    return not airflow_connections.is_named(access.cluster or "") or airflow_connections.is_in_environment(
        access.cluster or ""
    )


def _by_name(access: ClusterAccess) -> ClusterAccess:
    """Returns `access` by the name of the cluster alone. Raises BadInput, with the remedy, if it names the cluster
    otherwise."""
    from msgspec.structs import replace

    folder, config = folders.connections_dir().absolute(), access.command_config
    if config is not None and access.cluster is None and (name := _name_of(Path(config))):
        access = replace(access, command_config=None, cluster=name)
    if unnamed := access.unnamed:
        raise BadInput(
            f"{', '.join(dict.fromkeys(unnamed))} cannot travel to the tasks of Airflow; allowed: --cluster NAME; "
            f"write the properties to {folder}/NAME.properties, with mode 0600, or add --direct"
        )
    return access


def _name_of(config: Path) -> str:
    """Returns the name by which a task of Airflow reads exactly this file or folder; empty if none does."""
    from delivery_verifier.cluster.security import command_config

    for name in (config.name.removesuffix(command_config.SUFFIX), config.name):
        with suppress(BadInput):
            if command_config.named(name).absolute() == config:
                return name
    return ""


def check(access: ClusterAccess, scenario: Scenario) -> tuple[Scenario, ClusterPlan]:
    """Returns `scenario` on the cluster that `access` names, and what that cluster means for it. Nothing is left there.

    Raises BadInput and UnsupportedSecurity if the connection cannot be used, and Unreachable if no server answers.
    """
    from delivery_verifier.planning import external_runs

    checked, plan = external_runs.check(access, scenario)
    return external_runs.on_cluster(access, scenario, checked), plan
