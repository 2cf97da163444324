"""Placeholders in values: Spring's `${NAME:default}`, and names that Maven replaces when it builds an application,
`@name@`.

A placeholder stands for a property of the same file or, if there is none, for its default. Spring asks the environment
first (Spring Boot reference, "Externalized Configuration"), which nobody knows here: so a default is always reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from delivery_verifier.model.errors import VerifierError

FILTERED = "\ue000"
"""A character that stands for `@` around a name of Maven. YAML allows no plain value that begins with `@`."""
_MAVEN = re.compile(r"@([\w.-]+)@")
_FILTERED = re.compile(rf"[@{FILTERED}]([\w.-]+)[@{FILTERED}]")
_SECRET = re.compile(r"pass|pwd|pw\b|secret|token|credential|jaas", re.IGNORECASE)
_DEEPEST = 20
"""The greatest number of placeholders inside each other. Spring refuses placeholders that name each other."""


class UnknownValue(VerifierError, ValueError):
    """The value cannot be known from the file. The text of the error is the placeholder, without its default."""


def readable(text: str) -> str:
    """Returns `text`, a YAML file that Maven has yet to filter, in a form that is valid YAML."""
    return _MAVEN.sub(rf"{FILTERED}\1{FILTERED}", text)


class Placeholders:
    """Replaces placeholders. `lookup` returns the value of a property in the same file, or None.

    `used` collects the names of the placeholders that were replaced. `defaulted` collects those of them for which the
    default was taken.
    """

    def __init__(self, lookup: Callable[[str], str | None]) -> None:
        self._lookup = lookup
        self.used: set[str] = set()
        self.defaulted: list[str] = []

    def replaced(self, value: str, depth: int = 0) -> str:
        """Returns `value` with every placeholder replaced. Raises UnknownValue if one has no value in the file."""
        if maven := _FILTERED.search(value):
            raise UnknownValue(f"@{maven[1]}@")
        start = value.find("${")
        if start < 0:
            return value
        end = _end(value, start + 2)
        if end < 0 or depth > _DEEPEST:
            raise UnknownValue("${...}")
        name, colon, default = value[start + 2 : end].partition(":")
        inner = self._value(name.strip(), default if colon else None, depth)
        return value[:start] + inner + self.replaced(value[end + 1 :], depth)

    def _value(self, name: str, default: str | None, depth: int) -> str:
        if "${" in name:
            raise UnknownValue("${...}")
        if _SECRET.search(name):  # its default may be a password, and no message may show one
            raise UnknownValue(f"${{{name}}}")
        value = self._lookup(name)
        self.used.add(name)
        if value is not None:
            return self.replaced(value, depth + 1)
        if default is None:
            raise UnknownValue(f"${{{name}}}")
        self.defaulted.append(name)
        return self.replaced(default, depth + 1)


def _end(value: str, start: int) -> int:
    """Returns the index of the brace that ends a placeholder whose name starts at `start`; -1 if there is none."""
    depth = 1
    for index in range(start, len(value)):
        if value.startswith("${", index):
            depth += 1
        elif value[index] == "}" and (depth := depth - 1) == 0:
            return index
    return -1
