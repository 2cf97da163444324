"""The translation: properties of a Java or librdkafka client into those that the verifier's producers run with.

Nothing is dropped in silence: every name is taken over, left out with its reason, or refused with BadInput. No message
shows a value of a name that is unknown or withheld.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from delivery_verifier.model import inputs
from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import names
from delivery_verifier.planning.own_settings.properties import is_withheld

Client = Literal["java", "librdkafka"]
CLIENT_NAMES: dict[Client, str] = {"java": "the Java client 4.x", "librdkafka": "librdkafka 2.16"}

_LIKE_A_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")
_SOCKET_TIMEOUT_MAX_MS = 300_000
_WITHHELD = "how to reach a cluster and who one is there; the cluster under test is the verifier's own"


@dataclass
class Translated:
    """`settings` under librdkafka's names, and `left_out`: names by the reason why they are not among them."""

    settings: dict[str, Setting] = dataclasses.field(default_factory=dict)
    left_out: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    def leave_out(self, name: str, why: str) -> None:
        """Takes note of a name that is not taken over."""
        self.left_out.setdefault(why, []).append(name)

    def put(self, name: str, value: Setting, given_as: str) -> None:
        """Raises BadInput if two names of the same thing say different things."""
        if self.settings.setdefault(name, value) != value:
            raise BadInput(f"{given_as} says the same as {name}, which has another value: keep one of them")

    def told(self) -> list[str]:
        """The notes, one line each."""
        return [*self.notes, *(f"left out: {', '.join(found)} ({why})" for why, found in self.left_out.items())]


def client_of(given: Iterable[str]) -> Client:
    """For which client the names were written: the one that has a name which the other lacks.

    Raises BadInput where the names tell nothing and the clients' defaults would give another guarantee: Java's is
    idempotent unless told otherwise, librdkafka is not.
    """
    found = set(given)
    if names.LIBRDKAFKA_ONLY & found:
        return "librdkafka"
    if names.JAVA_ONLY & found or "enable.idempotence" in found:
        return "java"
    raise BadInput(
        "client: nothing in the file tells which client it was written for, and enable.idempotence, which it does not "
        "set, is on by default in the Java client and off in librdkafka; say --client java or --client librdkafka"
    )


def producer(given: Mapping[str, str], client: Client, transactional: bool = False) -> Translated:
    """The producer properties that were given, translated. Raises BadInput naming the property.

    `transactional`: they are put over settings that have a transactional.id already.
    """
    found = Translated()
    for name, text in given.items():
        if is_withheld(name):
            found.leave_out(name, _WITHHELD)
        elif name in names.LEFT_OUT:
            found.leave_out(name, names.LEFT_OUT[name])
        elif name == "transaction.timeout.ms" and not (transactional or "transactional.id" in given):
            found.leave_out(name, names.INERT)
        elif name in names.REFUSED or name.startswith("test."):
            raise BadInput(
                f"{name} cannot be verified: {names.REFUSED.get(name, 'it replaces the cluster under test')}"
            )
        elif not _translated(found, name, text, given, client):
            raise BadInput(f"{_called(name)} is no producer property of Kafka{_nearest(name, _PRODUCER_NAMES)}")
    return found


def _translated(found: Translated, name: str, text: str, given: Mapping[str, str], client: Client) -> bool:
    if name == "buffer.memory":
        found.put("queue.buffering.max.kbytes", max(1, _number(name, text) // 1024), name)
    elif name in _LEVELS:
        if given.get("compression.type") == _LEVELS[name]:
            found.put("compression.level", _number(name, text), name)
        else:
            found.leave_out(name, "compression.type is another")
    elif name == "metadata.max.age.ms" and client == "java":
        found.put("topic.metadata.refresh.interval.ms", _number(name, text), name)
    elif name == "batch.size":
        found.put(name, max(1, _number(name, text)), name)  # Java's 0 means batches of one record, which 1 does here
    elif (canonical := names.SAME.get(name, name)) in names.EXERCISED:
        found.put(canonical, _typed(canonical, text), name)
    else:
        return False
    return True


def filled(found: Translated, client: Client) -> Translated:
    """With the client's own defaults where nothing was given, all of them told. Raises BadInput with Java's reason."""
    given = dict(found.settings)
    defaults: dict[str, Setting] = dict(names.JAVA if client == "java" else names.LIBRDKAFKA)
    defaults.update(_implied_by_java(given, defaults) if client == "java" else _implied_by_librdkafka(given))
    gaps = {name: value for name, value in defaults.items() if name not in given}
    told = ", ".join(f"{name}={_shown(value)}" for name, value in gaps.items())
    notes = [*found.notes, f"the defaults of {CLIENT_NAMES[client]} fill the gaps: {told or 'there are none'}"]
    if client == "java":
        notes.append("the producer under test is librdkafka with these settings, not the Java client itself")
    return in_transactions(Translated({**gaps, **given}, found.left_out, notes))


def in_transactions(found: Translated) -> Translated:
    """With what a transactional.id asks of the other settings, and what becomes of it here; as it is without one."""
    settings, notes = dict(found.settings), list(found.notes)
    if "transactional.id" not in settings:
        return found
    own = settings["transactional.id"]
    notes.append(
        f"transactional.id: every producer has one of its own, {own}-<arm>-<number>, for two with the same would "
        "fence each other"
    )
    if "transaction.timeout.ms" not in settings:
        settings["transaction.timeout.ms"] = names.TRANSACTION_TIMEOUT_MS
        notes.append(f"the default fills the gap: transaction.timeout.ms={names.TRANSACTION_TIMEOUT_MS}")
    most = _number("transaction.timeout.ms", str(settings["transaction.timeout.ms"]))
    for name in ("delivery.timeout.ms", "socket.timeout.ms"):
        if name in settings and _number(name, str(settings[name])) > most:
            settings[name] = most
            notes.append(f"{name}={most}: librdkafka allows no more than transaction.timeout.ms")
    return Translated(settings, found.left_out, notes)


def _implied_by_java(given: Mapping[str, Setting], defaults: Mapping[str, Setting]) -> dict[str, Setting]:
    """What Java derives from what was given (measured with its ProducerConfig 4.0.2 and 4.4.0)."""
    both = {**defaults, **given}
    idempotent = both["acks"] == "all" and both["retries"] != 0
    request, linger, delivery = (
        _number(name, str(both[name])) for name in ("request.timeout.ms", "linger.ms", "delivery.timeout.ms")
    )
    if delivery < request + linger and "delivery.timeout.ms" in given:
        raise BadInput(
            f"delivery.timeout.ms is {both['delivery.timeout.ms']}: the Java client asks for at least linger.ms + "
            f"request.timeout.ms, which is {request + linger}"
        )
    return {
        "enable.idempotence": idempotent,
        "delivery.timeout.ms": max(delivery, request + linger),
        # Java's request timeout is the client's own; librdkafka calls that socket.timeout.ms.
        "socket.timeout.ms": min(request, _SOCKET_TIMEOUT_MAX_MS),
    }


def _implied_by_librdkafka(given: Mapping[str, Setting]) -> dict[str, Setting]:
    idempotent = given.get("enable.idempotence", "transactional.id" in given) is True
    return {"enable.idempotence": True, "max.in.flight.requests.per.connection": 5} if idempotent else {}


def topic(given: Mapping[str, str]) -> Translated:
    """The topic properties that were given, translated. Raises BadInput naming the property."""
    found = Translated()
    for name, text in given.items():
        if name in names.TOPIC_LEFT_OUT:
            found.leave_out(name, names.TOPIC_LEFT_OUT[name])
        elif name in ("cleanup.policy", "remote.storage.enable"):
            _only(found, name, text, "delete" if name == "cleanup.policy" else "false")
        elif name in names.TOPIC:
            found.put(name, _of_kind(name, text, names.TOPIC[name]), name)
        elif is_withheld(name):
            found.leave_out(name, _WITHHELD)
        else:
            raise BadInput(f"{_called(name)} is no topic property of Kafka{_nearest(name, _TOPIC_NAMES)}")
    return found


def filled_topic(found: Translated) -> Translated:
    """With Kafka's own defaults where nothing was given, all of them told."""
    gaps = {name: value for name, value in names.TOPIC_DEFAULTS.items() if name not in found.settings}
    told = ", ".join(f"{name}={_shown(value)}" for name, value in gaps.items())
    note = f"Kafka's own defaults fill the gaps of the topic: {told or 'there are none'}"
    return Translated({**gaps, **found.settings}, found.left_out, [*found.notes, note])


def consumer(given: Mapping[str, str]) -> Translated:
    """Consumer properties under librdkafka's names. They are checked, and exercised by nothing in this version."""
    found = Translated(
        notes=[
            "consumer settings are checked by name and value, not exercised: this version has no consumer under test"
        ]
    )
    for name, text in given.items():
        if is_withheld(name):
            found.leave_out(name, _WITHHELD)
        elif name in names.CONSUMER_JAVA_ONLY or name in names.LEFT_OUT:
            found.leave_out(name, names.CONSUMER_JAVA_ONLY.get(name) or names.LEFT_OUT[name])
        elif name in names.CONSUMER or names.SAME.get(name, name) in _OF_BOTH_CLIENTS:
            canonical = names.CONSUMER_SAME.get(name, names.SAME.get(name, name))
            found.put(canonical, _consumer_value(canonical, text), name)
        else:
            raise BadInput(f"{_called(name)} is no consumer property of Kafka{_nearest(name, names.CONSUMER)}")
    return found


def check_known(producer_names: Iterable[str], topic_names: Iterable[str]) -> None:
    """Raises BadInput for a name that no translation would have let through."""
    for kind, found, known in (
        ("producer", producer_names, names.EXERCISED),
        ("topic", topic_names, names.TOPIC.keys()),
    ):
        for name in found:
            if name not in known:
                raise BadInput(f"{_called(name)} is no {kind} property that can be verified{_nearest(name, known)}")


def check_version(topic_names: Iterable[str], kafka_version: str) -> None:
    """Raises BadInput for a topic property that brokers of this version do not know yet."""
    version = tuple(int(part) for part in kafka_version.split(".")[:2])
    for name in topic_names:
        since = names.TOPIC_SINCE.get(name, version)
        if since > version:
            raise BadInput(
                f"{name} is unknown to Kafka {kafka_version}: it exists since {since[0]}.{since[1]}; leave it out"
            )


_LEVELS = {f"compression.{codec}.level": codec for codec in ("gzip", "lz4", "zstd")}
_PRODUCER_NAMES = (
    *names.EXERCISED,
    *names.SAME,
    *names.LEFT_OUT,
    *names.REFUSED,
    *_LEVELS,
    "buffer.memory",
    "bootstrap.servers",
)
_TOPIC_NAMES = (*names.TOPIC, *names.TOPIC_LEFT_OUT, "cleanup.policy", "remote.storage.enable")
_OF_BOTH_CLIENTS = {
    name
    for name in names.EXERCISED
    if name.startswith(("socket.", "reconnect.", "metadata.", "topic.", "connections.", "receive.", "retry."))
}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "cooperative-sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def _only(found: Translated, name: str, text: str, allowed: str) -> None:
    if text != allowed:
        raise BadInput(
            f"{name} is {text!r}; allowed: {allowed}. What a topic removes on purpose cannot be told from what "
            "was lost; leave it out to verify the rest"
        )
    found.leave_out(name, "the topics under test have it already")


def _consumer_value(name: str, text: str) -> Setting:
    if name == "partition.assignment.strategy":
        classes = [one.strip().rsplit(".", 1)[-1] for one in text.split(",")]
        return ",".join(dict.fromkeys(_ASSIGNORS.get(one, one) for one in classes))
    if name == "auto.offset.reset" and text == "none":
        return "error"
    return _typed(name, text)


def _typed(name: str, text: str) -> Setting:
    """A value as a number, true or false where it looks like one. Raises BadInput if there is none."""
    if not text:
        raise BadInput(f"{name} has no value: give one, or leave the name out for its default")
    if name == "acks":
        return "all" if text.lower() in ("all", "-1") else text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _of_kind(name: str, text: str, kind: names.Kind) -> Setting:
    value = _typed(name, text)
    if kind == "float":
        try:
            float(text)
        except ValueError:
            raise inputs.bad_input(name, text, "a number") from None
        return text
    fits = {"int": type(value) is int, "bool": isinstance(value, bool), "text": isinstance(value, str)}[kind]
    if not fits:
        raise inputs.bad_input(name, text, {"int": "a whole number", "bool": "true, false", "text": "a word"}[kind])
    return value


def _number(name: str, text: str) -> int:
    value = _typed(name, text)
    if type(value) is not int or value < -1:
        raise inputs.bad_input(name, text, "a whole number")
    return value


def _shown(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _called(name: str) -> str:
    """The name, if it looks like one: the second line of a key or password that was not continued must not be shown."""
    if _LIKE_A_NAME.fullmatch(name) and len(name) <= 80:
        return name
    return "a name that is not shown (a value over several lines needs a backslash at the end of each)"


def _nearest(name: str, known: Iterable[str]) -> str:
    near = inputs.nearest(name, known)
    return f"; did you mean {near}?" if near else "; remove it, or correct its name"
