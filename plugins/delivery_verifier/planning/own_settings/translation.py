"""The translation of properties into those that the verifier's producers run with: its result and its messages.

Nothing is dropped in silence: every name is taken over, left out with its reason, or refused with BadInput. No message
shows a value of a name that is unknown or withheld.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from delivery_verifier.model import inputs
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.inputs import BadInput

WITHHELD = "how to reach a cluster and who one is there; the cluster under test is the verifier's own"
"""Why properties of connection and security are left out."""

_LIKE_A_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")


@dataclass
class Translation:
    """`settings` under librdkafka's names, the names that were left out by reason, and notes for the user."""

    settings: dict[str, Setting] = dataclasses.field(default_factory=dict)
    left_out: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    def leave_out(self, name: str, reason: str) -> None:
        """Notes that `name` is left out."""
        self.left_out.setdefault(reason, []).append(name)

    def put(self, name: str, value: Setting, alias: str) -> None:
        """Takes over a property, which the file calls `alias`.

        Raises BadInput if `name` has another value already, from a second name of the same property.
        """
        if self.settings.setdefault(name, value) != value:
            raise BadInput(f"{alias} says the same as {name}, which has another value: keep one of them")

    def lines(self) -> list[str]:
        """The notes, and then what was left out and why; one line each."""
        return [*self.notes, *(f"left out: {', '.join(names)} ({reason})" for reason, names in self.left_out.items())]


def defaults_in_words(defaults: Mapping[str, Setting]) -> str:
    """Defaults that fill gaps, as a note lists them."""
    return ", ".join(f"{name}={setting_text(value)}" for name, value in defaults.items()) or "there are none"


def printable_name(name: str) -> str:
    """The name, if the text looks like a name. Any other text may be part of a key or password, and is not shown."""
    if _LIKE_A_NAME.fullmatch(name) and len(name) <= 80:
        return name
    return "a name that is not shown (a value over several lines needs a backslash at the end of each)"


def hint(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: what the user can do."""
    near = inputs.nearest(name, known)
    return f"; did you mean {near}?" if near else "; remove it, or correct its name"
