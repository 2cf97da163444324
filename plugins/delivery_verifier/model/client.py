"""The clients: the libraries that send the records of a run, and their versions.

Everything that says which clients there are stands here: what a user may name, and what a reserved word means.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier.model.inputs import BadInput, bad_input, nearest

Client = Literal["librdkafka", "java"]
"""A client library: one that sends the records of an arm, or one for which somebody wrote settings."""


class ClientKind(Struct, frozen=True, kw_only=True):
    """What a run knows of a client library.

    * `title`: its name in sentences and tables.
    * `versions`: the versions that an arm can have.
    * `default`: the version of an arm that names none. Empty: the one that is installed with this project.
    * `installed`: the version that is installed with this project. Empty: none is.
    """

    title: str
    versions: tuple[str, ...]
    default: str = ""
    installed: str = ""


CLIENTS: dict[Client, ClientKind] = {
    "librdkafka": ClientKind(title="librdkafka", versions=("2.13.0", "2.13.2", "2.16.0"), installed="2.16.0"),
    "java": ClientKind(title="Java", versions=("3.9.2", "4.1.1", "4.1.2", "4.3.1", "4.4.0"), default="4.3.1"),
}
"""What a run knows of each client library. librdkafka 2.16.0 is that of confluent-kafka 2.16.1."""

JAVA_NAMES = {
    "socket.timeout.ms": "request.timeout.ms",
    "message.max.bytes": "max.request.size",
    "queue.buffering.max.kbytes": "buffer.memory",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "batch.num.messages": "batch.size",
}
"""Maps each setting of librdkafka that has another name in the Java client, and perhaps another unit, to this name.
Other settings have the same name in both, or are one client's alone."""

RESERVED = {
    "rust": "Confluent has announced confluent-kafka 4 on a core in Rust, under the package name of today's client. "
    "No run has used it, so no rule of the contract is known to hold for it",
}
"""Words that name no client yet, each with the reason."""

_WRITTEN = re.compile(r"([a-z]+)(?::([0-9]+(?:\.[0-9]+)*))?")


class VersionedClient(Struct, frozen=True):
    """A client as a run uses it: the library, and its version. `version` is empty for the installed one."""

    client: Client = "librdkafka"
    version: str = ""

    @property
    def text(self) -> str:
        """The client as a user names it, e.g. `java:4.3.1`."""
        return f"{self.client}:{self.version}" if self.version else self.client

    @property
    def words(self) -> str:
        """The client in sentences and tables, e.g. `Java 4.3.1`."""
        return f"{CLIENTS[self.client].title} {self.version}".rstrip()


def versioned(client: Client, version: str) -> VersionedClient:
    """Returns the client of an arm that has these two fields. An empty `version` is the default one."""
    return VersionedClient(client, version or CLIENTS[client].default)


def parse(text: str, field: str) -> tuple[VersionedClient, ...]:
    """Returns the clients in `text`, e.g. `librdkafka,java:4.1.1`, in its order. Raises BadInput, which shows `field`,
    for a name or a version that no run can have, and for a client that is named twice."""
    chosen = [_parse_one(word.strip(), field) for word in text.split(",")]
    if len({(each.client, each.version or CLIENTS[each.client].installed) for each in chosen}) < len(chosen):
        raise BadInput(f"{field} is {text!r}, which names one client twice; allowed: each client and version once")
    return tuple(chosen)


def _parse_one(word: str, field: str) -> VersionedClient:
    match = _WRITTEN.fullmatch(word)
    name, version = (match[1], match[2] or "") if match else (word, "")
    if name in RESERVED:
        raise BadInput(f"{field} is {word!r}, a reserved word: {RESERVED[name]}; allowed: {', '.join(CLIENTS)}")
    for client in get_args(Client):
        if client == name:
            _require_version(client, version, word, field)
            return versioned(client, version)
    near = nearest(name, CLIENTS)
    raise bad_input(
        field, word, f"{', '.join(CLIENTS)}, also with a version: java:4.1.1", f"did you mean {near}?" if near else ""
    )


def _require_version(client: Client, version: str, word: str, field: str) -> None:
    versions = CLIENTS[client].versions
    if version and version not in versions:
        named = ", ".join(f"{client}:{each}" for each in versions)
        raise BadInput(f"{field} is {word!r}, a version that no run can have; allowed: {named}")


def require_possible(client: Client, version: str, where: str) -> None:
    """Raises BadInput, which shows `where`, if an arm cannot have `version` of `client`."""
    if version:
        _require_version(client, version, f"{client}:{version}", where)
