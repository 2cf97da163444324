"""Random settings files of several formats, each with the settings that are in force according to its framework.

The names come from the lists that the frameworks publish: Spring Boot's metadata, and Kafka's ConfigDefs. Which of them
a framework reads is known because the generator put each where it is read, or where it is not.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import NamedTuple

from support.spring_metadata import bound_names

VALUES = {
    "acks": ("0", "1", "all"),
    "enable.idempotence": ("true", "false"),
    "retries": ("0", "3", "2147483647"),
    "max.in.flight.requests.per.connection": ("1", "5"),
    "delivery.timeout.ms": ("60000",),
    "request.timeout.ms": ("20000",),
    "linger.ms": ("0", "9"),
    "batch.size": ("16384",),
    "compression.type": ("lz4",),
}
"""The settings on which promises depend, under Kafka's own names, with values that every client takes."""
FREE = ("linger.ms", "batch.size", "compression.type")
"""Those of VALUES on which no promise depends: a file without their values is read."""
NOWHERE = "${NOWHERE}"
LIBRDKAFKA = {
    "acks": "request.required.acks",
    "retries": "message.send.max.retries",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "delivery.timeout.ms": "message.timeout.ms",
    "linger.ms": "queue.buffering.max.ms",
    "compression.type": "compression.codec",
}
"""Names that librdkafka has for the same settings, and the Java client does not."""
FOREIGN = ("session.timeout.ms", "auto.offset.reset", "min.insync.replicas", "num.partitions", "plugin.path")


class RandomFile(NamedTuple):
    """A random file. `in_force`: the settings that its framework gives the producer, for a file of `client`.

    `is_known`: whether these are all. If not, the file must be refused.
    """

    name: str
    text: str
    in_force: dict[str, str]
    client: str
    is_known: bool


class Draft:
    """A file while it is written. The settings that come last are in force."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: dict[str, str] = {}
        self.in_force: dict[str, str] = {}
        self.is_known = True

    def settings(self) -> list[tuple[str, str]]:
        """Returns some settings with values, in random order."""
        names = self.chance.sample(sorted(VALUES), self.chance.randint(1, 4))
        return [(name, self.chance.choice(VALUES[name])) for name in names]

    def write(self, name: str, value: str) -> None:
        self.lines[name] = value

    def misspelt(self, name: str) -> str:
        """Returns `name` without one of its letters."""
        index = self.chance.randrange(1, len(name) - 1)
        return name[:index] + name[index + 1 :]


def _kebab(name: str) -> str:
    return name.replace(".", "-")


def _camel(name: str) -> str:
    first, *others = name.split(".")
    return first + "".join(word.capitalize() for word in others)


RELAXED: tuple[Callable[[str], str], ...] = (
    _kebab,
    _camel,
    lambda name: name.replace(".", "_"),
    lambda name: _kebab(name).upper(),
)
"""The forms of a name that Spring Boot takes for one."""


def spring(seed: int) -> RandomFile:
    """Returns an application.yml or application.properties."""
    draft = Draft(seed)
    bound = {name.removeprefix("producer.") for name in bound_names() if name.startswith("producer.")}
    for name, value in draft.settings():
        written, is_read = _spring_name(draft, name, bound)
        placed = _spring_value(draft, name, value) if is_read else value
        draft.write(written, placed)
        if is_read and placed != NOWHERE:
            draft.in_force[name] = value
    if draft.chance.random() < 0.2:
        draft.write("spring.kafka.consumer.properties.acks", "0")
    entries = list(draft.lines.items())
    draft.chance.shuffle(entries)
    if draft.chance.random() < 0.5:
        text = "".join(f"{json.dumps(name)}: {json.dumps(value)}\n" for name, value in entries)
        return RandomFile("application.yml", text, draft.in_force, "java", draft.is_known)
    text = "".join(f"{name}={value}\n" for name, value in entries)
    return RandomFile("application.properties", text, draft.in_force, "java", draft.is_known)


def _spring_name(draft: Draft, name: str, bound: set[str]) -> tuple[str, bool]:
    """Returns a name for a setting, somewhere in the file, and whether Spring Boot gives it to the producer."""
    relaxed = draft.chance.choice(RELAXED)(name)
    below = draft.chance.choice(("properties.", "producer.properties."))
    kind = draft.chance.randrange(10)
    if kind == 9:
        return f"spring.kafka.{below}{LIBRDKAFKA.get(name, name)}", name not in LIBRDKAFKA
    if kind <= 2:
        return f"spring.kafka.producer.{relaxed}", _kebab(name) in bound
    if kind <= 4:
        return f"spring.kafka.{below}{name}", True
    if kind == 5:
        return f"spring.kafka.{below}[{name}]", True
    if kind == 6:
        return f"spring.kafka.{below}{draft.misspelt(name)}", False
    if kind == 7:
        section = draft.chance.choice(("admin.properties.", "consumer.", "listener.", "", "prodcuer."))
        return f"spring.kafka.{section}{relaxed}", False
    draft.is_known = False
    return f"app.kafka.{draft.chance.choice(('producer', 'orderProducer', 'producers.main'))}.{relaxed}", False


def _spring_value(draft: Draft, name: str, value: str) -> str:
    """Returns the value, or a placeholder. For a placeholder without a default, the file is not known."""
    kind = draft.chance.randrange(12)
    if kind == 0:
        return f"${{{name.upper().replace('.', '_')}:{value}}}"
    if kind == 1:
        own = f"shop.{name.replace('.', '-')}"
        draft.write(own, value)
        return f"${{{own}:all}}"
    if kind == 2:
        draft.is_known = draft.is_known and name in FREE
        return NOWHERE
    return value


CONNECT_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": "2147483647",
}
"""Kafka Connect's own settings for its producers (docs/examples/kafka-connect.properties)."""


def worker(seed: int) -> RandomFile:
    """Returns the file of a Kafka Connect worker."""
    return _prefixed(Draft(seed), "producer.", ("", "consumer.", "admin.", "prodcuer."), {"key.converter": "x"})


def mirror_maker(seed: int) -> RandomFile:
    """Returns the file of MirrorMaker 2."""
    fixed = {"clusters": "a, b", "a->b.enabled": "true", "b->a.enabled": "false"}
    return _prefixed(Draft(seed), "b.producer.", ("producer.", "a.producer.", "b.consumer.", "a->b.producer."), fixed)


def _prefixed(draft: Draft, prefix: str, without_effect: tuple[str, ...], fixed: dict[str, str]) -> RandomFile:
    for name, value in draft.settings():
        is_read = draft.chance.random() < 0.6
        draft.write(f"{prefix if is_read else draft.chance.choice(without_effect)}{name}", value)
        if is_read:
            draft.in_force[name] = value
    lines = {**fixed, **draft.lines}
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    return RandomFile("worker.properties", text, {**CONNECT_DEFAULTS, **draft.in_force}, "java", True)


def connector(seed: int) -> RandomFile:
    """Returns a connector's configuration, as Connect's REST API takes it."""
    draft = Draft(seed)
    config = {"connector.class": "x.Source"}
    for name, value in draft.settings():
        is_read = draft.chance.random() < 0.6
        config[f"producer.override.{name}" if is_read else f"{draft.chance.choice(('', 'producer.'))}{name}"] = value
        if is_read:
            draft.in_force[name] = value
    in_force = {**CONNECT_DEFAULTS, **draft.in_force}
    return RandomFile("connector.json", json.dumps({"name": "c", "config": config}), in_force, "java", True)


def streams(seed: int) -> RandomFile:
    """Returns the file of a Kafka Streams application, which lays `producer.` over names without a prefix."""
    draft = Draft(seed)
    bare, prefixed = dict(draft.settings()), dict(draft.settings())
    for name, value in bare.items():
        draft.write(name, value)
    for name, value in prefixed.items():
        is_read = draft.chance.random() < 0.6
        draft.write(f"{'producer.' if is_read else draft.chance.choice(('consumer.', 'main.producer.'))}{name}", value)
        if is_read:
            bare[name] = value
    in_force = {"linger.ms": "100", **bare}
    fixed = {"application.id": "a"}
    if draft.chance.random() < 0.4:
        fixed["processing.guarantee"] = "exactly_once_v2"
        own = {"delivery.timeout.ms": "2147483647", "transaction.timeout.ms": "10000"}
        in_force = {**own, **in_force, "enable.idempotence": "true", "transactional.id": "streams"}
    entries = list({**fixed, **draft.lines}.items())
    draft.chance.shuffle(entries)
    text = "".join(f"{name}={value}\n" for name, value in entries)
    return RandomFile("streams.properties", text, in_force, "java", True)


def vector(seed: int) -> RandomFile:
    """Returns a file of vector."""
    draft = Draft(seed)
    head, options = ['type = "kafka"'], list[str]()
    for name, value in draft.settings():
        is_read = draft.chance.random() < 0.6
        if is_read:
            options.append(f'"{name}" = "{value}"')
            draft.in_force[name] = value
        else:
            head.append(f'{name.replace(".", "_")} = "{value}"')
    text = "\n".join(["[sinks.k]", *head, "[sinks.k.librdkafka_options]", *options, ""])
    return RandomFile("vector.toml", text, draft.in_force, "librdkafka", True)


def fluent_bit(seed: int) -> RandomFile:
    """Returns a file of Fluent Bit in its classic syntax, sometimes with variables and an included file."""
    draft = Draft(seed)
    head, lines = list[str](), ["[OUTPUT]", "    Name kafka"]
    includes = draft.chance.random() < 0.2
    for name, value in draft.settings():
        is_read = draft.chance.random() < 0.6
        variable = name.upper().replace(".", "_")
        if is_variable := draft.chance.random() < 0.3:
            head.append(f"@SET {variable}={value}")
        lines.append(f"    {'rdkafka.' if is_read else ''}{name} {f'${{{variable}}}' if is_variable else value}")
        if is_read and not (is_variable and includes):
            draft.in_force[name] = value
        elif is_read:
            draft.is_known = draft.is_known and name in FREE
    head += ["@INCLUDE more.conf"] if includes else []
    return RandomFile("fluent-bit.conf", "\n".join([*head, *lines, ""]), draft.in_force, "librdkafka", draft.is_known)


LOGSTASH = {"acks", "retries", "linger.ms", "batch.size", "compression.type", "request.timeout.ms"}
"""Those of VALUES that Logstash's kafka output has an option for."""


def logstash(seed: int) -> RandomFile:
    """Returns a pipeline of Logstash."""
    draft = Draft(seed)
    in_force = {"acks": "1", "linger.ms": "0", "request.timeout.ms": "40000", "enable.idempotence": "false"}
    lines = ["output {", "  kafka {", '    topic_id => "t"']
    for name, value in draft.settings():
        lines.append(f"    {name.replace('.', '_')} => {draft.chance.choice((json.dumps(value), value))}")
        if name in LOGSTASH:
            in_force[name] = value
    return RandomFile("pipeline.conf", "\n".join([*lines, "  }", "}", ""]), in_force, "java", True)


def all_clients(seed: int) -> RandomFile:
    """Returns one client.properties for all clients, sometimes with a misspelt name."""
    draft = Draft(seed)
    draft.write("sasl.jaas.config", "x")
    for name, value in draft.settings():
        is_read = draft.chance.random() < 0.9
        draft.write(name if is_read else draft.misspelt(name), value)
        if is_read:
            draft.in_force[name] = value
    for name in draft.chance.sample(FOREIGN, 2):
        draft.write(name, "7")
    text = "".join(f"{name}={value}\n" for name, value in draft.lines.items())
    return RandomFile("client.properties", text, draft.in_force, "java", True)


FORMATS: tuple[Callable[[int], RandomFile], ...] = (
    spring,
    spring,
    spring,
    worker,
    mirror_maker,
    connector,
    streams,
    vector,
    fluent_bit,
    logstash,
    all_clients,
)
"""The generators, each with a seed. Spring's is there three times, because Spring has most ways to write a name."""


def plain(file: RandomFile) -> str:
    """Returns what is in force, as a file of Kafka's own names."""
    return "".join(f"{name}={value}\n" for name, value in file.in_force.items())
