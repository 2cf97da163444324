"""Lets librdkafka itself check settings, by creating a client with these settings. This needs no broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput

_OF_ONE_VALUE = re.compile("Invalid value|outside allowed range|Expected bool")
"""Matches a message of librdkafka about a value that is wrong whatever the other settings are."""
_RANGE = re.compile(r"outside allowed range (-?\d+)\.\.(-?\d+)")
"""Matches a message of librdkafka about a number, and finds the least and the greatest number that it takes."""
QUIET: dict[str, Setting] = {"log_level": 0}


def check_producer(settings: Mapping[str, Setting]) -> None:
    """Raises BadInput, with librdkafka's reason, if librdkafka refuses to create a producer with these settings."""
    from confluent_kafka import Producer

    _check(lambda: Producer({**QUIET, **settings}))


def check_value(name: str, settings: Mapping[str, Setting]) -> None:
    """Raises BadInput, with librdkafka's reason, if librdkafka refuses the value of one producer property. The other
    properties play no part in this.

    `name` is the name that the user wrote. `settings` are the settings into which the property was translated. If these
    settings only contradict each other, there is no error, because another setting may still resolve the contradiction.
    """
    try:
        check_producer(settings)
    except BadInput as error:
        if _OF_ONE_VALUE.search(str(error)):
            raise BadInput(f"{name}: {error}") from None


def nearest(name: str, value: Setting) -> Setting:
    """Returns the number nearest to `value` that librdkafka takes for the producer property `name`. Any other `value`
    is returned as it is, also a wrong one."""
    try:
        check_producer({name: value})
    except BadInput as error:
        if (limits := _RANGE.search(str(error))) and type(value) is int:
            return min(max(value, int(limits[1])), int(limits[2]))
    return value


def check_consumer(settings: Mapping[str, Setting]) -> None:
    """Raises BadInput, with librdkafka's reason, if librdkafka refuses to create a consumer with these settings."""
    from confluent_kafka import Consumer

    _check(lambda: Consumer({**QUIET, "group.id": "unnamed", **settings}).close())


def _check(create: Callable[[], object]) -> None:
    from confluent_kafka import KafkaException

    try:
        create()
    except KafkaException as error:
        raise BadInput(f"librdkafka refuses: {error.args[0].str().strip()}") from None
    except (TypeError, ValueError) as error:
        raise BadInput(f"librdkafka refuses: {error}") from None
