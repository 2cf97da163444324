"""How Spark reads from a cluster that wants to know who reads: the options name a file, and the file has the secrets.

Whatever is an option of a query may be shown. A Spark Connect server shows the whole request in its pages, in its REST
answers and in its event log, and Spark's redaction does not cover it there. So an option has only a placeholder,
`${file:PATH:NAME}`, which Kafka's own `FileConfigProvider` (KIP-297) resolves in the client, where the client runs.

The file has mode 0600 and stands in the workspace, so it ends with the run, whoever ends it. It is there only while
Spark reads. Spark's `--files` is not used: Spark would hand the file to everybody who reaches the driver's port, and a
worker keeps its copy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import javaproperties

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.security import names, portable
from delivery_verifier.host import private_files, variables
from delivery_verifier.model.errors import VerifierError

FILE, OPTIONS = "spark.properties", "spark-options.json"
"""The files in the workspace: the secrets, and the options of a job that is submitted."""
MOUNT = "KDV_SPARK_WORKSPACES"
"""The environment variable with the folder of workspaces as Spark sees it, if Spark runs on another host."""
SHOWN = frozenset(
    {
        "bootstrap.servers",
        names.PROTOCOL,
        names.MECHANISM,
        "ssl.endpoint.identification.algorithm",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.keystore.type",
        "ssl.keystore.location",
    }
)
"""The properties whose values may be shown. The value of every other property stands in the file."""
PROVIDER = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
_NOT_IN_A_PLACEHOLDER = frozenset(":}")
"""What Kafka's pattern of a placeholder (`ConfigTransformer`) does not allow in a path."""
_NEVER_IN_THE_FILE = frozenset({names.PROTOCOL, names.MECHANISM, "ssl.endpoint.identification.algorithm"})
"""The properties of a connection that need no file, wherever Spark runs."""


class SecretsOutOfReach(VerifierError, ValueError):
    """Spark runs where it cannot read the file with the secrets of the cluster's connection."""

    exit_code = 64


class Location(NamedTuple):
    """Where Spark runs. `shown` is its address for messages. Spark's driver and its executors run on this host, or
    elsewhere."""

    shown: str
    driver_here: bool
    executors_here: bool


def of_master(master: str, deploy_mode: str = "client") -> Location:
    """Returns where a job runs that is submitted to the Spark master at the URL `master`."""
    return Location(master, deploy_mode == "client", deploy_mode == "client" and master.startswith("local"))


def of_server(address: str, master: str = "local") -> Location:
    """Returns where the Spark Connect server at `address` runs. `master`: its Spark master, if it is known already. If
    it is not known, a server on this host counts as one with its executors on this host. If MOUNT is set, no server
    counts as one on this host, because a tunnel may lead from here to a server elsewhere."""
    here = _is_loopback(urlsplit(address).hostname or "") and variables.path(MOUNT) is None
    return Location(address, here, here and master.startswith("local"))


HERE = of_master("local")


def require_within_reach(security: Mapping[str, str], location: Location, workspaces: Path | None = None) -> None:
    """Raises SecretsOutOfReach if Spark at `location` could not read the secrets of a connection with `security`. Call
    it before the load, so that no load is sent in vain.

    `workspaces`: the folder of workspaces of this host, if the connection's files are here. Then also raises the errors
    of `Connection.java_properties`, and SecretsOutOfReach if no placeholder can name a file in that folder.
    """
    if not location.executors_here and names.usual(security).keys() - _NEVER_IN_THE_FILE:
        _mount(location)
    if workspaces is not None and _properties(Connection({}, security), location).keys() - SHOWN:
        _path_in_spark(workspaces / "run" / FILE, location.executors_here, location)


def _properties(connection: Connection, location: Location) -> dict[str, str]:
    """Returns the properties that Spark at `location` needs. If it runs elsewhere, they name no file of this host."""
    if not location.executors_here:
        connection = Connection(connection.brokers, portable.texts(connection.security))
    return connection.java_properties()


@contextmanager
def granted(connection: Connection, workspace: Path, location: Location = HERE) -> Iterator[dict[str, str]]:
    """Yields the options by which Spark's Kafka source at `location` reaches the brokers, while the block runs. None of
    them has a secret. What is secret stands in a file of `workspace`, and is removed after the block.

    If Spark runs elsewhere, keys and certificates are given as texts, because their files are not there. Raises
    SecretsOutOfReach as `require_within_reach` does, and if the path of the file cannot be a placeholder's; the errors
    of `Connection.java_properties`; and FileNotFoundError if the workspace is gone.
    """
    require_within_reach(connection.security, location)
    properties = _properties(connection, location)
    secret = {name: value for name, value in properties.items() if name not in SHOWN}
    file = workspace / FILE
    if secret:
        path = _path_in_spark(file, location.executors_here, location)
        properties |= {name: f"${{file:{path}:{name}}}" for name in secret} | PROVIDER
    try:
        if secret:
            private_files.write(file, javaproperties.dumps(secret, timestamp=False).encode())
        yield {f"kafka.{name}": value for name, value in properties.items()}
    finally:
        file.unlink(missing_ok=True)


def path_in_driver(file: Path, location: Location) -> Path:
    """Returns the path by which Spark's driver at `location` sees `file`, a file in a workspace. Raises
    SecretsOutOfReach as `require_within_reach` does."""
    return file if location.driver_here else _path_in_spark(file, False, location)


def _path_in_spark(file: Path, is_here: bool, location: Location) -> Path:
    path = file if is_here else _mount(location) / file.parent.name / file.name
    if wrong := sorted(_NOT_IN_A_PLACEHOLDER & set(str(path))):
        name = "KDV_WORKSPACES" if is_here else MOUNT
        raise SecretsOutOfReach(f"{name} is {str(path.parent.parent)!r}; allowed: a path without {' '.join(wrong)}")
    return path


def _mount(location: Location) -> Path:
    """Returns the folder of workspaces as Spark at `location` sees it."""
    mount = variables.path(MOUNT)
    remedy = f"mount the folder of workspaces (KDV_WORKSPACES) there, and name the mount's path in {MOUNT}"
    if mount is None:
        raise SecretsOutOfReach(
            f"Spark runs elsewhere ({location.shown}), where it cannot read the file with the secrets of the cluster's "
            f"connection: {remedy}, or use a Spark on this host (local[*])"
        )
    if location.driver_here and not mount.is_dir():
        raise SecretsOutOfReach(
            f"{MOUNT} is {str(mount)!r}, which is no folder of this host, where Spark's driver runs "
            f"({location.shown}): driver and executors must see the workspaces at the same path"
        )
    return mount


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
