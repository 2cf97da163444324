"""Properties: reads and writes text in the syntax of Java's `.properties` files.

The values of connection and security properties are dropped as soon as they are read, so that nobody can see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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

_TRIMMED = "".join(map(chr, range(0x21)))
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


def parse(text: str, field: str) -> dict[str, str]:
    """Maps the name of each property in `text`, which has .properties syntax, to the property's value.

    As in Kafka, surrounding blanks are dropped, and the last value of a repeated name counts.

    The value of a connection or security property becomes an empty text here, before any other code sees the value.
    `field` is the field of the run that the text comes from; messages show it. Raises BadInput for a broken Unicode
    escape, and for a line without a name.
    """
    return {name: "" if is_withheld(name) else value for name, value in entries_of(text, field).items()}


def broken_escape(field: str) -> BadInput:
    """Returns the error for a text with a broken Unicode escape. The message does not show the line with the escape,
    because this line may hold a password."""
    return BadInput(f"{field} has a broken \\u escape: write \\u and four hexadecimal digits")


def entries_of(text: str, field: str) -> dict[str, str]:
    """Returns the properties as `parse` does, but with all values: only for code that sorts them by name, and drops the
    values of connection and security properties itself."""
    try:
        values = javaproperties.loads(text)
    except ValueError:
        raise broken_escape(field) from None
    if any(not name.strip() for name in values):
        raise BadInput(f"{field} has a line without a name; allowed: name=value; put # before what is a comment")
    # Java keeps every sign of a name, and cuts off values what `String.trim` does: no signs beyond U+0020.
    return {name: value.strip(_TRIMMED) for name, value in values.items()}


def text(properties: Mapping[str, object]) -> str:
    """Returns the properties as a text that `parse` reads back."""
    return "\n".join(javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def lines(properties: Mapping[str, object]) -> Iterable[str]:
    """Returns each property as `name=value`. The options --producer-override and --topic-override take this form."""
    return (javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def is_withheld(name: str) -> bool:
    """Whether `name` is a connection or security property. The value of such a property is never kept or shown."""
    return name in CONNECTION_NAMES or name.lower().startswith(SECRET_PREFIXES)
