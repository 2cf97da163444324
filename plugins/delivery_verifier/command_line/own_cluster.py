"""The options by which a user names a cluster that somebody else runs, and the check of that cluster by `kdv plan`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from delivery_verifier.model.scenario import Scenario

if TYPE_CHECKING:
    from delivery_verifier.planning.cluster_plan import ClusterPlan

TITLE = "a cluster that somebody else runs"


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the options to `parser`. They have the names that Kafka's own tools have (KIP-1147)."""
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


def is_named(arguments: argparse.Namespace) -> bool:
    """Returns whether `arguments` name a cluster that somebody else runs."""
    named = (arguments.bootstrap_server, arguments.command_config, arguments.cluster)
    return bool(arguments.command_property) or any(name is not None for name in named)


def check(arguments: argparse.Namespace, scenario: Scenario) -> tuple[Scenario, ClusterPlan]:
    """Returns `scenario` on the cluster that `arguments` name, and what that cluster means for it. Nothing is left
    there.

    Raises BadInput and UnsupportedSecurity if the connection cannot be used, and Unreachable if no server answers.
    """
    from delivery_verifier.cluster.check import cluster_check
    from delivery_verifier.cluster.security import command_config
    from delivery_verifier.planning import cluster_needs, cluster_plan

    access = command_config.read(
        arguments.bootstrap_server, arguments.command_config, arguments.command_property, arguments.cluster
    )
    for name in access.left_out:
        print(f"kdv: {name} is no property of a connection, and has no effect here", file=sys.stderr)
    needed = cluster_needs.needs(scenario)
    checked = cluster_check.check(
        access,
        (*needed.rights, *needed.wishes),
        lambda brokers: cluster_needs.sample_topics(scenario, brokers),
    )
    return cluster_plan.observed(scenario, checked), cluster_plan.judge(scenario, checked)
