"""Properties: names and values out of text in the syntax of Java's `.properties`, and names whose values stay
secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import javaproperties

from delivery_verifier.model.inputs import BadInput

CONNECTION = frozenset(
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
    """The properties of a file, in Java's own encoding for them (Latin-1 and escapes). Raises BadInput."""
    try:
        text = Path(path).expanduser().read_bytes().decode("latin-1").removeprefix("\u00ef\u00bb\u00bf")  # UTF-8's mark
    except OSError as error:
        raise BadInput(
            f"{field} is {path!r}: cannot be read ({error.strerror}). Give a file in .properties syntax"
        ) from None
    return parse(text, field)


def parse(text: str, field: str) -> dict[str, str]:
    """Names and values, without blanks around them, as Kafka reads them; of one name given twice the last counts.

    The value of a connection or security name is dropped here, before anything else sees it. Raises BadInput.
    """
    try:
        found = javaproperties.loads(text)
    except ValueError:  # the message holds the line, and the line may hold a password
        raise BadInput(f"{field} has a broken \\u escape: write \\u and four hexadecimal digits") from None
    if any(not name.strip() for name in found):
        raise BadInput(f"{field} has a line without a name; allowed: name=value; put # before what is a comment")
    return {name.strip(): "" if is_withheld(name.strip()) else value.strip() for name, value in found.items()}


def text(properties: Mapping[str, object]) -> str:
    """The properties as text that `parse` reads back."""
    return "\n".join(javaproperties.join_key_value(name, _plain(value)) for name, value in properties.items())


def lines(properties: Mapping[str, object]) -> Iterable[str]:
    """`name=value` for each, as --producer-override takes it."""
    return (javaproperties.join_key_value(name, _plain(value)) for name, value in properties.items())


def is_withheld(name: str) -> bool:
    """Whether `name` says how to reach a cluster or who one is there: its value is never kept nor shown."""
    return name in CONNECTION or name.lower().startswith(SECRET_PREFIXES)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
