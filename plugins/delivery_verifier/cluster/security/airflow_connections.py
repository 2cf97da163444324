"""Connections of Airflow of type `kafka`, as Airflow's own provider has them: `extra` is JSON with librdkafka's names.

`--cluster airflow:CONN_ID` names one. Only this name travels. The provider need not be installed, because nothing of it
is used: its hook would import and run whatever code `extra` names (`error_cb`), and here such names are refused.

A process finds a connection in the first of these places that has it:

* Airflow itself, in a task of Airflow (`use`);
* the workspace of its run, in a process that a task has started (`hand_over`, `take_over`);
* the variable AIRFLOW_CONN_<CONN_ID>, in which Airflow takes JSON or a URI, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import javaproperties

from delivery_verifier.cluster.security import jaas, names
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.host import private_files
from delivery_verifier.model import external_cluster
from delivery_verifier.model.data import setting_text
from delivery_verifier.model.inputs import BadInput, bad_input

PREFIX, TYPE, VARIABLE = external_cluster.AIRFLOW, "kafka", "AIRFLOW_CONN_"
_FILE = "airflow-{}.properties"


class AirflowConnection(NamedTuple):
    """A connection as Airflow has it: its type, and its `extra` as data. The representation shows no value."""

    conn_type: str
    extra: Mapping[str, object]

    def __repr__(self) -> str:
        return f"AirflowConnection({self.conn_type}, {', '.join(sorted(self.extra))})"


Source = Callable[[str], AirflowConnection | None]
"""A function that returns the connection with an id, or None if there is none."""


class _State:
    """What this process knows: whom to ask first, and what the answers were, by id."""

    source: Source | None = None
    workspace: Path | None = None
    known: dict[str, dict[str, str]] = {}


def use(source: Source | None) -> None:
    """Makes this process ask `source` first. A task of Airflow gives a function that asks Airflow."""
    _State.source, _State.known = source, {}


def hand_over(workspace: Path) -> None:
    """Writes the connections that Airflow has given to this process into `workspace`, for the processes that it starts.
    Each file has mode 0600, and goes with the workspace."""
    for conn_id, properties in _State.known.items():
        content = javaproperties.dumps(properties, timestamp=False).encode()
        private_files.write(workspace / _FILE.format(conn_id), content)


def take_over(workspace: Path) -> None:
    """Makes this process find the connections that `hand_over` has written into `workspace`."""
    _State.workspace = workspace


def is_named(cluster: str) -> bool:
    """Returns whether `cluster`, the value of `--cluster`, names a connection of Airflow."""
    return cluster.startswith(PREFIX)


def is_in_environment(cluster: str) -> bool:
    """Returns whether the environment of this process has the connection that `cluster` names."""
    return bool(os.environ.get(_variable(cluster)))


def entries(cluster: str) -> dict[str, str]:
    """Returns the properties of the connection that `cluster` names, under librdkafka's names.

    Raises BadInput, which shows no value, if there is no such connection, or if it has another type or an `extra` that
    is not understood; and UnsupportedSecurity for a name that stands for code.
    """
    conn_id = cluster.removeprefix(PREFIX)
    if not external_cluster.is_name(cluster):
        raise bad_input("--cluster", cluster, f"{PREFIX}CONN_ID, where the id has up to 80 of A-Z a-z 0-9 _ . -")
    connection = _State.source(conn_id) if _State.source is not None else None
    if connection is not None:
        _State.known[conn_id] = properties = _properties(cluster, connection)
        return properties
    file = None if _State.workspace is None else _State.workspace / _FILE.format(conn_id)
    if file is not None and file.is_file():
        return dict(javaproperties.loads(file.read_text("utf-8")))
    variable = _variable(cluster)
    if not (text := os.environ.get(variable)):
        raise bad_input(
            "--cluster", cluster, "a connection that Airflow knows here", f"define it in Airflow, or set {variable}"
        )
    return _properties(cluster, parsed(variable, text))


def parsed(variable: str, text: str) -> AirflowConnection:
    """Returns the connection in `text`, the value of the environment variable `variable`: JSON, or a URI whose query is
    the `extra`. Raises BadInput, which does not show the text, if it is neither."""
    try:
        fields = json.loads(text) if text.lstrip().startswith("{") else _fields_of_uri(text)
    except ValueError:
        raise BadInput(
            f"{variable} cannot be read (its value is not shown); allowed: JSON, "
            'e.g. {"conn_type":"kafka","extra":{"bootstrap.servers":"broker.example:9093"}}, or a URI'
        ) from None
    return stored(variable, str(fields.get("conn_type")), fields.get("extra"))


def stored(origin: str, conn_type: str, extra: object) -> AirflowConnection:
    """Returns the connection that has this type and this `extra`, which Airflow keeps as a text. `origin` begins a
    message. Raises BadInput, which does not show the text, if it is no JSON object."""
    try:
        read = json.loads(extra) if isinstance(extra, str) and extra else extra or {}
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise BadInput(f"{origin}: extra is no JSON object (not shown); allowed: librdkafka's properties as JSON")
    return AirflowConnection(conn_type, read)


def known_secrets() -> Iterator[str]:
    """Yields the secret values of the connections of type `kafka` in the environment, and the passwords inside them. A
    connection that cannot be read is passed over: it reaches no cluster either."""
    for variable, text in os.environ.items():
        with suppress(BadInput):
            if variable.startswith(VARIABLE) and (connection := parsed(variable, text)).conn_type == TYPE:
                yield from secrets_of(connection)


def secrets_of(connection: AirflowConnection) -> Iterator[str]:
    """Yields the secret values in `connection`, and the password inside a JAAS configuration."""
    for name in sorted(names.SECRETS & connection.extra.keys()):
        yield str(connection.extra[name])
        if name == jaas.PROPERTY:
            with suppress(BadInput):
                yield jaas.read(str(connection.extra[name]))[1].password


def _variable(cluster: str) -> str:
    return f"{VARIABLE}{cluster.removeprefix(PREFIX).upper()}"


def _fields_of_uri(text: str) -> dict[str, object]:
    parts = urlsplit(text)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return {"conn_type": parts.scheme, "extra": query.get("__extra__", query)}


def _properties(cluster: str, connection: AirflowConnection) -> dict[str, str]:
    if connection.conn_type != TYPE:
        raise bad_input(f"the type of the connection {cluster}", connection.conn_type, TYPE)
    properties = dict[str, str]()
    for name, value in connection.extra.items():
        if name.endswith("_cb"):
            raise UnsupportedSecurity(f"{cluster}: {name} names code, which is never loaded here; leave it out")
        if not isinstance(value, str | int | float | bool):
            raise BadInput(f"{cluster}: {name} is no text and no number (not shown); allowed: one value per property")
        properties[name] = setting_text(value) if isinstance(value, bool) else str(value)
    return properties
