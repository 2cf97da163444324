"""Consumer properties of the user's own: tables of all known names, and the translation. Only `kdv explain` uses these
properties. No run uses them.

Sources: `ConsumerConfig` of Apache Kafka 4.0.2 to 4.4.0, and librdkafka 2.16's own list of its properties
(`rd_kafka_conf_properties_show`). A name that is in none of these tables is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import client_values, known_names, producer_names, values
from delivery_verifier.planning.own_settings.producer_names import NOT_DELIVERY
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.translation import WITHHELD, Translation, printable_name

SAME = {"fetch.max.wait.ms": "fetch.wait.max.ms", "fetch.message.max.bytes": "max.partition.fetch.bytes"}
"""Maps another name of a property to the property's main name in librdkafka. fetch.max.wait.ms is Java's name.
fetch.message.max.bytes is a second name in librdkafka."""

OWN = frozenset(
    """
    group.id group.instance.id group.protocol group.remote.assignor partition.assignment.strategy session.timeout.ms
    heartbeat.interval.ms max.poll.interval.ms enable.auto.commit auto.commit.interval.ms enable.auto.offset.store
    auto.offset.reset isolation.level fetch.min.bytes fetch.max.bytes fetch.wait.max.ms fetch.max.wait.ms
    fetch.error.backoff.ms fetch.queue.backoff.ms max.partition.fetch.bytes fetch.message.max.bytes check.crcs
    queued.min.messages queued.max.messages.kbytes enable.partition.eof allow.auto.create.topics
    coordinator.query.interval.ms group.protocol.type max.poll.records default.api.timeout.ms request.timeout.ms
    exclude.internal.topics key.deserializer value.deserializer
    """.split()
)
"""Names of consumer properties, in the Java client or in librdkafka. SHARED has more names of consumer properties."""

JAVA_ONLY: dict[str, str] = {
    "max.poll.records": "librdkafka hands over records one by one",
    "default.api.timeout.ms": "librdkafka takes a timeout per call",
    "request.timeout.ms": "librdkafka's consumer has socket.timeout.ms",
    "exclude.internal.topics": "librdkafka has no such filter",
    "key.deserializer": NOT_DELIVERY,
    "value.deserializer": NOT_DELIVERY,
    "interceptor.classes": producer_names.LEFT_OUT["interceptor.classes"],
    "max.block.ms": "a producer's property: a consumer does not use it",
}
"""Maps a property of the Java client to the reason why the translation leaves it out.

librdkafka's consumer lacks these properties. Some reasons say what librdkafka has instead.
"""

OLD_CONSUMER = dict.fromkeys(
    (
        "auto.commit.enable",
        "consume.callback.max.messages",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
    ),
    "librdkafka's consumer without a group has it; a consumer with a group does not use it",
)
"""Properties of librdkafka's consumer without a group, each with the reason why the translation leaves it out."""

SHARED = {
    name
    for name in producer_names.EXERCISED
    if name.startswith(("socket.", "reconnect.", "metadata.", "topic.", "connections.", "receive.", "retry."))
}
"""Properties that a consumer shares with a producer, under librdkafka's names."""

_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "cooperative-sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""Maps Java's classes for partition.assignment.strategy to librdkafka's strategies. librdkafka has no sticky strategy
that is not cooperative, so StickyAssignor becomes cooperative-sticky."""

_OF_SHARE_GROUPS = "share."
"""What the names of `ShareConsumerConfig` begin with. A KafkaConsumer does not use them."""
_PROTOCOLS = ("classic", "consumer")
_COOPERATIVE = ("cooperative-sticky",)


def translate(properties: Mapping[str, str]) -> Translation:
    """Returns the translation of the given consumer properties into librdkafka's names and values.

    Raises BadInput, whose message names the refused property.
    """
    translation = Translation(
        notes=[
            "the consumer settings are checked, and not exercised: a run has the consumer that --application NAME "
            "names; kdv explain says what these settings promise"
        ]
    )
    for name, text in properties.items():
        if is_withheld(name):
            translation.leave_out(name, WITHHELD)
        elif name.startswith(_OF_SHARE_GROUPS):
            raise BadInput(
                f"{printable_name(name)} is a share consumer's, which gets records again and in no order (KIP-932): "
                "no rule here speaks of share groups, so nothing is promised; leave it out for a consumer of its own "
                "group"
            )
        elif name == "group.protocol" and text.lower() not in _PROTOCOLS:
            raise BadInput(f"group.protocol is {text!r}; allowed: {', '.join(_PROTOCOLS)}")
        elif reason := _reason_to_leave_out(name):
            translation.leave_out(name, reason)
        elif name in OWN or producer_names.SAME.get(name, name) in SHARED:
            librdkafka_name = SAME.get(name, producer_names.SAME.get(name, name))
            translation.put(librdkafka_name, _value(librdkafka_name, text), name)
        else:
            _leave_out_or_refuse(translation, name)
    return translation


def _reason_to_leave_out(name: str) -> str | None:
    if known_names.is_serializers(name):
        return producer_names.SERIALIZERS
    return JAVA_ONLY.get(name) or OLD_CONSUMER.get(name) or producer_names.LEFT_OUT.get(name)


def _leave_out_or_refuse(translation: Translation, name: str) -> None:
    """Leaves out a property that belongs to another client: one file may be for all clients. Raises BadInput for a
    name that no client has."""
    owner = known_names.owner(name)
    if owner is None:
        known = (*OWN, *JAVA_ONLY, *known_names.names("consumer"))
        raise BadInput(f"{printable_name(name)} is no consumer property of Kafka{known_names.hint(name, known)}")
    translation.leave_out(name, f"{owner} property: a consumer does not use it")


def _value(name: str, text: str) -> Setting:
    """Returns the value that `text` stands for. Replaces a word of the Java client by librdkafka's word for the same
    value."""
    if name == "partition.assignment.strategy":
        classes = [path.strip().rsplit(".", 1)[-1] for path in text.split(",")]
        strategies = dict.fromkeys(_ASSIGNORS.get(assignor, assignor) for assignor in classes)
        eager = [each for each in strategies if each not in _COOPERATIVE]
        # Beside an eager assignor the Java client rebalances eagerly (KIP-429); librdkafka does not start with both.
        return ",".join(eager if eager and not _ASSIGNORS.keys().isdisjoint(classes) else strategies)
    if name == "auto.offset.reset" and text == "none":
        return "error"
    if name == "auto.offset.reset" and text.startswith(client_values.DURATION):
        return "latest"  # a group without a committed offset jumps over what is older
    if name in ("auto.offset.reset", "isolation.level"):
        text = text.lower()  # librdkafka takes any spelling, and the rules one
    return values.typed(name, client_values.plain_boolean(name, text))
