"""Properties: text in the syntax of Java's `.properties` is read and written, and some names' values are withheld."""

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
_UTF_8_MARK = "\u00ef\u00bb\u00bf"
"""UTF-8's byte order mark, as Latin-1 reads it."""
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


def read_file(path: str, field: str) -> dict[str, str]:
    """The properties of a file in Java's own encoding for them (Latin-1 and escapes). Raises BadInput.

    `field` is the field of the run that names the file, for the message.
    """
    try:
        text = Path(path).expanduser().read_bytes().decode("latin-1").removeprefix(_UTF_8_MARK)
    except OSError as error:
        raise BadInput(
            f"{field} is {path!r}: cannot be read ({error.strerror}). Give a file in .properties syntax"
        ) from None
    return parse(text, field)


def parse(text: str, field: str) -> dict[str, str]:
    """Values by name, both stripped of blanks, as Kafka reads them. The last value of a repeated name counts.

    The value of a connection or security property is dropped here, before any other code sees it. `field` is the field
    of the run that the text comes from, for the message. Raises BadInput.
    """
    try:
        values = javaproperties.loads(text)
    except ValueError:  # The error's own message holds the line, and the line may hold a password.
        raise BadInput(f"{field} has a broken \\u escape: write \\u and four hexadecimal digits") from None
    if any(not name.strip() for name in values):
        raise BadInput(f"{field} has a line without a name; allowed: name=value; put # before what is a comment")
    return {name.strip(): "" if is_withheld(name.strip()) else value.strip() for name, value in values.items()}


def text(properties: Mapping[str, object]) -> str:
    """The properties as a text that `parse` reads back."""
    return "\n".join(javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def lines(properties: Mapping[str, object]) -> Iterable[str]:
    """Each property as `name=value`, as --producer-override takes it."""
    return (javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def is_withheld(name: str) -> bool:
    """Whether `name` is about connection or security. Its value is then never kept and never shown."""
    return name in CONNECTION_NAMES or name.lower().startswith(SECRET_PREFIXES)
