"""Topic properties of the user's own: the translation, and tables that say what happens to each known property.

Source: `LogConfig` of Apache Kafka 4.0.2 to 4.4.0. A name that is in none of these tables is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.planning.own_settings import known_names, values
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.translation import (
    WITHHELD,
    Translation,
    defaults_in_words,
    printable_name,
)

_INTS = """
    compression.gzip.level compression.lz4.level compression.zstd.level delete.retention.ms file.delete.delay.ms
    flush.messages flush.ms index.interval.bytes max.compaction.lag.ms max.decompressed.message.bytes max.message.bytes
    message.timestamp.after.max.ms message.timestamp.before.max.ms min.compaction.lag.ms min.insync.replicas
    segment.bytes segment.index.bytes segment.jitter.ms segment.ms
    """
_BOOLEANS = "preallocate unclean.leader.election.enable errors.deadletterqueue.group.enable"

EXERCISED: dict[str, values.Kind] = {
    **dict.fromkeys(_INTS.split(), "int"),
    **dict.fromkeys(_BOOLEANS.split(), "bool"),
    **dict.fromkeys(("compression.type", "message.timestamp.type"), "text"),
    "min.cleanable.dirty.ratio": "float",
}
"""The properties that the topics under test can have, each with the kind of its value."""

SINCE = {"errors.deadletterqueue.group.enable": (4, 4), "max.decompressed.message.bytes": (4, 4)}
"""Topic properties that are newer than Kafka 4.0, each with the first Kafka version (major, minor) that knows it."""

_EXPIRY = "the topics of a run keep everything: what expired could not be distinguished from what was lost"
_TIERED = "the cluster under test has no tiered storage"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("retention.ms", "retention.bytes"), _EXPIRY),
    **dict.fromkeys(
        (
            "local.retention.ms",
            "local.retention.bytes",
            "remote.copy.lag.bytes",
            "remote.copy.lag.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
        ),
        _TIERED,
    ),
    **dict.fromkeys(
        ("message.format.version", "message.downconversion.enable", "message.timestamp.difference.max.ms"),
        "gone since Kafka 4.0",
    ),
    **dict.fromkeys(
        ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
        "it names brokers of another cluster",
    ),
}
"""Topic properties that the verifier leaves out, each with the reason."""

RUN_OPTIONS = {
    **dict.fromkeys(("replication.factor", "default.replication.factor"), "--replication-factor"),
    **dict.fromkeys(("partitions", "num.partitions"), "--partitions"),
}
"""What a topic is created with, and the option of a run that takes it. The first names are those that people write into
files of topic settings; the others are a broker's defaults."""

ONE_REPLICA = (
    "cannot be shown with one replica: that a record survives the loss of its broker. acks=all is the word of the "
    "leader alone here, and HELD says that the broker still had its records when it came back"
)
"""What the settings of a topic with one replica do not promise, whatever else they say."""

ONLY_VALUE = {"cleanup.policy": "delete", "remote.storage.enable": "false"}
"""Topic properties for which only one value is allowed. The topics under test have this value anyway."""

DEFAULTS: dict[str, Setting] = {
    "min.insync.replicas": 1,
    "unclean.leader.election.enable": False,
    "flush.messages": 9223372036854775807,
}
"""A broker's defaults for the topic properties that matter for delivery."""


def translate(properties: Mapping[str, str]) -> Translation:
    """Returns the translation of the given topic properties. Raises BadInput, whose message names the refused
    property."""
    translation = Translation()
    for name, text in properties.items():
        if name in LEFT_OUT:
            translation.leave_out(name, LEFT_OUT[name])
        elif name in ONLY_VALUE:
            _require_only_value(name, text)
            translation.leave_out(name, "the topics under test have it already")
        elif name in EXERCISED:
            translation.put(name, values.checked(name, text, EXERCISED[name]), name)
        elif name in RUN_OPTIONS:
            value = text if text.isdecimal() else "NUMBER"
            translation.leave_out(name, f"a run takes it as an option: {RUN_OPTIONS[name]} {value}")
            if name.endswith("replication.factor") and value == "1":
                translation.notes.append(f"{ONE_REPLICA}. What follows is said of a topic with several replicas")
        elif is_withheld(name):
            translation.leave_out(name, WITHHELD)
        else:
            raise BadInput(f"{printable_name(name)} is no topic property of Kafka{_hint(name)}")
    return translation


def check_each(properties: Mapping[str, str], errors: ValidationErrors) -> None:
    """Adds an error to `errors` for each of the topic properties that is refused."""
    for name, text in properties.items():
        with errors:
            translate({name: text})


def with_defaults(translation: Translation) -> Translation:
    """Returns the translation, completed by Kafka's own defaults and by a note that lists these defaults."""
    defaults = {name: value for name, value in DEFAULTS.items() if name not in translation.settings}
    note = f"Kafka's own defaults fill the gaps of the topic: {defaults_in_words(defaults)}"
    return Translation({**defaults, **translation.settings}, translation.left_out, [*translation.notes, note])


def check_names(names: Iterable[str]) -> None:
    """Raises BadInput if a name is not in EXERCISED. Runs cannot use a topic property with such a name."""
    for name in names:
        if name not in EXERCISED:
            hint = known_names.hint(name, EXERCISED)
            raise BadInput(f"{printable_name(name)} is no topic property that can be verified{hint}")


def check_version(names: Iterable[str], kafka_version: str) -> None:
    """Raises BadInput if brokers of `kafka_version` are too old to know one of the topic properties `names`."""
    version = tuple(int(part) for part in kafka_version.split(".")[:2])
    for name in names:
        since = SINCE.get(name, version)
        if since > version:
            raise BadInput(
                f"{name} is unknown to Kafka {kafka_version}: it exists since {since[0]}.{since[1]}; leave it out"
            )


def _hint(name: str) -> str:
    """Returns the end of the error message about `name`, which is no topic property (see `known_names.hint`). Of a
    broker's property that is the default of a topic's one, it names the topic's."""
    if name in known_names.topic_of_broker():
        return f", but a broker's: a topic has {known_names.topic_of_broker()[name][0]}"
    return known_names.hint(name, (*EXERCISED, *LEFT_OUT, *ONLY_VALUE))


def _require_only_value(name: str, text: str) -> None:
    """Raises BadInput if `text` is not the only value that the verifier allows for the property `name`."""
    allowed = ONLY_VALUE[name]
    if text != allowed:
        raise BadInput(
            f"{name} is {text!r}; allowed: {allowed}. What a topic removes on purpose cannot be distinguished from "
            "what "
            "was lost; leave it out to verify the rest"
        )
