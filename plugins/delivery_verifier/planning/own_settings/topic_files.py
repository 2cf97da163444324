"""Topic settings in the files that people have: of brokers, of Strimzi, and what Kafka's tools print.

Source of a broker's names: `ServerTopicConfigSynonyms` of Apache Kafka (see `known_names.topic_of_broker`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import known_names, trees
from delivery_verifier.planning.own_settings.reading import Reading, Role
from delivery_verifier.planning.own_settings.topic import RUN_OPTIONS

BROKER_NAMES = frozenset(
    "process.roles broker.id node.id log.dirs log.dir zookeeper.connect controller.quorum.voters".split()
)
"""Names that only a broker's file has."""
_DESCRIBED = re.compile(r"^(?:Dynamic|All) configs for topic (\S+) are:", re.MULTILINE)
_DYNAMIC = re.compile(r"^Dynamic configs for topic ", re.MULTILINE)
_BETWEEN_CONFIGS = re.compile(r",(?=[a-z][\w.]*=)")
"""Matches a comma between two settings of a topic. A value may have commas, too."""
_CONFIG = re.compile(r"^\s+([a-z][\w.]*)=(.*?) sensitive=(?:true|false)", re.MULTILINE)
_TOPIC = re.compile(
    r"^Topic:\s*(\S+)\s.*PartitionCount:\s*(?P<partitions>\d+)\s+ReplicationFactor:\s*(?P<replicas>\d+)"
    r"\s+Configs:[ \t]*(?P<configs>\S*)",
    re.MULTILINE,
)


def is_broker(names: Iterable[str]) -> bool:
    """Returns whether the names are those of a broker's server.properties."""
    return any(name in BROKER_NAMES for name in names)


def is_described(text: str) -> bool:
    """Returns whether `text` is what `kafka-configs --describe` or `kafka-topics --describe` prints of a topic."""
    return bool(_DESCRIBED.search(text) or _TOPIC.search(text))


def broker(entries: Mapping[str, str], role: Role, field: str) -> Reading:
    """Returns the settings that a topic has by default on brokers with these properties. Raises BadInput for another
    role."""
    _require_topic(role, field, "a broker's configuration")
    reading = Reading()
    of_topic = known_names.topic_of_broker()
    for name, (known, factor) in of_topic.items():  # the first name of a topic property comes first, as in Kafka
        if name in entries and known not in reading.settings:
            reading.put(known, _times(entries[name], factor))
    reading.put_all({name: value for name, value in entries.items() if name in RUN_OPTIONS})
    others = [name for name in entries if name not in of_topic and name not in RUN_OPTIONS]
    reading.leave_out(others, "the broker's own: no default of a topic")
    reading.notes.append("the defaults of these brokers: a topic that has settings of its own has other ones")
    return reading


def strimzi_topic(document: Mapping[str, Any], role: Role, field: str) -> Reading:
    """Returns the settings of Strimzi's KafkaTopic. Raises BadInput for another role."""
    _require_topic(role, field, "a KafkaTopic of Strimzi")
    reading = Reading()
    spec = trees.below(document, "spec")
    reading.put_all(trees.scalars(trees.below(spec, "config")))
    sizes = {"partitions": spec.get("partitions"), "replication.factor": spec.get("replicas")}
    reading.put_all({name: value for name, value in sizes.items() if value is not None})
    return reading


def described(text: str, role: Role, field: str) -> Reading:
    """Returns the topic settings in the output of Kafka's tools (see `is_described`). Raises BadInput for another role,
    and for several topics."""
    _require_topic(role, field, "the description of a topic")
    topics = [match[1] for pattern in (_DESCRIBED, _TOPIC) for match in pattern.finditer(text)]
    if len(topics) != 1:
        raise BadInput(
            f"{field} describes {len(topics)} topics; allowed: 1; describe one with --entity-name or --topic"
        )
    reading = Reading()
    reading.put_all({name: value for name, value in _CONFIG.findall(text) if not name.startswith("internal.")})
    if _DYNAMIC.search(text):
        reading.notes.append(
            "kafka-configs printed the topic's own settings alone: what the brokers' configuration sets for all topics "
            "would count before Kafka's own defaults; describe the topic with --all to see it"
        )
    if match := _TOPIC.search(text):
        pairs = (pair.partition("=") for pair in _BETWEEN_CONFIGS.split(match["configs"]) if pair)
        reading.put_all({name: value for name, _, value in pairs})
        reading.put_all({"partitions": match["partitions"], "replication.factor": match["replicas"]})
    return reading


def _times(value: str, factor: int) -> str:
    return str(int(value) * factor) if factor != 1 and value.strip().isdecimal() else value


def _require_topic(role: Role, field: str, what: str) -> None:
    if role != "topic":
        raise BadInput(f"{field} is {what}, which has no {role} settings; name it by --topic-config")
