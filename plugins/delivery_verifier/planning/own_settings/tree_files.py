"""Files in YAML, TOML and JSON: finds out whose they are, and reads them."""

from __future__ import annotations

from collections.abc import Sequence

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import (
    connect,
    flat_files,
    fluent_bit,
    known_names,
    kubernetes,
    other_trees,
    shippers,
    spring,
    spring_documents,
    trees,
)
from delivery_verifier.planning.own_settings.reading import NOT_KNOWN, Reading, Role
from delivery_verifier.planning.own_settings.translation import printable_name

_SARAMA = "whose client is sarama: neither the Java client nor librdkafka, so nothing is promised of this client"
_TOPIC_ALONE = "the topic alone can be verified, with --topic-config"
_OTHER_TREES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a Compose file", ("services",)),
    ("a file of the OpenTelemetry Collector", ("exporters",)),
    ("a file of Quarkus", ("quarkus",)),
    ("a file of Quarkus", ("mp",)),
    ("a file of Micronaut", ("micronaut",)),
    ("a file of Micronaut", ("kafka", "producers")),
)
"""Formats that are not read, each with the keys that show it."""
_NAMED = 3
"""The greatest number of names that a message lists."""


def read(documents: Sequence[trees.Tree], role: Role, field: str) -> Reading:
    """Returns the settings in the documents of one file.

    `field` is the field of the run that names the file; messages show it. Raises BadInput if the format is not known,
    or has no settings of this `role`.
    """
    flat = [trees.flat(document) for document in documents]
    if any(spring.is_spring(document) for document in flat):
        return spring.read(flat, role, field)
    if documents and all(map(kubernetes.is_resource, documents)):
        return kubernetes.read(documents, role, field)
    if len(documents) != 1:
        raise BadInput(f"{field} has {len(documents)} documents; allowed: 1; give the one that holds the settings")
    (document,) = documents
    if any(name.startswith("output.kafka") for name in flat[0]):
        raise BadInput(f"{field} is a file of Filebeat or another Beat, {_SARAMA}; {_TOPIC_ALONE}")
    if (reading := _of_shipper(document, role, field)) is not None:
        return reading
    config = trees.below(document, "config") or document
    if "connector.class" in config:
        return connect.connector(trees.only_scalars(config, field), role, field)
    for what, path in _OTHER_TREES:
        if any(trees.below(document, *path)):
            raise _not_read(field, what)
    if _is_flat(document):
        return flat_files.read(trees.scalars(document), role, field)
    names = ", ".join(printable_name(str(name)) for name in list(document)[:_NAMED])
    if any(other_trees.sets_client(spring_documents.name_path(name), role) for name in flat[0]):
        raise BadInput(
            f"{field} sets a {role} in a tree that is not read ({names}), so what it promises is not known; {NOT_KNOWN}"
        )
    raise _not_read(field, f"a file of no known format (its names at the top: {names}; nothing below spring.kafka)")


def _of_shipper(document: trees.Tree, role: Role, field: str) -> Reading | None:
    if sinks := shippers.vector_sinks(document):
        return shippers.vector(sinks, role, field)
    if (pipeline := fluent_bit.of_tree(document)) is not None:
        return fluent_bit.read(pipeline, role, field)
    if trees.below(document, "outputs").get("kafka"):
        raise BadInput(f"{field} is a file of Telegraf, {_SARAMA}; {_TOPIC_ALONE}")
    return None


def _is_flat(document: trees.Tree) -> bool:
    """Returns whether the document is one mapping of Kafka's own names, as programs in Python or JavaScript have it."""
    return trees.scalars(document).keys() == document.keys() and any(map(known_names.owner, document))


def _not_read(field: str, what: str) -> BadInput:
    return BadInput(f"{field} is {what}, which is not read; give what is in force in .properties syntax")
