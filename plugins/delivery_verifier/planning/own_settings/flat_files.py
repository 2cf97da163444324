"""Files of names and values without a tree, in .properties syntax or as a flat mapping in YAML, TOML or JSON: finds out
by the names whose they are, and reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import connect, known_names, properties, streams, topic, topic_files
from delivery_verifier.planning.own_settings.reading import Reading, Role
from delivery_verifier.planning.own_settings.translation import printable_name

_NAMED = 3
"""The greatest number of names that a message lists."""
_Read = Callable[[Mapping[str, str], Role, str], Reading]
_BY_NAMES: tuple[tuple[Callable[[Mapping[str, str]], bool], _Read], ...] = (
    (connect.is_mirror_maker, connect.mirror_maker),
    (lambda entries: "connector.class" in entries, connect.connector),
    (connect.is_worker, connect.worker),
    (topic_files.is_broker, topic_files.broker),
    (streams.is_streams, streams.read),
)
"""The formats that their names show, each with the function that reads it."""
_NOT_READ: tuple[tuple[str, str], ...] = (
    ("mp.messaging.", "Quarkus"),
    ("quarkus.", "Quarkus"),
    ("micronaut.", "Micronaut"),
    ("kafka.producers.", "Micronaut"),
    ("producer.override.", "a connector without its connector.class"),
    ("producer.", "Kafka Connect or Kafka Streams"),
    ("consumer.", "Kafka Connect or Kafka Streams"),
    ("main.consumer.", "Kafka Streams"),
    ("CONNECT_", "environment variables of Kafka Connect"),
    ("SPRING_", "environment variables of Spring Boot"),
    ("KAFKA_", "environment variables"),
)
"""What the names of a file begin with if they are written for a framework that is not read, or not known."""


def read(entries: Mapping[str, str], role: Role, field: str) -> Reading:
    """Returns the settings of the `role` in a file with the names and values `entries`.

    `field` is the field of the run that names the file; messages show it. Raises BadInput if the format is not known or
    not read.
    """
    for is_format, read_format in _BY_NAMES:
        if is_format(entries):
            return read_format(entries, role, field)
    for prefix, framework in _NOT_READ:
        if named := [name for name in entries if name.startswith(prefix)]:
            raise BadInput(
                f"{field} has names of {framework}, e.g. {printable_name(named[0])}, which are not read; "
                f"give what its {role} has in force, under Kafka's own names, in .properties syntax"
            )
    if len(entries) > 1 and not any(map(_is_kafkas, entries)):  # of a single name, its own refusal says more
        names = ", ".join(printable_name(name) for name in list(entries)[:_NAMED])
        raise BadInput(
            f"{field} has no property of Kafka, so its format is not known ({names}); give .properties syntax"
        )
    reading = Reading()
    reading.put_all(entries)
    return reading


def _is_kafkas(name: str) -> bool:
    """Returns whether the name is one that Kafka's clients may be given, or is spelt like one."""
    known = known_names.owner(name) or known_names.nearest_of_all(name) or topic.RUN_OPTIONS.get(name)
    return bool(known) or properties.is_withheld(name) or known_names.is_serializers(name) or known_names.is_gone(name)
