"""Spring Boot's configuration files: finds the settings of the Kafka client in an application.yml or
application.properties.

Spring Boot binds a few names below `spring.kafka.producer` and `spring.kafka.consumer` (see `spring_names`), and drops
all others without a word. Below `properties` stand Kafka's own names, which it passes on. Source: Spring Boot
reference, "Apache Kafka Support" and "Externalized Configuration", and `KafkaProperties`. Spellings, placeholders,
lists and empty values were compared with what Boot 3.4.11 itself binds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import known_names, other_trees, spring_values
from delivery_verifier.planning.own_settings.placeholders import Placeholders, UnknownValue
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.reading import NO_VALUE, NOT_KNOWN, Reading, Role
from delivery_verifier.planning.own_settings.spring_documents import KAFKA as _KAFKA
from delivery_verifier.planning.own_settings.spring_documents import (
    Documents,
    NamePath,
    Placed,
    documents,
    name_path,
)
from delivery_verifier.planning.own_settings.spring_names import (
    CONSUMER,
    LISTENER,
    PRODUCER,
    SECTIONS,
    TEMPLATE,
    Bound,
    Kind,
    uniform,
)
from delivery_verifier.planning.own_settings.translation import WITHHELD, printable_name

PREFIX = "spring.kafka."
"""Every property of Spring Boot that is for Kafka begins with this prefix."""
_BOUND: dict[str, dict[str, Bound]] = {
    section: {uniform(name): bound for name, bound in names.items()}
    for section, names in (
        ("producer", PRODUCER),
        ("consumer", CONSUMER),
        ("listener", dict.fromkeys(LISTENER, Bound(""))),
        ("template", dict.fromkeys(TEMPLATE, Bound(""))),
    )
}
_CANONICAL = re.compile(r"[a-z0-9.\[\]-]+")
_ACK_MODES = ("record", "batch", "time", "count", "counttime", "manual", "manualimmediate")
"""The members of `ContainerProperties.AckMode`, without the signs between their words."""
_COMMON = ("bootstrapservers", "clientid")
_SECURITY = ("security", "ssl", "jaas")
_DEFAULTS: dict[Role, dict[str, str]] = {
    "producer": {},
    "consumer": {"enable.auto.commit": "false"},
}
"""What Spring gives its clients if the file says nothing. enable.auto.commit=false: Spring for Apache Kafka since 2.3
(its reference, "Committing Offsets")."""
_NAMED = 5
"""The greatest number of names that a message lists."""


class Source(NamedTuple):
    """Where a setting stands in the file: its name and its value there, and what Boot converts the value to."""

    name: str
    value: str
    kind: Kind


def is_spring(names: Iterable[str]) -> bool:
    """Returns whether one of the property names is one of Spring's."""
    return any(name_path(name)[:1] == ("spring",) and not known_names.is_serializers(name) for name in names)


def is_of_kafka(name: str) -> bool:
    """Returns whether the property has a name below `spring.kafka`."""
    return name_path(name)[:2] == _KAFKA


def is_producers(name: str) -> bool:
    """Returns whether a property of a Spring application may set a producer of the application's own."""
    return other_trees.sets_client(name_path(name), "producer")


def read(entries: Iterable[Mapping[str, str]], role: Role, field: str) -> Reading:
    """Returns the settings of the producer or the consumer in the documents of one file (`entries`).

    * A setting of the producer or consumer replaces a setting that is common to all clients.
    * A setting below `properties` replaces the same setting under Spring's own name.
    * A name that Spring Boot does not bind has no effect. It is left out.

    `field` is the field of the run that names the file; messages show it. Raises BadInput for a file with topic
    settings, for a value that cannot be known, and for a file in which another tree sets a producer (see
    `other_trees`).
    """
    if role == "topic":
        raise BadInput(f"{field} names a file of Spring Boot, which has no topic settings; give .properties syntax")
    reading = Reading(client="java")
    merged, doubtful = of_file = documents(entries, reading, role, field)
    if not any(path[:2] == _KAFKA or other_trees.sets_client(path, role) for path in (*merged, *doubtful)):
        raise BadInput(f"{field} has nothing below {PREFIX[:-1]}; give the file that has, or .properties syntax")
    as_written = dict(merged.values())

    def lookup(name: str) -> str | None:
        # Spring takes other spellings of a property only for a placeholder in lower case, with dots and dashes.
        is_canonical = _CANONICAL.fullmatch(name) is not None
        return merged.get(name_path(name), (name, None))[1] if is_canonical else as_written.get(name)

    placeholders = Placeholders(lookup)
    layers = [*_layers(merged, (), role), *_layers(merged, (role,), role)]
    defaulted = _take_over(reading, layers, placeholders, role, field)
    if defaulted:
        names = ", ".join(f"${{{name}}}" for name in dict.fromkeys(placeholders.defaulted))
        reading.notes.append(
            f"{', '.join(defaulted)}: the default of the placeholder {names}; a value in the environment would count"
        )
    reading.settings = {**_DEFAULTS[role], **reading.settings}
    _leave_out(reading, merged, role)
    if role == "consumer":
        reading.notes += _ack_mode(merged)
    used = {name_path(name) for name in placeholders.used}
    _require_no_doubt(of_file, used, role, field)
    _require_no_other_tree(merged, used, role, field)
    return reading


def _require_no_doubt(of_file: Documents, used: set[NamePath], role: Role, field: str) -> None:
    """Raises BadInput if a document of which nobody knows whether it applies has a property on which the answer
    depends. `used`: the paths that placeholders refer to."""
    for path, (name, _) in of_file.doubtful.items():
        if path[:2] == _KAFKA or path in used or other_trees.sets_client(path, role):
            raise BadInput(
                f"{field} has a document of which it is not known here whether it applies (an expression of profiles, "
                f"a group, a placeholder or a cloud platform), with {printable_name(name)}; remove the documents that "
                "do not apply"
            )


def _ack_mode(merged: Placed) -> list[str]:
    """Returns a note on when Spring's listener container commits (Spring for Apache Kafka, `ContainerProperties`)."""
    name, mode = merged.get((*_KAFKA, "listener", "ackmode"), ("", ""))
    if uniform(mode) not in _ACK_MODES:  # also a placeholder, and what no message may show
        return []
    if uniform(mode) in ("manual", "manualimmediate"):
        return [f"{name}={mode}: your listener says when an offset is committed"]
    return [
        f"{name}={mode}: the container commits after your listener has returned; this is `commit_after` if the "
        "listener itself applies the records"
    ]


def _layers(merged: Placed, section: NamePath, role: Role) -> tuple[dict[str, Source], dict[str, Source]]:
    """Returns the settings that Spring Boot takes from `section`, under Kafka's own names: first those that Boot binds,
    then those below `properties`, which count before them."""
    bound = {name: _BOUND[role][name] for name in (_BOUND[role] if section else _COMMON)}
    named: dict[str, Source] = {}
    below: dict[str, Source] = {}
    for path, (name, value) in merged.items():
        rest = path[len(_KAFKA) + len(section) :]
        if path[: len(path) - len(rest)] != (*_KAFKA, *section) or not rest:
            continue
        if rest[0] == "properties" and len(rest) > 1:
            below[rest[-1]] = Source(name, value, "text")
        elif rest[0] in bound and (len(rest) == 1 or rest[0] == "bootstrapservers"):
            named[bound[rest[0]].kafka] = Source(name, value, bound[rest[0]].kind)
    return named, below


def _take_over(
    reading: Reading, layers: list[dict[str, Source]], placeholders: Placeholders, role: Role, field: str
) -> list[str]:
    """Puts the settings of all layers into `reading`; a later layer counts first. Returns the names of the settings
    whose value is the default of a placeholder.

    Raises BadInput for a value that cannot be known, if the verifier needs the value.
    """
    defaulted = []
    for kafka in dict.fromkeys(name for layer in layers for name in layer):
        before = len(placeholders.defaulted)
        for source in (layer[kafka] for layer in reversed(layers) if kafka in layer):
            try:
                text = "" if is_withheld(kafka) else _text(kafka, source, placeholders)
            except UnknownValue as error:
                if known_names.is_judged(kafka, role):
                    raise BadInput(
                        f"{field}: {printable_name(kafka)} is a placeholder of Spring or Maven without a value "
                        f"({error}). Write the value in the place of {printable_name(source.name)}"
                    ) from None
                reading.leave_out([source.name], NO_VALUE)
                break
            if text is not None:  # else Boot leaves the property as it was
                reading.put(kafka, text)
                break
        if len(placeholders.defaulted) > before and kafka in reading.settings:
            defaulted.append(kafka)
    return defaulted


def _text(kafka: str, source: Source, placeholders: Placeholders) -> str | None:
    value = spring_values.without_placeholders(source.value) if kafka == "transactional.id" else source.value
    return spring_values.plain(kafka, placeholders.replaced(value), source.kind)


def _leave_out(reading: Reading, merged: Placed, role: Role) -> None:
    """Adds to `reading` the names below `spring.kafka` that have no effect, and the sections that are about others."""
    unbound, others = dict[str, str](), set[str]()
    for path, (name, _) in merged.items():
        rest = path[len(_KAFKA) :]
        if path[:2] != _KAFKA or not rest or rest[0] == "properties":
            continue
        if rest[0] in _SECURITY or (rest[1:2] and rest[1] in _SECURITY):
            reading.leave_out([name], WITHHELD)
        elif not _is_bound(rest):
            unbound[name] = "".join(rest[1:] if rest[0] in SECTIONS else rest)
        elif rest[0] in SECTIONS and rest[0] != role and (rest[0], role) != ("listener", "consumer"):
            others.add(PREFIX + rest[0])
        elif rest[1:] == ("transactionidprefix",) and "transactional.id" in reading.settings:
            reading.notes.append(f"{name}: its value does not matter, for every producer has an id of its own")
    if unbound:
        reading.leave_out(
            unbound, f"Spring Boot does not bind these names, so they have no effect{_would(unbound, role)}"
        )
    if others:
        reading.leave_out(sorted(others), f"not about the {role}")


def _is_bound(rest: NamePath) -> bool:
    """Returns whether Spring Boot binds a name. `rest`: its path below `spring.kafka`."""
    if rest[0] not in SECTIONS:
        return rest[0] in _COMMON
    if rest[0] not in _BOUND or not rest[1:] or rest[1] == "properties":
        return True
    return rest[1] in _BOUND[rest[0]] and (len(rest) == 2 or rest[1] == "bootstrapservers")


def _would(unbound: Mapping[str, str], role: Role) -> str:
    """Returns what would have an effect in the place of names without one, as the end of a sentence."""
    kafkas = list(dict.fromkeys(name for text in unbound.values() for name in known_names.spelt(text, role)))
    if not kafkas:
        return ""
    boots = [name for name, bound in (PRODUCER if role == "producer" else CONSUMER).items() if bound.kafka in kafkas]
    own = f", or as Spring Boot's own {', '.join(boots)}" if boots else ""
    return f"; below {PREFIX}{role}.properties they would have one, as {', '.join(kafkas)}{own}"


def _require_no_other_tree(merged: Placed, used: set[NamePath], role: Role, field: str) -> None:
    """Raises BadInput if properties that are not read here set a producer or a consumer, because then nobody knows
    what the application's own one promises. `used`: the paths that placeholders refer to; these are read."""
    is_streams_alone = not any(path[:3] == (*_KAFKA, role) for path in merged)
    unread = [
        name
        for path, (name, _) in merged.items()
        if path not in used
        and (
            other_trees.sets_client(path, role)
            or _is_own_below(path, role)
            or (is_streams_alone and path[:3] == (*_KAFKA, "streams"))
        )
    ]
    if unread:
        more = f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""
        raise BadInput(
            f"{field} has names that may set a {role} of the application's own, and are not read: "
            f"{', '.join(map(printable_name, unread[:_NAMED]))}{more}; so what this application's {role} promises is "
            f"not known; {NOT_KNOWN}; or remove these names, to judge what is below spring.kafka alone"
        )


def _is_own_below(path: NamePath, role: Role) -> bool:
    """Returns whether a name below `spring.kafka` is none of Boot's, and looks like a tree of the application's own: it
    ends like a setting of the client, and is no misplaced name of Kafka's."""
    rest = path[len(_KAFKA) :]
    if path[:2] != _KAFKA or len(rest) < 2 or _is_bound(rest) or rest[0] in _SECURITY or rest[1] in _SECURITY:
        return False
    own = "".join(rest[1:] if rest[0] in SECTIONS else rest)
    if known_names.spelt(own, role) or (rest[0] not in (*SECTIONS, "properties") and len(rest) < 3):
        return False
    if rest[0] in SECTIONS and rest[0] != role:
        return False
    return any(known_names.spelt("".join(rest[start:]), role) for start in range(2, len(rest)))
