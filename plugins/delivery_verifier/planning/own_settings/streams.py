"""Kafka Streams: what its producers have in force.

A name with `producer.` counts before the same name without. Streams lays both over settings of its own, and under
processing.guarantee=exactly_once_v2 it sets idempotence and the transactional.id itself, whatever the file says.

Source: `StreamsConfig` of Apache Kafka 3.9.1 and 4.3.1 (getProducerConfigs), whose results for these settings were
compared with this module; `StreamsProducer`, which gives each thread its transactional.id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import known_names
from delivery_verifier.planning.own_settings.reading import Reading, Role, require_no_transactional_id

_GUARANTEE = "processing.guarantee"
_AT_LEAST_ONCE, _EXACTLY_ONCE = "at_least_once", "exactly_once_v2"
_BEFORE_4 = ("exactly_once", "exactly_once_beta")
"""Values of processing.guarantee with which Kafka Streams 4 does not start."""
_PREFIX = "producer."
_DEFAULTS: dict[str, dict[str, str]] = {
    _AT_LEAST_ONCE: {"linger.ms": "100"},
    _EXACTLY_ONCE: {"linger.ms": "100", "delivery.timeout.ms": "2147483647", "transaction.timeout.ms": "10000"},
}
"""What Streams gives its producers where the file says nothing, by processing.guarantee."""
_FORCED = ("enable.idempotence", "transactional.id")
"""What Streams sets itself under exactly_once_v2."""


def is_streams(names: Iterable[str]) -> bool:
    """Returns whether the names are those of a Kafka Streams application."""
    return any(name in ("application.id", _GUARANTEE) for name in names)


def read(entries: Mapping[str, str], role: Role, field: str) -> Reading:
    """Returns what Kafka Streams with these properties gives its producers.

    Raises BadInput for another role, for a processing.guarantee with which Streams 4 does not start, and for a
    transactional.id that Streams does not use.
    """
    if role != "producer":
        raise BadInput(
            f"{field} is a file of Kafka Streams, of which only the producers are read: Streams itself says when its "
            "consumers commit, and creates its topics"
        )
    guarantee = _guarantee(entries, field)
    reading = Reading(client="java")
    bare = {name: value for name, value in entries.items() if name in known_names.names("producer")}
    prefixed = {name[len(_PREFIX) :]: value for name, value in entries.items() if name.startswith(_PREFIX)}
    reading.put_all({**bare, **prefixed})
    read_names = {*bare, *(f"{_PREFIX}{name}" for name in prefixed)}
    if guarantee == _EXACTLY_ONCE:
        _force(reading, read_names)
    else:
        require_no_transactional_id(
            reading,
            field,
            f"Kafka Streams with {_GUARANTEE}={_AT_LEAST_ONCE}",
            f", or write {_GUARANTEE}={_EXACTLY_ONCE}",
        )
    reading.leave_out(
        [name for name in entries if name not in read_names], "Kafka Streams' own, or without effect on its producers"
    )
    reading.lay_beneath(_DEFAULTS[guarantee], "Kafka Streams")
    if guarantee == _AT_LEAST_ONCE:
        reading.notes.append(
            f"{_GUARANTEE}={_AT_LEAST_ONCE}: after a failure Kafka Streams processes records again, and sends their "
            "results again: see the class of faults `resend`"
        )
    return reading


def _guarantee(entries: Mapping[str, str], field: str) -> str:
    guarantee = entries.get(_GUARANTEE, _AT_LEAST_ONCE)
    if guarantee in _DEFAULTS:
        return guarantee
    same = f"; write {_EXACTLY_ONCE}, with which its producers have the same settings" if guarantee in _BEFORE_4 else ""
    raise BadInput(
        f"{field}: {_GUARANTEE} has a value with which Kafka Streams 4 does not start; allowed: {_AT_LEAST_ONCE}, "
        f"{_EXACTLY_ONCE}{same}"
    )


def _force(reading: Reading, read_names: set[str]) -> None:
    """Sets what Streams sets itself, and says which names of the file have no effect therefore."""
    written = sorted(name for name in read_names if name.removeprefix(_PREFIX) in _FORCED)
    reading.put_all({"enable.idempotence": "true", "transactional.id": "streams"})
    reading.since = ((3, 0), f"{_GUARANTEE}={_EXACTLY_ONCE}")  # KIP-732
    reading.leave_out(
        written, f"Kafka Streams sets it itself under {_GUARANTEE}={_EXACTLY_ONCE}, so the file's has no effect"
    )
    reading.notes.append(
        f"{_GUARANTEE}={_EXACTLY_ONCE}: Kafka Streams sets enable.idempotence=true, and gives each producer a "
        "transactional.id"
    )
