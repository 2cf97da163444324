"""The result of a translation, and the messages about it. A translation turns a user's properties into settings of the
verifier.

No property is dropped in silence: every property is taken over, left out with a reason, or refused with BadInput. No
message shows the value of an unknown property, or of a property that is left out for the reason WITHHELD.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass

from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import known_names

WITHHELD = "where a cluster is, and how to log in there; the cluster under test is the verifier's own"
"""The reason why properties of connection and security are left out."""

_LIKE_A_NAME = re.compile(r"[A-Z]?[a-z][a-z0-9]*([._-][a-z0-9]+)*")
_WORDS = frozenset(
    """
    acknowledgements batch bootstrap_servers broker brokers buffer codec compression consumer encoding format
    healthcheck hosts id idempotence inputs kafka key_field librdkafka_options match name producer sasl server servers
    spring timeout tls topic topic_id topics type
    """.split()
)
"""Names without a dot that frameworks give their own options. Such a word is no secret."""
_PART_OF_PATH = re.compile(r"[A-Z]{0,4}[a-z]*(?:[A-Z][a-z]+)*[0-9]{0,4}")
_ENVIRONMENT = re.compile(r"[A-Z]+(?:_[A-Z0-9]+)+")
"""Matches the name of a variable of the environment."""
_BETWEEN_PARTS = re.compile(r"->|[].\[_-]")
_LONGEST_NAME = 120


@dataclass
class Translation:
    """The result of a translation.

    `settings`: the properties that were taken over, under librdkafka's names. `left_out` maps a reason to the
    names of the properties that were left out for this reason. `notes`: sentences for the user.
    """

    settings: dict[str, Setting] = dataclasses.field(default_factory=dict)
    left_out: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    def leave_out(self, name: str, reason: str) -> None:
        """Adds the property `name` to the properties that are left out for `reason`."""
        self.left_out.setdefault(reason, []).append(name)

    def put(self, name: str, value: Setting, alias: str) -> None:
        """Takes over a property under librdkafka's `name`. `alias` is the property's name in the user's file.

        Raises BadInput if `name` already has another value, because the file gives the same property under two names.
        """
        if self.settings.setdefault(name, value) != value:
            raise BadInput(f"{alias} says the same as {name}, which has another value: keep one of them")

    def lines(self) -> list[str]:
        """Returns the lines that the user sees: the notes, and then one line per reason for leaving properties out.

        The line of a reason lists the properties that are left out for this reason.
        """
        return [*self.notes, *(f"left out: {', '.join(names)} ({reason})" for reason, names in self.left_out.items())]


def defaults_in_words(defaults: Mapping[str, Setting]) -> str:
    """Returns the names and values in `defaults` as one text for a note to the user, e.g. `a=1, b=2`."""
    return ", ".join(f"{name}={setting_text(value)}" for name, value in defaults.items()) or "there are none"


def _is_dotted(name: str) -> bool:
    return "." in name and _LIKE_A_NAME.fullmatch(name) is not None


def _is_known(name: str) -> bool:
    return name.lower() in _WORDS or known_names.is_spelling(name) or known_names.nearest_of_all(name) is not None


def _is_path(name: str) -> bool:
    """Returns whether `name` looks like a path of names, e.g. `app.kafkaProducer.acks`. A path has at least one dot,
    which few passwords have."""
    if _ENVIRONMENT.fullmatch(name):
        return True
    return "." in name and all(map(_PART_OF_PATH.fullmatch, _BETWEEN_PARTS.split(name)))


def printable_name(name: str) -> str:
    """Returns `name` if it looks like the name of a property, or is spelt like a known one, e.g. `batchSize` and
    `retires`. Otherwise returns a text that hides `name`.

    A text that does not look like a name may be part of a key or a password, and so may a single word: it is the value
    of the line before, if a line break slipped in.
    """
    if len(name) <= _LONGEST_NAME and (_is_dotted(name) or _is_path(name) or _is_known(name)):
        return name
    return (
        "a name (not shown: it may be part of a secret; a value of several lines needs \\ at the end of each but the "
        "last)"
    )
