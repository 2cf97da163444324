"""Spring Boot's configuration files: finds the settings of the Kafka client in an application.yml or
application.properties.

Spring Boot has its own names for the client's settings: `spring.kafka.producer.batch-size` is batch.size. Settings
below `properties` have Kafka's own names. Source: Spring Boot reference, "Apache Kafka Support", and `KafkaProperties`,
whose docstrings name each setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from delivery_verifier.model.inputs import BadInput

Role = Literal["producer", "consumer"]
PREFIX = "spring.kafka."
"""Every property of Spring Boot that is for Kafka begins with this prefix."""
RENAMED = {
    "transaction.id.prefix": "transactional.id",
    "auto.commit.interval": "auto.commit.interval.ms",
    "fetch.max.wait": "fetch.max.wait.ms",
    "fetch.min.size": "fetch.min.bytes",
    "heartbeat.interval": "heartbeat.interval.ms",
    "max.poll.interval": "max.poll.interval.ms",
}
"""Spring Boot's names, with dots, whose Kafka property has another name."""
SIZES = frozenset({"batch.size", "buffer.memory", "fetch.min.bytes"})
"""The properties for which Spring Boot takes a size with a unit, e.g. 16KB."""
_SECTIONS = ("properties", "security", "ssl", "jaas", "admin", "streams", "listener", "template", "retry")
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_TIMES = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SIZE = re.compile(r"([0-9]+)(B|KB|MB|GB)")
_TIME = re.compile(r"([0-9]+)(ms|s|m|h)")
_DOCUMENT = re.compile(r"^[#!]---[ \t\r]*$", re.MULTILINE)
_BELOW_PROPERTIES = re.compile(r"properties(?:\.|(?=\[))\[?(?P<name>[^\[\]]+)\]?")


def is_spring(properties: Mapping[str, str]) -> bool:
    """Returns whether at least one of the properties is one of Spring Boot for Kafka, that is, has a name that begins
    with PREFIX."""
    return any(name.startswith(PREFIX) for name in properties)


def flat(text: str, field: str) -> dict[str, str]:
    """Returns the properties of a YAML text. The name of a property is its path of keys, joined with dots.

    Leaves out documents that apply only under a condition (see `_is_conditional`). `field` is the field of the run that
    names the file; messages show it. Raises BadInput if the text is not YAML, or is not a mapping.
    """
    import yaml

    flattened = []
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise BadInput(f"{field} is no valid YAML{where}. Give an application.yml, or .properties syntax") from None
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise BadInput(f"{field} holds no mapping of names to values. Give an application.yml")
        flattened.append(dict(_paths(document)))
    return merged(flattened)


def documents_of(text: str) -> list[str]:
    """Splits the text of an application.properties file into its documents. A line `#---` or `!---` ends a document
    (Spring Boot reference, "Working With Multi-Document Files")."""
    return _DOCUMENT.split(text)


def merged(documents: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Returns the properties of all documents together. If a name occurs more than once, the last value counts. Leaves
    out documents that apply only under a condition (see `_is_conditional`)."""
    properties: dict[str, str] = {}
    for document in documents:
        if not _is_conditional(document):
            properties |= document
    return properties


def _is_conditional(entries: Mapping[str, str]) -> bool:
    """Returns whether only one of Spring's profiles activates a document with these properties."""
    return any(map(is_condition, entries))


def is_condition(name: str) -> bool:
    """Returns whether the property says which of Spring's profiles activate a document."""
    return name == "spring.profiles" or name.startswith("spring.config.activate.")


def client_properties(properties: Mapping[str, str], role: Role) -> dict[str, str]:
    """Returns the settings of the producer or the consumer under Kafka's own names. Spring Boot uses the Java client.

    * A setting of the producer or consumer replaces a setting that is common to all clients.
    * A setting below `properties` replaces the same setting under Spring's own name.
    * If the file names no serializer for keys, a producer gets StringSerializer, as in Spring Boot. If the file names
      no deserializer for keys, a consumer gets StringDeserializer.
    * If the file does not set enable.auto.commit, a consumer gets the value false, as in Spring for Apache Kafka since
      version 2.3 (its reference, "Committing Offsets").
    """
    client = "org.apache.kafka.common.serialization.String"
    settings = (
        {"key.serializer": f"{client}Serializer"}
        if role == "producer"
        else {"key.deserializer": f"{client}Deserializer", "enable.auto.commit": "false"}
    )
    for section in ("", f"{role}."):
        below = {name for name in properties if name.startswith(f"{PREFIX}{section}properties")}
        for name, value in sorted(properties.items(), key=lambda item: item[0] in below):
            if (known := _kafka_name(name, section)) is not None:
                settings[known] = _plain(known, value)
    return settings


def refuse_placeholders(properties: Mapping[str, str], field: str) -> None:
    """Raises BadInput if a value has a placeholder of Spring, e.g. `${ACKS}`. The message names the property."""
    for name, value in properties.items():
        if "${" in value:
            raise BadInput(f"{field}: {name} is a placeholder of Spring (${{...}}). Write the value in its place")


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields each value below `value` with its path of keys. Drops the brackets around a key. (Spring needs brackets
    for keys with dots.)"""
    if isinstance(value, dict):
        for key, inner in value.items():
            name = str(key).removeprefix("[").removesuffix("]")
            yield from _paths(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield path, ",".join(str(item) for item in value)
    elif value is not None:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)


def _kafka_name(name: str, section: str) -> str | None:
    """Returns Kafka's name for the property `name`, or None if the property does not belong to `section`."""
    if not name.startswith(PREFIX + section):
        return None
    rest = name.removeprefix(PREFIX + section)
    if below := _BELOW_PROPERTIES.fullmatch(rest):
        return below["name"]
    if not section or rest.split(".")[0] in _SECTIONS:
        return "bootstrap.servers" if rest == "bootstrap-servers" else None
    dotted = rest.replace("-", ".")
    return RENAMED.get(dotted, dotted)


def _plain(name: str, value: str) -> str:
    """Returns `value` as the Kafka client expects it: a size in bytes and a time in ms, without the unit that Spring
    allows, and the value of isolation.level in Kafka's spelling. Any other value stays as it is."""
    if name in SIZES and (size := _SIZE.fullmatch(value)):
        return str(int(size[1]) * _UNITS[size[2]])
    if name == "isolation.level":  # Spring binds the value to an enum, in any of these forms
        return value.lower().replace("-", "_")
    if name.endswith(".ms") and (time := _TIME.fullmatch(value)):
        return str(int(time[1]) * _TIMES[time[2]])
    return value
