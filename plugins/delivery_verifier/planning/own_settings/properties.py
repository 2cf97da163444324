"""Properties: reads and writes text in the syntax of Java's `.properties` files.

The values of connection and security properties are withheld: they are dropped as soon as they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import javaproperties

from delivery_verifier.model.data import setting_text
from delivery_verifier.model.inputs import BadInput

CONNECTION_NAMES = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "bootstrap.resolve.timeout.ms",
        "client.dns.lookup",
        "broker.address.family",
        "broker.address.ttl",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Names of connection properties."""
_UTF_8_MARK = "\u00ef\u00bb\u00bf"
"""UTF-8's byte order mark, decoded as Latin-1."""
SECRET_PREFIXES = (
    "sasl.",
    "ssl.",
    "ssl_",
    "security.",
    "https.",
    "enable.ssl.",
    "enable.sasl.",
    "oauthbearer",
    "config.providers",
    "schema.registry.",
    "basic.auth.",
    "bearer.auth.",
    "confluent.",
)
"""Prefixes of the names of security properties."""


def read_file(path: str, field: str) -> dict[str, str]:
    """Returns the properties of the file at `path`. Java's encoding of such files is Latin-1 with escapes.

    `field` is the field of the run that names the file; messages show it. Raises BadInput if the file cannot be read or
    if `parse` refuses its content.
    """
    try:
        text = Path(path).expanduser().read_bytes().decode("latin-1").removeprefix(_UTF_8_MARK)
    except OSError as error:
        raise BadInput(
            f"{field} is {path!r}: cannot be read ({error.strerror}). Give a file in .properties syntax"
        ) from None
    return parse(text, field)


def parse(text: str, field: str) -> dict[str, str]:
    """Maps the name of each property in `text` to its value.

    As in Kafka, surrounding blanks are dropped, and the last value of a repeated name counts.

    The value of a connection or security property becomes an empty text here, before any other code sees it. `field` is
    the field of the run that the text comes from; messages show it. Raises BadInput for a broken Unicode escape, and
    for a line without a name.
    """
    try:
        values = javaproperties.loads(text)
    except ValueError:  # The error's own message is not shown: it holds the line, which may hold a password.
        raise BadInput(f"{field} has a broken \\u escape: write \\u and four hexadecimal digits") from None
    if any(not name.strip() for name in values):
        raise BadInput(f"{field} has a line without a name; allowed: name=value; put # before what is a comment")
    return {name.strip(): "" if is_withheld(name.strip()) else value.strip() for name, value in values.items()}


def text(properties: Mapping[str, object]) -> str:
    """Returns the properties as a text that `parse` reads back."""
    return "\n".join(javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def lines(properties: Mapping[str, object]) -> Iterable[str]:
    """Returns each property as `name=value`, the form that --producer-override and --topic-override take."""
    return (javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def is_withheld(name: str) -> bool:
    """Whether `name` is a property of connection or security. The value of such a property is never kept or shown."""
    return name in CONNECTION_NAMES or name.lower().startswith(SECRET_PREFIXES)
