"""What an operator gives to reach a cluster: Kafka's own options, a cluster by its name (of a file, or of a connection
in Airflow), or a folder with a secret.

`--bootstrap-server`, `--command-config` and `--command-property` are those of Kafka's tools (KIP-1147), with their
precedence: the first beats the last, which beats the file. Files have the encoding of Java's `.properties`, Latin-1.
A folder with a mounted secret (e.g. of Kubernetes) has one file per property, or the files that Strimzi writes for a
user and for a cluster's CA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import javaproperties

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.security import airflow_connections, jaas, names, providers, stores
from delivery_verifier.cluster.security.reading import Access, access_of
from delivery_verifier.host import folders
from delivery_verifier.model import external_cluster
from delivery_verifier.model.inputs import BadInput, bad_input, choice

CONFIG, PROPERTY, SERVER, CLUSTER = "--command-config", "--command-property", "--bootstrap-server", "--cluster"
SUFFIX = ".properties"
MOUNTED = {
    "ca.crt": "ssl.ca.location",
    "user.crt": "ssl.certificate.location",
    "user.key": "ssl.key.location",
    "tls.crt": "ssl.certificate.location",
    "tls.key": "ssl.key.location",
    "username": "sasl.username",
    "password": "sasl.password",
}
"""Maps the names of files in a mounted secret to the properties that they stand for: Strimzi's for a KafkaUser and for
a cluster's CA, and those of Kubernetes for type `kubernetes.io/tls`. Certificates and keys stay in their files;
of the other files the content is the value."""
_PASSED_OVER = frozenset({"user.p12", "user.password", "ca.p12", "ca.password"})
"""Files that Strimzi writes beside those in PEM, with the same content."""
_HOST = re.compile(r"(?:[A-Z_]+://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/,@\[\]]+):([0-9]{1,5})")


def read(
    server: str | None = None, config: str | None = None, properties: Sequence[str] = (), cluster: str | None = None
) -> Access:
    """Returns the access that the four options give. Each may be missing, but not all.

    Raises BadInput, which names the option or the property and shows no secret, if a file is missing, is readable by
    others though it holds a secret, or has a property that is not understood; if a secret stands on the command line;
    and if no server is named. Raises UnsupportedSecurity for what one of the clients cannot use.
    """
    if cluster is not None and config is not None:
        raise BadInput(f"{CLUSTER} and {CONFIG} are both given; allowed: one of the two, because both name a file")
    options = {CONFIG: config, PROPERTY: properties, SERVER: server}
    source = (
        f"{CLUSTER} {cluster}" if cluster is not None else next((name for name in options if options[name]), SERVER)
    )
    if cluster is not None and airflow_connections.is_named(cluster):
        entries = airflow_connections.entries(cluster)
    else:
        path = None if config is None else stores.path_of(CONFIG, config).expanduser()
        entries = _entries(named(cluster) if cluster is not None else path, source)
    entries |= _typed(properties)
    if server is not None:
        entries = {name: value for name, value in entries.items() if name not in ("metadata.broker.list",)}
        entries["bootstrap.servers"] = server
    return access_of(entries, source, addresses)


def named(cluster: str) -> Path:
    """Returns the file of the cluster with the name `cluster`: `NAME.properties` in the folder of connections, or a
    folder `NAME` there. Raises BadInput if there is none."""
    folder = folders.connections_dir()
    if not external_cluster.is_name(cluster):
        raise bad_input(CLUSTER, cluster, "up to 80 of A-Z a-z 0-9 _ . -, the first a letter or digit")
    for path in (folder / f"{cluster}{SUFFIX}", folder / cluster):
        if path.exists():
            return path
    there = sorted(path.stem if path.is_file() else path.name for path in (folder.iterdir() if folder.is_dir() else ()))
    if there:
        choice(CLUSTER, cluster, there, f"write it to {folder}/{cluster}{SUFFIX}, with mode 0600")
    raise bad_input(CLUSTER, cluster, f"a file NAME{SUFFIX} in {folder}, with mode 0600", "there is none yet")


def known_secrets() -> Iterator[str]:
    """Yields the secret values in the files of the folder of connections, whoever's names they have, the passwords
    inside them, and those of Airflow's connections in the environment. A file that cannot be read, or not as
    properties, is passed over: it reaches no cluster either."""
    yield from airflow_connections.known_secrets()
    folder = folders.connections_dir()
    for path in sorted(folder.rglob("*") if folder.is_dir() else ()):
        with suppress(OSError, BadInput):
            entries = _properties(path.read_text("latin-1"), str(path)) if path.is_file() else {}
            for name in names.SECRETS & entries.keys():
                yield entries[name]
                if name == jaas.PROPERTY:
                    yield jaas.read(entries[name])[1].password
            if path.name in names.SECRETS or MOUNTED.get(path.name) in names.SECRETS:
                yield path.read_text("latin-1").strip()


def addresses(servers: str) -> list[Address]:
    """Returns the addresses in `servers`: host:port, separated by commas. Raises BadInput if one is no such address.
    The message shows nothing of what stands before an `@`."""
    listed = list[Address]()
    if "@" in servers:  # a password before it may have commas
        shown = f"(not shown)@{servers.rpartition('@')[2]}"
        remedy = "a user and a password are sasl.username and sasl.password, in a file"
        raise bad_input("bootstrap.servers", shown, "HOST:PORT, separated by commas", remedy)
    for server in (each.strip() for each in servers.split(",")):
        match = _HOST.fullmatch(server)
        if match is None or not 0 < int(match[2]) < 65536:
            raise bad_input("bootstrap.servers", server, "HOST:PORT, separated by commas", "e.g. broker.example:9093")
        listed.append(Address(match[1].strip("[]"), int(match[2])))
    return listed


def _entries(path: Path | None, source: str) -> dict[str, str]:
    if path is None:
        return {}
    if path.is_dir():
        return _mounted(path, source)
    text = stores.content(source, str(path)).decode("latin-1")
    entries = _properties(text, source)
    entries = providers.resolved(entries, source)
    if secrets := sorted(names.SECRETS & entries.keys()):
        stores.require_private(source, path, stores.OWNER_ALONE, secrets)
    return entries


def _properties(text: str, source: str) -> dict[str, str]:
    try:
        return {name.strip(): value.strip() for name, value in javaproperties.loads(text).items()}
    except ValueError:
        raise BadInput(f"{source} has a broken \\u escape: write \\u and four hexadecimal digits") from None


def _mounted(folder: Path, source: str) -> dict[str, str]:
    """Reads a folder with a mounted secret. Kubernetes keeps the files behind links and hidden folders."""
    files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file() and path.name[0] != "."}
    entries = dict[str, str]()
    for name, path in files.items():
        property_name = MOUNTED.get(name, name)
        if name.endswith(SUFFIX):
            entries |= _properties(path.read_text("latin-1"), source)
        elif name in _PASSED_OVER:
            continue
        elif property_name.endswith(".location"):
            entries[property_name] = str(path)
        else:
            entries[property_name] = stores.content(source, str(path)).decode("utf-8", "replace").rstrip("\r\n")
        secret = {property_name, *(entries if name.endswith(SUFFIX) else ())} & {*names.SECRETS, "ssl.key.location"}
        if secret:
            stores.require_private(source, path, stores.OWNER_AND_GROUP, sorted(secret))
    if jaas.PROPERTY in entries:
        entries.pop("sasl.username", None)
        entries.pop("sasl.password", None)  # Strimzi writes the same password into both files
    if jaas.PROPERTY in entries and "ssl.ca.location" in entries:  # beside Java's name one of librdkafka's (MOUNTED)
        login = jaas.read(entries.pop(jaas.PROPERTY))[1]
        entries |= {"sasl.username": login.username, "sasl.password": login.password}
    if not entries:
        raise bad_input(source, str(folder), "a file, or a folder with a mounted secret", "the folder has no files")
    return entries


def _typed(properties: Sequence[str]) -> dict[str, str]:
    entries: Mapping[str, str] = {}
    for each in properties:
        name, separator, value = each.partition("=")
        name = name.strip()
        if not separator or not name:
            raise BadInput(f"{PROPERTY} has a word without a name or an equals sign (not shown); allowed: NAME=VALUE")
        if names.ALIASES.get(name, name) in names.SECRETS:
            raise BadInput(
                f"{PROPERTY} has a value for {name}, which every user of this host could read; "
                f"remedy: put it into a file of mode 0600, and name the file in {CONFIG}"
            )
        entries = {**entries, name: value.strip()}
    return dict(entries)
