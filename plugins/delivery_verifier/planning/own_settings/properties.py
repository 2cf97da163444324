"""Properties: reads and writes text in the syntax of Java's `.properties` files, and reads files of Spring Boot.

The values of connection and security properties are dropped as soon as they are read, so that nobody can see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import javaproperties

from delivery_verifier.model.data import setting_text
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import spring

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
    """Returns the properties of the file at `path`, under the names of the Kafka client (see `client_settings`).

    Java's encoding of .properties files is Latin-1 with escapes. A file that ends with .yml or .yaml is read as YAML.
    `field` is the field of the run that names the file; messages show it. Raises BadInput if the file cannot be read or
    its content is refused.
    """
    is_yaml = path.lower().endswith((".yml", ".yaml"))
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise BadInput(
            f"{field} is {path!r}: cannot be read ({error.strerror}). Give a file in .properties syntax, or an "
            "application.yml of Spring Boot"
        ) from None
    if not is_yaml:
        return client_settings(content.decode("latin-1").removeprefix(_UTF_8_MARK), field)
    entries = spring.flat(content.decode("utf-8", "replace"), field)
    if not spring.is_spring(entries):
        raise BadInput(f"{field} is {path!r}, which has nothing below {spring.PREFIX[:-1]}. Give .properties syntax")
    return _of_spring(entries, field)


def client_settings(text: str, field: str) -> dict[str, str]:
    """Returns the properties of `text`, which has .properties syntax, under the names of the Kafka client.

    In a text of Spring Boot, the properties below `spring.kafka` count (see `spring`). The value of a connection or
    security property becomes an empty text. `field`: as in `parse`. Raises BadInput if the text is refused.
    """
    entries = _entries(text, field)
    if spring.is_spring(entries):
        entries = spring.merged(_entries(document, field) for document in spring.documents_of(text))
    return _of_spring(entries, field) if spring.is_spring(entries) else _without_secrets(entries)


def _of_spring(entries: Mapping[str, str], field: str) -> dict[str, str]:
    """Returns the Kafka client's settings in the properties of a Spring Boot file. Raises BadInput for a
    placeholder."""
    settings = _without_secrets(spring.client_properties(entries, _role(field)))
    spring.refuse_placeholders(settings, field)
    return settings


def _role(field: str) -> spring.Role:
    """Returns `producer` or `consumer`: whose settings the file holds that the field `field` names.

    Raises BadInput for a file with topic settings, because Spring Boot has no topic settings.
    """
    if field == "topic_config":
        raise BadInput("topic_config names a file of Spring Boot, which has no topic settings. Give .properties syntax")
    return "consumer" if field == "consumer_config" else "producer"


def parse(text: str, field: str) -> dict[str, str]:
    """Maps the name of each property in `text`, which has .properties syntax, to the property's value.

    As in Kafka, surrounding blanks are dropped, and the last value of a repeated name counts.

    The value of a connection or security property becomes an empty text here, before any other code sees the value.
    `field` is the field of the run that the text comes from; messages show it. Raises BadInput for a broken Unicode
    escape, and for a line without a name.
    """
    return _without_secrets(_entries(text, field))


def broken_escape(field: str) -> BadInput:
    """Returns the error for a text with a broken Unicode escape. The message does not show the line with the escape,
    because this line may hold a password."""
    return BadInput(f"{field} has a broken \\u escape: write \\u and four hexadecimal digits")


def _entries(text: str, field: str) -> dict[str, str]:
    try:
        values = javaproperties.loads(text)
    except ValueError:
        raise broken_escape(field) from None
    if any(not name.strip() for name in values):
        raise BadInput(f"{field} has a line without a name; allowed: name=value; put # before what is a comment")
    return {name.strip(): value.strip() for name, value in values.items()}


def _without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: "" if is_withheld(name) else value for name, value in properties.items()}


def text(properties: Mapping[str, object]) -> str:
    """Returns the properties as a text that `parse` reads back."""
    return "\n".join(javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def lines(properties: Mapping[str, object]) -> Iterable[str]:
    """Returns each property as `name=value`. The options --producer-override and --topic-override take this form."""
    return (javaproperties.join_key_value(name, setting_text(value)) for name, value in properties.items())


def is_withheld(name: str) -> bool:
    """Whether `name` is a connection or security property. The value of such a property is never kept or shown."""
    return name in CONNECTION_NAMES or name.lower().startswith(SECRET_PREFIXES)
