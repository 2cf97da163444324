"""A cluster that somebody else runs: how a run reaches it, and what was found there before the run. Nothing of it is a
secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Self

from msgspec import Meta

from delivery_verifier.model.data import Data
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.operator_commands import CommandsFile

AIRFLOW = "airflow:"
"""What stands before the id of a connection of Airflow in the name of a cluster."""
PATTERN = rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,79}}|{AIRFLOW}[A-Za-z0-9_][A-Za-z0-9_.-]{{0,79}}"
"""Matches the name of a cluster: of a file of the operator, or of a connection of Airflow."""


REBALANCE, SESSION, LAG = "auto.leader.rebalance.enable", "broker.session.timeout.ms", "replica.lag.time.max.ms"
"""Settings of brokers: whether leaders move back by themselves, after how long the cluster deposes a silent broker, and
after how long a leader drops a replica that does not follow."""
RETURN_S = 420.0
"""How long a run waits until brokers that somebody else took out are back, and lead again what they led, in seconds.
Brokers look every 300 s whether leaders must move back (leader.imbalance.check.interval.seconds)."""


def is_name(text: str) -> bool:
    """Returns whether `text` may name a cluster."""
    return re.fullmatch(PATTERN, text) is not None


class ClusterAccess(Data, frozen=True):
    """How a run reaches the cluster: the options that the user gave, and never a secret. Each process of the run reads
    the file again that they name.

    * `bootstrap_server`, `command_config`, `command_property`, `cluster`: the options of the same names (KIP-1147).
      `command_config` is an absolute path.
    * `beside`: the runs beside which this one may run, by their names or tokens.
    * `commands`: the name of the operator's commands, by which brokers are broken there.
    """

    bootstrap_server: str | None = None
    command_config: str | None = None
    command_property: tuple[str, ...] = ()
    cluster: str | None = None
    beside: tuple[str, ...] = ()
    commands: str | None = None

    @classmethod
    def of_fields(cls, fields: Mapping[str, object]) -> Self | None:
        """Returns how the fields of a run name a cluster; None if they name none. Raises BadInput if they name commands
        that break it, and no cluster."""
        if not fields.get("cluster"):
            if fields.get("commands"):
                raise BadInput(
                    "commands break a cluster that somebody else runs, and cluster is empty; name it, or leave "
                    "commands empty"
                )
            return None
        beside, commands = tuple(str(fields.get("beside") or "").split()), str(fields.get("commands") or "") or None
        return cls(cluster=str(fields["cluster"]), beside=beside, commands=commands)

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a run that name the cluster, for `of_fields`. Only names travel in them."""
        assert self.cluster is not None
        more = {"beside": "\n".join(self.beside), "commands": self.commands}
        return {"cluster": self.cluster} | {name: value for name, value in more.items() if value}

    @property
    def shown(self) -> str:
        """The cluster in words, for a page."""
        said = dict(pair.partition("=")[::2] for pair in self.command_property).get("bootstrap.servers")
        return f"the cluster {self.cluster or self.bootstrap_server or said or self.command_config}"

    @property
    def unnamed(self) -> tuple[str, ...]:
        """The options that name the cluster otherwise than by a name, and so cannot travel to a task of Airflow."""
        return tuple(name for name, _ in self.options() if name not in ("--cluster", "--beside", "--commands"))

    def options(self) -> list[tuple[str, str]]:
        """Returns the options, each with its value, as a command line has them."""
        named = {
            "--bootstrap-server": self.bootstrap_server,
            "--command-config": self.command_config,
            "--cluster": self.cluster,
            "--commands": self.commands,
        }
        single = [(name, value) for name, value in named.items() if value is not None]
        more = {"--command-property": self.command_property, "--beside": self.beside}
        return single + [(name, value) for name, values in more.items() for value in values]


class ExternalCluster(Data, frozen=True):
    """What is known of the cluster.

    * `cluster_id`: the id that the cluster gives itself. A run never goes on at a cluster with another one.
    * `brokers`: the ids of the brokers that hold replicas of the run, in the order in which replicas are placed, so
      that neighbours are in different racks where that is possible.
    * `assumed`: what the contract assumes of the cluster, each with the reason. What is not known has the weaker value.
    * `settings`: the settings of brokers that the cluster told; None: this client may not read them.
    * `commands`: the operator's commands by which brokers are broken; None: no broker is.
    """

    access: ClusterAccess
    cluster_id: Annotated[str, Meta(min_length=1)]
    brokers: tuple[int, ...]
    assumed: dict[str, str] = {}
    settings: dict[str, str] | None = None
    commands: CommandsFile | None = None
