"""What was read from a user's file of settings, before any property is translated.

Every format (see `files`) gives a Reading. What its framework does not read is not among the settings: it is left out
by name, with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from delivery_verifier.model.client import Client
from delivery_verifier.model.data import setting_text
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.releases import Version
from delivery_verifier.planning.own_settings.translation import Translation, printable_name

Role = Literal["producer", "consumer", "topic"]
"""Whose settings a file holds."""
NO_VALUE = "the file does not have the value, and no promise depends on it"
"""Why a property with a placeholder is left out."""
NOT_KNOWN = (
    "give what the Java client logs when it starts, ProducerConfig values or ConsumerConfig values, or the settings "
    "that are in force as a .properties file"
)
"""What to do if a file does not show which settings are in force."""


def role_of(field: str) -> Role:
    """Returns whose settings the field of a run holds, e.g. `topic` for `topic_config`."""
    if field.startswith("topic"):
        return "topic"
    return "consumer" if field.startswith("consumer") else "producer"


@dataclass
class Reading:
    """The settings of one file.

    * `settings`: maps Kafka's own name of each property to its text. The text of a connection or security property is
      empty.
    * `client`: the client that the file's framework uses. None: the names decide.
    * `left_out`: maps a reason to the names that have no effect for this reason, as the file has them.
    * `notes`: sentences for the user.
    * `since`: the first version of Kafka that has what the file asks for, and what that is. None: every version may
      have read the file.
    * `not_known_of`: versions of the client of which the file does not show whether enable.idempotence is in force.
    """

    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    client: Client | None = None
    left_out: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    since: tuple[Version, str] | None = None
    not_known_of: tuple[Version, ...] = ()

    def put(self, name: str, value: object) -> None:
        """Adds a property under Kafka's own name. Replaces the property if it is there already."""
        self.settings[name] = "" if is_withheld(name) else setting_text(value).strip()

    def put_all(self, settings: Mapping[str, object]) -> None:
        """Adds all of `settings` (see `put`)."""
        for name, value in settings.items():
            self.put(name, value)

    def lay_beneath(self, defaults: Mapping[str, str], whose: str, role: str = "producer") -> None:
        """Adds settings that a framework gives its producers (or consumers: the `role`) where the file says nothing.
        `whose`: the framework."""
        missing = {name: value for name, value in defaults.items() if name not in self.settings}
        self.settings = {**missing, **self.settings}
        if missing:
            text = ", ".join(f"{name}={value}" for name, value in missing.items())
            self.notes.append(f"{whose} gives its {role}s, where the file says nothing: {text}")

    def leave_out(self, names: Iterable[str], reason: str) -> None:
        """Adds `names` to those that are left out for `reason`."""
        self.left_out.setdefault(reason, []).extend(map(printable_name, names))

    def over(self, translation: Translation) -> Translation:
        """Returns `translation`, the translation of `settings`, with the notes and names of this reading before its
        own."""
        left_out = {reason: list(names) for reason, names in self.left_out.items() if names}
        for reason, names in translation.left_out.items():
            left_out.setdefault(reason, []).extend(names)
        return Translation(translation.settings, left_out, [*self.notes, *translation.notes])


def require_no_transactional_id(reading: Reading, field: str, framework: str, remedy: str = "") -> None:
    """Raises BadInput if the settings have a transactional.id.

    For frameworks that begin no transactions: both clients refuse to send before initTransactions (`KafkaProducer` of
    Apache Kafka; `rd_kafka_init_transactions` of librdkafka). `remedy`: what else to do, as the end of a sentence.
    """
    if "transactional.id" in reading.settings:
        raise BadInput(
            f"{field} has a transactional.id, but {framework} begins no transaction, so its producer cannot send; "
            f"remove it{remedy}"
        )


def require_client(reading: Reading, client: str | None, field: str) -> None:
    """Raises BadInput if the user names another `client` than the one that the file's framework uses."""
    if client and reading.client and not client.startswith(reading.client):
        raise BadInput(
            f"written_for is {client!r}, but {field} is read by a framework whose client is {reading.client}; allowed: "
            f"{reading.client}; leave written_for out"
        )
