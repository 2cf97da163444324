"""What a release of a client makes of the settings that a user wrote: all of its settings, or its refusal to start."""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import releases, values
from delivery_verifier.planning.own_settings.releases import Release

_IN_FLIGHT = "max.in.flight.requests.per.connection"
_RETRIES_WITHOUT_END = 2147483647
_INT_MAX = 2147483647
_LONG_MAX = 9223372036854775807
_LONGS = frozenset(
    """
    linger.ms max.block.ms metadata.max.idle.ms metrics.sample.window.ms partitioner.availability.timeout.ms
    buffer.memory retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms reconnect.backoff.max.ms
    topic.metadata.refresh.interval.ms metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
    connections.max.idle.ms socket.connection.setup.timeout.ms queue.buffering.max.kbytes
    """.split()
)
"""Properties that are of type LONG in Java's ProducerConfig. Its other numbers are of type INT."""
_LEAST = {
    _IN_FLIGHT: 1,
    "socket.send.buffer.bytes": -1,
    "socket.receive.buffer.bytes": -1,
    "connections.max.idle.ms": -1,
}
"""The least values that the Java client takes, where this is not 0."""


def java_takes(name: str, value: Setting) -> bool:
    """Returns whether the Java client takes the number `value` for the property `name` (librdkafka's name), whatever
    the other settings are. The limits are those of ProducerConfig, in every release."""
    least, most = java_limits(name)
    return type(value) is int and least <= value <= most


def java_limits(name: str) -> tuple[int, int]:
    """Returns the least and the greatest number that the Java client takes for the property `name` (librdkafka's
    name)."""
    return _LEAST.get(name, 0), _LONG_MAX if name in _LONGS else _INT_MAX


def settings(explicit: Mapping[str, Setting], release: Release, name: str) -> dict[str, Setting]:
    """Returns all settings of a producer of `release` that has the settings `explicit`. Both have librdkafka's names,
    and values within the limits of the release's own client.

    `name`: the client and its version, for messages. Raises BadInput if a producer of `release` does not start with
    these settings. The derivation was measured (see `releases`).
    """
    if reason := reason_not_to_start(explicit, release):
        raise BadInput(f"{name} does not start: {reason}{_elsewhere(explicit, release)}")
    derived = _of_java(explicit, release) if release.client == "java" else _of_librdkafka(explicit, release)
    defaults = {**release.defaults, **derived}
    return {**{key: value for key, value in defaults.items() if key not in explicit}, **explicit}


def is_idempotent(explicit: Mapping[str, Setting], release: Release) -> bool:
    """Returns whether a producer of `release` with the settings `explicit` is idempotent. The settings must be such
    that the producer starts."""
    if release.idempotence == "absent" or explicit.get("enable.idempotence") is False:
        return False
    if _asks(explicit):
        return True
    full = {**release.defaults, **explicit}
    yields = full["acks"] != "all" or full["retries"] == 0 or _in_flight(full) > releases.MOST_IN_FLIGHT
    return release.idempotence != "asked" and not yields


def _asks(explicit: Mapping[str, Setting]) -> bool:
    return explicit.get("enable.idempotence") is True or "transactional.id" in explicit


def _in_flight(full: Mapping[str, Setting]) -> int:
    return values.whole_number(_IN_FLIGHT, str(full[_IN_FLIGHT]))


def reason_not_to_start(explicit: Mapping[str, Setting], release: Release) -> str:
    """Returns why a producer of `release` with the settings `explicit` does not start: the settings that contradict
    each other, and then, behind a semicolon, what to change. Returns an empty text if it starts."""
    if "enable.idempotence" in explicit and release.idempotence == "absent":
        return "it has no enable.idempotence (librdkafka has it since 1.0); leave it out"
    if "transactional.id" in explicit and not release.transactions:
        return "it has no transactional.id (librdkafka has it since 1.4); leave it out"
    if "transactional.id" in explicit and explicit.get("enable.idempotence") is False:
        return "transactional.id needs idempotence, and enable.idempotence is false; leave one of them out"
    return _why_not_idempotent(explicit, release) or _too_little_time(explicit, release)


def _why_not_idempotent(explicit: Mapping[str, Setting], release: Release) -> str:
    """Returns which setting contradicts an idempotence that the client insists on, or an empty text."""
    if _asks(explicit):
        why = "enable.idempotence=true" if explicit.get("enable.idempotence") is True else "transactional.id"
        if explicit.get("acks", "all") != "all":
            return f"{why} needs acks=all, and acks is {explicit['acks']}; set acks=all, or leave {why} out"
        if explicit.get("retries") == 0:
            return f"{why} needs retries, and retries is 0; leave one of them out"
    elif release.idempotence == "bounded" and "enable.idempotence" not in explicit:
        why = "enable.idempotence, which is on by default,"
    else:
        return ""
    if (most := _in_flight({**release.defaults, **_few(explicit, release)})) > releases.MOST_IN_FLIGHT:
        return (
            f"{why} allows at most {releases.MOST_IN_FLIGHT} requests in flight, and {_IN_FLIGHT} is {most}; set "
            f"{releases.MOST_IN_FLIGHT} or less, or switch idempotence off"
        )
    return ""


def _too_little_time(explicit: Mapping[str, Setting], release: Release) -> str:
    """Returns why delivery.timeout.ms is too short for the Java client, or an empty text. Only a delivery.timeout.ms
    that is set can be."""
    if release.client != "java" or "delivery.timeout.ms" not in explicit:
        return ""
    delivery_ms, least_ms = _milliseconds({**release.defaults, **explicit})
    if delivery_ms >= least_ms:
        return ""
    return (
        f"delivery.timeout.ms is {delivery_ms}, and it asks for at least linger.ms + request.timeout.ms, which is "
        f"{least_ms}; set that or more, or a shorter request.timeout.ms"
    )


def _milliseconds(full: Mapping[str, Setting]) -> tuple[int, int]:
    """Returns delivery.timeout.ms, and the least that the Java client takes for it."""
    delivery_ms, request_ms, linger_ms = (
        values.whole_number(each, str(full[each]))
        for each in ("delivery.timeout.ms", "request.timeout.ms", "linger.ms")
    )
    return delivery_ms, min(request_ms + linger_ms, _INT_MAX)


def _few(explicit: Mapping[str, Setting], release: Release) -> Mapping[str, Setting]:
    """Returns `explicit` with the number of requests in flight that an idempotent librdkafka has if none is set."""
    return explicit if release.client == "java" else {_IN_FLIGHT: releases.MOST_IN_FLIGHT, **explicit}


def _elsewhere(explicit: Mapping[str, Setting], release: Release) -> str:
    """Returns what other releases of the same client do with settings with which `release` does not start: the end of a
    message. The text is empty if none of them starts."""
    starting = [row for row in releases.RELEASES[release.client] if not reason_not_to_start(explicit, row)]
    if not starting:
        return ""
    idempotent = [row for row in starting if is_idempotent(explicit, row)]
    others = [row for row in starting if row not in idempotent]
    ways = ((idempotent, "idempotent"), (others, "without idempotence"))
    sentences = [f"{releases.spans(rows)} start, {how}" for rows, how in ways if rows]
    return f". {' and '.join(sentences)}: name your version if it is one of them, e.g. {_example(starting[-1])}"


def _example(release: Release) -> str:
    return f"{release.client}:{releases.text(release.last)}"


def _of_java(explicit: Mapping[str, Setting], release: Release) -> dict[str, Setting]:
    """Returns the settings that the Java client derives from `explicit`."""
    idempotent = is_idempotent(explicit, release)
    full = {**release.defaults, **explicit}
    derived: dict[str, Setting] = {
        "enable.idempotence": idempotent,
        "delivery.timeout.ms": max(_milliseconds(full)),
        # In Java the client itself enforces request.timeout.ms. In librdkafka that timeout is called socket.timeout.ms.
        "socket.timeout.ms": full["request.timeout.ms"],
        # Where the client has no such setting, every pause is as long as the first.
        "retry.backoff.max.ms": full.get("retry.backoff.max.ms", full["retry.backoff.ms"]),
    }
    return derived | ({"acks": "all", "retries": _RETRIES_WITHOUT_END} if idempotent else {})


def _of_librdkafka(explicit: Mapping[str, Setting], release: Release) -> dict[str, Setting]:
    """Returns the settings that librdkafka derives from `explicit`.

    A transactional.id implies idempotence. Idempotence implies acks=all, retries without end, and at most five requests
    in flight.
    """
    derived: dict[str, Setting] = {"enable.idempotence": is_idempotent(explicit, release)}
    if derived["enable.idempotence"]:
        derived |= {"acks": "all", "retries": _RETRIES_WITHOUT_END, _IN_FLIGHT: releases.MOST_IN_FLIGHT}
    full = {**release.defaults, **explicit}
    return derived | {"retry.backoff.max.ms": full.get("retry.backoff.max.ms", full["retry.backoff.ms"])}
