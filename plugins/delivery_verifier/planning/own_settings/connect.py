"""Settings of Kafka Connect: of its workers, its connectors, and MirrorMaker 2, which is made of connectors.

Only names with the right prefix reach a producer. They lie over the settings that Connect gives every producer. Source:
`Worker` (baseProducerConfigs, baseConsumerConfigs, exactlyOnceSourceTaskProducerConfigs) and `MirrorMakerConfig` of
Apache Kafka 4.3.1, and KAFKA-13759, which says why idempotence is off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import connect_policies, known_names
from delivery_verifier.planning.own_settings.connect_policies import POLICY
from delivery_verifier.planning.own_settings.reading import NOT_KNOWN, Reading, Role, require_no_transactional_id

WORKER_NAMES = frozenset(
    """
    offset.storage.topic config.storage.topic status.storage.topic offset.storage.file.filename key.converter
    value.converter
    """.split()
)
"""Names that only a worker's file has."""
DEFAULTS: dict[str, dict[str, str]] = {
    "producer": {
        "acks": "all",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
    },
    "consumer": {"enable.auto.commit": "false", "auto.offset.reset": "earliest"},
}
"""What Connect gives its producers and consumers where nobody says anything else."""
_EXACTLY_ONCE = "exactly.once.source.support"
_OF_SINKS = {"topics", "topics.regex"}
"""Names that only sink connectors have."""
_MIRROR_SOURCES = ("MirrorSourceConnector", "MirrorSource")
"""The class of the connector that copies records. Connect takes its name without the package, too."""
_POLL_TIMEOUT = "consumer.poll.timeout.ms"
"""A property of MirrorSourceConnector itself, whatever its prefix says."""
_FLOW = re.compile(r"(?P<source>[^\s>]+)->(?P<target>[^\s>.]+)\.(?P<name>.+)")


def is_worker(names: Iterable[str]) -> bool:
    """Returns whether the names are those of a worker."""
    return any(name in WORKER_NAMES for name in names)


def is_mirror_maker(names: Iterable[str]) -> bool:
    """Returns whether the names are those of MirrorMaker 2, in its dedicated mode."""
    present = set(names)
    return "clusters" in present or any(_FLOW.fullmatch(name) for name in present)


def worker(entries: Mapping[str, str], role: Role, field: str) -> Reading:
    """Returns what a worker with these properties gives its producers or consumers. Raises BadInput for topic
    settings."""
    _require_clients(role, field, "a Kafka Connect worker's file")
    reading = _of_worker(entries, role)
    _begin_transactions(reading, entries, role, field)
    reading.lay_beneath(DEFAULTS[role], "Kafka Connect", role)
    reading.notes.append(connect_policies.note_on_worker(entries, role))
    return reading


def _of_worker(entries: Mapping[str, str], role: Role) -> Reading:
    reading = Reading(client="java")
    prefix = f"{role}."
    overriding = [name for name in entries if name.startswith(f"{prefix}override.")]
    reading.leave_out(overriding, "a worker does not read them: they belong in a connector's configuration")
    read = {name: value for name, value in entries.items() if name.startswith(prefix) and name not in overriding}
    reading.put_all({name.removeprefix(prefix): value for name, value in read.items()})
    _leave_out_unprefixed(reading, [name for name in entries if not name.startswith(prefix)], prefix, role)
    return reading


def _begin_transactions(
    reading: Reading, of_worker: Mapping[str, str], role: Role, field: str, of_sink: bool = False
) -> None:
    """Sets what a worker with exactly-once support sets itself for source connectors, whatever the files say.

    `of_sink`: whether the connector is known to be a sink. Raises BadInput for a transactional.id where nobody begins
    transactions.
    """
    if role != "producer":
        return
    enabled = of_worker.get(_EXACTLY_ONCE, "").lower() == "enabled"
    is_standalone = "offset.storage.file.filename" in of_worker
    if enabled and is_standalone:
        reading.leave_out([_EXACTLY_ONCE], "a standalone worker does not read it")
    if not enabled or is_standalone or of_sink:
        whose = "a sink connector" if of_sink else f"Kafka Connect without {_EXACTLY_ONCE}=enabled"
        require_no_transactional_id(reading, field, whose)
        return
    forced = {"enable.idempotence": "true", "transactional.id": "connect-cluster"}
    written = [name for name, value in forced.items() if reading.settings.get(name, value) != value]
    reading.put_all(forced)
    reading.since = ((3, 3), f"{_EXACTLY_ONCE}=enabled")  # KIP-618
    reading.leave_out(
        written, f"Kafka Connect sets it itself under {_EXACTLY_ONCE}=enabled, so the file's has no effect"
    )
    reading.notes.append(
        f"{_EXACTLY_ONCE}=enabled: for source connectors only, Kafka Connect sets enable.idempotence=true, and gives "
        "each producer a transactional.id"
    )


def connector(
    entries: Mapping[str, str], role: Role, field: str, of_worker: Mapping[str, str] | None = None
) -> Reading:
    """Returns what a connector with these properties gives its own producers or consumers.

    `of_worker`: the properties of its worker, or None if they are not known. Raises BadInput for topic settings, and if
    the worker does not allow what the connector overrides.
    """
    _require_clients(role, field, "a connector's configuration")
    if role == "consumer" and entries.get("connector.class", "").rpartition(".")[2] in _MIRROR_SOURCES:
        return _mirror_source(entries)
    if role == "consumer" and entries.keys().isdisjoint(_OF_SINKS):
        raise BadInput(
            f"{field} is the configuration of a connector that is no sink (it has no topics), so its consumer is not "
            f"known; {NOT_KNOWN}"
        )
    if of_worker is not None:
        return _on_worker(entries, of_worker, role, field)
    reading = Reading(client="java")
    prefix = f"{role}.override."
    reading.put_all(_overridden(entries, prefix))
    if role == "producer":
        require_no_transactional_id(
            reading, field, f"a worker without {_EXACTLY_ONCE}=enabled", "; a worker with it sets its own"
        )
    _leave_out_unprefixed(reading, [name for name in entries if not name.startswith(prefix)], prefix, role)
    reading.lay_beneath(
        DEFAULTS[role], f"Kafka Connect, unless the {role}. settings of its worker say otherwise,", role
    )
    reading.notes.append(
        f"its worker's own {role}. settings apply where these say nothing, and are not in this file: "
        "judge the worker's file, too"
    )
    if reading.settings.keys() & _overridden(entries, prefix):
        reading.notes.append(connect_policies.note_on_connector(prefix))
    if POLICY in entries:
        reading.notes.append(f"{POLICY} is a worker's setting: it has no effect in a connector's configuration")
    if role == "producer" and entries.keys() & _OF_SINKS:
        reading.notes.append("a sink connector: its producer writes nothing but the dead letter queue")
    return reading


def _overridden(entries: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Returns the settings behind `prefix`, under Kafka's own names."""
    return {name.removeprefix(prefix): value for name, value in entries.items() if name.startswith(prefix)}


def _on_worker(entries: Mapping[str, str], of_worker: Mapping[str, str], role: Role, field: str) -> Reading:
    prefix = f"{role}.override."
    overridden = _overridden(entries, prefix)
    connect_policies.require_allowed(overridden, of_worker, prefix, field)
    reading = _of_worker(of_worker, role)
    reading.put_all(overridden)
    is_sink = not entries.keys().isdisjoint(_OF_SINKS)
    _begin_transactions(reading, of_worker, role, field, is_sink)
    reading.lay_beneath(DEFAULTS[role], "Kafka Connect", role)
    _leave_out_unprefixed(reading, [name for name in entries if not name.startswith(prefix)], prefix, role)
    return reading


def mirror_maker(entries: Mapping[str, str], role: Role, field: str) -> Reading:
    """Returns what MirrorMaker 2 with these properties gives the producers that copy records, or the consumers that
    read them.

    Raises BadInput for topic settings, if no flow is enabled, and if several flows have different settings.
    """
    _require_clients(role, field, "MirrorMaker's file")
    flows = [(match["source"], match["target"]) for name in entries if (match := _FLOW.fullmatch(name))]
    enabled = [
        flow
        for flow in dict.fromkeys(flows)
        if entries.get(f"{flow[0]}->{flow[1]}.enabled", "").strip().lower() == "true"
    ]
    if not enabled:
        raise BadInput(f"{field} is MirrorMaker's file without an enabled flow; write e.g. source->target.enabled=true")
    readings = [_flow(entries, flow, role, field) for flow in enabled]
    if any(reading.settings != readings[0].settings for reading in readings):
        names = ", ".join(f"{source}->{target}" for source, target in enabled)
        raise BadInput(f"{field} gives the {role}s of {names} different settings; leave one of these flows enabled")
    return readings[0]


def _mirror_source(entries: Mapping[str, str]) -> Reading:
    """Returns what MirrorSourceConnector gives the consumers that read records (see `sourceConsumerConfig`)."""
    reading = Reading(client="java")
    prefixes = ("consumer.", "source.consumer.")
    of_role = [name for name in entries if name.startswith(prefixes)]
    without_effect = [name for name in of_role if name.startswith("consumer.override.")]
    own = [name for name in entries if name not in of_role or name == _POLL_TIMEOUT]
    for prefix in prefixes:
        read = [name for name in of_role if name.startswith(prefix) and name not in (*without_effect, *own)]
        reading.put_all({name.removeprefix(prefix): entries[name] for name in read})
    reading.leave_out(
        without_effect, f"MirrorMaker gives its consumers only names that begin with {' or '.join(prefixes)}"
    )
    reading.leave_out(own, "MirrorMaker's own")
    _complete_mirror_consumer(reading)
    return reading


def _complete_mirror_consumer(reading: Reading) -> None:
    reading.put("enable.auto.commit", "false")  # MirrorMaker sets it whatever the file says
    reading.lay_beneath({"auto.offset.reset": "earliest"}, "MirrorMaker", "consumer")


def _flow(entries: Mapping[str, str], flow: tuple[str, str], role: Role, field: str) -> Reading:
    reading = Reading(client="java")
    source, target = flow
    flows = f"{source}->{target}."
    prefixes: tuple[str, ...] = (f"{target}.producer.", f"{flows}producer.override.")
    if role == "consumer":  # in the order of `MirrorConnectorConfig.sourceConsumerConfig`
        prefixes = (f"{flows}consumer.", f"{source}.consumer.", f"{flows}source.consumer.")
    for prefix in prefixes:
        reading.put_all(
            {name.removeprefix(prefix): value for name, value in entries.items() if name.startswith(prefix)}
        )
    if role == "producer":
        require_no_transactional_id(reading, field, "MirrorMaker")
    others = [name for name in entries if not name.startswith(prefixes)]
    of_role = [name for name in others if f".{role}." in f".{name}"]
    reading.leave_out(
        of_role,
        f"MirrorMaker gives the {role}s of {source}->{target} only names that begin with {' or '.join(prefixes)}",
    )
    reading.leave_out([name for name in others if name not in of_role], "MirrorMaker's own")
    if role == "consumer":
        _complete_mirror_consumer(reading)
    reading.lay_beneath(DEFAULTS[role], "Kafka Connect, of which MirrorMaker is made,", role)
    return reading


def _require_clients(role: Role, field: str, what: str) -> None:
    if role == "topic":
        raise BadInput(f"{field} is {what}, which has no topic settings; give the topic's own")


def _leave_out_unprefixed(reading: Reading, names: list[str], prefix: str, role: str) -> None:
    of_connect = known_names.names("connect") | known_names.names("connector")
    without = [name for name in names if name in known_names.names(role) and name not in of_connect]
    reading.leave_out(without, f"without {prefix} before them, no {role} of Connect reads them")
    reading.leave_out([name for name in names if name not in without], "Connect's own")
