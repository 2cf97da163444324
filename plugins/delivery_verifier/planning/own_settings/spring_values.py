"""Values in Spring Boot's files: sizes, times and truth values in Spring's forms, in the form that Kafka takes.

Source: Spring Boot reference, "Externalized Configuration" (Converting Durations, Converting Data Sizes).
"""

from __future__ import annotations

import re
from decimal import Decimal

from delivery_verifier.planning.own_settings.spring_names import Kind

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_TIMES_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_SIZE = re.compile(r"([0-9]+)(B|KB|MB|GB|TB)")
_TIME = re.compile(r"\+?([0-9]+)(ns|us|ms|s|m|h|d)", re.IGNORECASE)
_ISO_TIME = re.compile(
    r"\+?P(?:(?P<d>[0-9]+)D)?(?:T(?:(?P<h>[0-9]+)H)?(?:(?P<m>[0-9]+)M)?(?:(?P<s>[0-9]+(?:[.,][0-9]{1,9})?)S)?)?",
    re.IGNORECASE,
)
_BOOLEANS = {"true": "true", "on": "true", "yes": "true", "1": "true"} | dict.fromkeys(
    ("false", "off", "no", "0"), "false"
)
_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}|[@\ue000][\w.-]+[@\ue000]")


def plain(name: str, value: str, kind: Kind) -> str | None:
    """Returns `value` as the Kafka client expects it: a size in bytes, a time in ms, true or false, and the value of
    an enum in Kafka's spelling. Any other value stays as it is.

    Returns None for an empty value that leaves the property unset: Spring converts it to nothing, and a producer
    without an id has no transactions.
    """
    if not value and (kind != "text" or name == "transactional.id"):
        return None
    if kind == "size" and (size := _SIZE.fullmatch(value)):
        return str(int(size[1]) * _UNITS[size[2]])
    if kind == "duration":
        return _milliseconds(value)
    if kind == "bool":
        return _BOOLEANS.get(value.lower(), value)
    if kind == "enum":  # Spring binds the value to an enum, in any of these forms
        return value.lower().replace("-", "_")
    return value


def without_placeholders(value: str) -> str:
    """Returns the value of transaction-id-prefix without placeholders, if a text remains: that Spring gives producers
    an id is known then, and which one it is plays no part. Otherwise returns `value`."""
    if "${random." in value:
        value = f"random{value}"
    return _PLACEHOLDER.sub("", value).strip() or value


def _milliseconds(value: str) -> str:
    """Returns a time in milliseconds, as `DurationStyle` of Spring Boot reads it: a number with a unit in any case, or
    a duration of ISO 8601. A number without a unit has milliseconds. Anything else stays as it is."""
    if time := _TIME.fullmatch(value):
        return str(int(time[1]) * _TIMES_NS[time[2].lower()] // 10**6)
    if (iso := _ISO_TIME.fullmatch(value)) and any(iso.groups()):
        days, hours, minutes = (int(iso[unit] or 0) for unit in ("d", "h", "m"))
        seconds = Decimal((iso["s"] or "0").replace(",", "."))
        return str(int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000))
    return value
