"""What the Java client logs when it starts: `ProducerConfig values:` or `ConsumerConfig values:`, and then a line
`name = value` for every setting that it knows.

Source: `AbstractConfig.logAll` of Apache Kafka. A setting without a value is logged as null, a list in brackets, and a
password as [hidden].
"""

from __future__ import annotations

import re

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings.reading import Reading, Role

_HEAD = re.compile(r"(?:[^#!].*)?\b(?P<config>[A-Z]\w*Config) values:\s*")
_PAIR = re.compile(r"\s*(?P<name>[a-z][\w.-]*) =(?: (?P<value>.*))?")
_OTHER_PAIR = re.compile(r"\s*[a-z][\w.-]*\s*[=:]")
"""Matches a setting as only a .properties file has it."""
_CONFIGS: dict[Role, str] = {"producer": "ProducerConfig", "consumer": "ConsumerConfig"}
_NO_VALUE = "null"
_WITHOUT_EFFECT = ("internal.", "share.")
"""What names begin with that every client logs, and that change nothing: a share consumer has a head of its own."""
_SINCE_3_3 = "partitioner.adaptive.partitioning.enable"
"""A property that ProducerConfig has since Kafka 3.3 (KIP-794): a log without it may be of an older client."""


def is_log(text: str) -> bool:
    """Returns whether the Java client has logged `text`."""
    return any(_HEAD.fullmatch(line) for line in text.splitlines())


def read(text: str, role: Role, field: str) -> Reading:
    """Returns the settings of the producer or consumer in the log.

    Raises BadInput for another role, if the log has none or several of this role, and for a setting before the first
    head or in another form.
    """
    if role not in _CONFIGS:
        raise BadInput(f"{field} is a log of a client, which has no topic settings; give the topic's own")
    logged = _logged(text, field)
    own = [settings for config, settings in logged if config == _CONFIGS[role]]
    if len(own) != 1:
        raise BadInput(
            f"{field} is a log with {len(own)} times {_CONFIGS[role]} values; allowed: 1; leave out the others"
        )
    reading = Reading(client="java")
    reading.put_all({name: _plain(value) for name, value in own[0].items() if _has_value(name, value)})
    reading.leave_out([name for name in own[0] if name.startswith(_WITHOUT_EFFECT)], "no part in what is promised")
    if role == "producer" and reading.settings.get("enable.idempotence") == "true" and _SINCE_3_3 not in own[0]:
        reading.not_known_of = ((3, 0, 0), (3, 1, 0))
    return reading


def _logged(text: str, field: str) -> list[tuple[str, dict[str, str]]]:
    """Returns each class of settings in the log, with the values below its head."""
    logged: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        if head := _HEAD.fullmatch(line):
            logged.append((head["config"], {}))
        elif pair := _PAIR.fullmatch(line):
            if not logged:
                raise BadInput(f"{field} is a log with a setting before the line ProducerConfig values; remove it")
            logged[-1][1][pair["name"]] = (pair["value"] or "").strip()
        elif _OTHER_PAIR.match(line):
            raise BadInput(f"{field} is a log of a client with a line that the client does not log; remove that line")
    return logged


def _has_value(name: str, value: str) -> bool:
    return value not in ("", _NO_VALUE) and not name.startswith(_WITHOUT_EFFECT)


def _plain(value: str) -> str:
    """Returns the value as a file has it: lists without brackets, and classes by their names."""
    items = value[1:-1].split(",") if value.startswith("[") and value.endswith("]") else [value]
    return ",".join(item.strip().removeprefix("class ") for item in items)
