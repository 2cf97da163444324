"""The translation of a user's own producer properties into librdkafka's names and units, completed by defaults.

The properties were written for the Java client or for librdkafka. The defaults come from the same client, in the
version that the user named (see `clients.ClientVersion`).
"""

from __future__ import annotations

from collections.abc import Mapping

from delivery_verifier.model import inputs
from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.planning.own_settings import client_values, clients, effective, known_names, librdkafka, values
from delivery_verifier.planning.own_settings.clients import ClientVersion
from delivery_verifier.planning.own_settings.producer_names import (
    EXERCISED,
    INERT,
    LEFT_OUT,
    ONLY_VALUE,
    REFUSED,
    SAME,
    SERIALIZERS,
)
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.translation import (
    WITHHELD,
    Translation,
    defaults_in_words,
    printable_name,
)

LEVELS = {f"compression.{codec}.level": codec for codec in ("gzip", "lz4", "zstd")}
"""Java's names of compression levels, each with the value of compression.type for which the level counts."""
_KNOWN_TO_LIBRDKAFKA = ("librdkafka", "librdkafka producer", "librdkafka consumer")
_ALL_NAMES = (*EXERCISED, *SAME, *LEFT_OUT, *REFUSED, *LEVELS, "buffer.memory", "bootstrap.servers")


def translate(properties: Mapping[str, str], client: Client, transactional: bool = False) -> Translation:
    """Returns the translation of the given producer properties, which were written for `client`.

    The result has librdkafka's names and units. `transactional`: whether the properties override a profile with a
    transactional.id. If neither this profile nor the properties have one, transaction.timeout.ms is left out. Raises
    BadInput, whose message names the refused property.
    """
    translation = Translation()
    for name, text in properties.items():
        if is_withheld(name):
            translation.leave_out(name, WITHHELD)
        elif client == "java" and known_names.is_librdkafkas(name) and name not in REFUSED:
            translation.leave_out(name, "librdkafka's property: the Java client does not use it")
        elif name in LEFT_OUT:
            if client == "java" and (reason := client_values.refusal(name, text, client)):
                raise BadInput(f"{name} is {text!r}, and {reason}")
            translation.leave_out(name, _without_effect(name, LEFT_OUT[name], client))
        elif known_names.is_serializers(name):
            translation.leave_out(name, SERIALIZERS)
        elif name == "transaction.timeout.ms" and not (transactional or "transactional.id" in properties):
            translation.leave_out(name, _without_effect(name, INERT, client))
        elif name in REFUSED or name.startswith("test."):
            raise BadInput(f"{name} cannot be verified: {REFUSED.get(name, 'it replaces the cluster under test')}")
        elif not _take_over(translation, name, text, properties, client):
            _leave_out_or_refuse(translation, name, client)
    return translation


def _without_effect(name: str, reason: str, client: Client) -> str:
    """Returns why a property is left out, and that the Java client gets it, if it was written for that one."""
    is_javas = client == "java" and known_names.reaches_java(name)
    return f"{reason}; an arm with the Java client gets it" if is_javas else reason


def _leave_out_or_refuse(translation: Translation, name: str, client: Client) -> None:
    """Leaves out a property that belongs to somebody else: one file may be for all clients.

    Raises BadInput for a name that nobody has. librdkafka starts with its own consumer's properties alone, and the Java
    client with any name: it logs a warning.
    """
    owner = known_names.owner(name)
    text = f"{printable_name(name)} is no producer property of Kafka"
    if owner is None:
        raise BadInput(f"{text}{known_names.hint(name, _ALL_NAMES)}")
    if client == "librdkafka" and not any(name in known_names.names(owned) for owned in _KNOWN_TO_LIBRDKAFKA):
        raise BadInput(f"{text}, but {owner}, and librdkafka does not start with it; remove it here{_place_of(owner)}")
    translation.leave_out(name, f"{owner} property: a producer does not use it{_place_of(owner)}")


def _place_of(owner: str) -> str:
    return "; --topic-config FILE takes it" if owner == known_names.OWNERS["topic"] else ""


def _take_over(translation: Translation, name: str, text: str, properties: Mapping[str, str], client: Client) -> bool:
    """Puts the property `name` with the value `text` into `translation`, under librdkafka's name and in librdkafka's
    unit.

    Returns whether the property is known. `properties` are all properties of the user.
    """
    librdkafka_name = SAME.get(name, name)
    if name == "buffer.memory":
        translation.put("queue.buffering.max.kbytes", max(1, values.whole_number(name, text) // 1024), name)
    elif name in LEVELS:
        if properties.get("compression.type") == LEVELS[name]:
            translation.put("compression.level", values.whole_number(name, text), name)
        else:
            translation.leave_out(name, "compression.type is another")
    elif name == "metadata.max.age.ms" and client == "java":
        translation.put("topic.metadata.refresh.interval.ms", values.whole_number(name, text), name)
    elif name == "batch.size":
        # A batch.size of 0 in Java and of 1 in librdkafka both mean batches of one record.
        translation.put(name, max(1, values.whole_number(name, text)), name)
    elif librdkafka_name in EXERCISED:
        translation.put(librdkafka_name, client_values.typed(name, librdkafka_name, text, client), name)
    else:
        return False
    return True


def check_each(properties: Mapping[str, str], client: Client, errors: ValidationErrors) -> None:
    """Adds an error to `errors` for each of the producer properties that is wrong whatever the others are. A number
    that the Java client takes is not wrong in a file for that client, although librdkafka's limits are narrower."""
    for name, text in properties.items():
        with errors:
            settings = translate({name: text}, client, transactional=True).settings
            librdkafka.check_value(name, fitted(settings) if client == "java" else settings)


def with_defaults(translation: Translation, client: ClientVersion) -> Translation:
    """Returns the translation, completed by the defaults of `client` and by notes: which defaults these are, what a run
    exercises, and which values librdkafka's limits change.

    Raises BadInput if `client` does not start with the settings.
    """
    explicit = translation.settings
    full = effective.settings(explicit, client.release, client.name)
    if client.client == "java":
        full = fitted(full)
    defaults = {name: value for name, value in full.items() if name not in explicit}
    notes = [*translation.notes, f"the defaults of {client.name} fill the gaps: {defaults_in_words(defaults)}"]
    if client.client == "java":
        notes += [
            f"{name}={explicit[name]} is beyond the limits of {clients.EXERCISED}; an arm with it exercises "
            f"{full[name]}"
            for name in explicit
            if full[name] != explicit[name]
        ]
        notes.append("an arm with librdkafka has these settings, and is not the Java client itself")
    elif not client.is_exercised:
        notes.append(f"an arm with librdkafka has these settings with {clients.EXERCISED}, not with {client.name}")
    return with_transactions(Translation(full, translation.left_out, notes))


def fitted(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Returns `settings`, written for the Java client. A number that the Java client takes, and librdkafka does not, is
    replaced by the nearest number that librdkafka takes."""
    return {
        name: librdkafka.nearest(name, value) if effective.java_takes(name, value) else value
        for name, value in settings.items()
    }


def with_transactions(translation: Translation) -> Translation:
    """If the translation has a transactional.id, returns it with the other settings that a transactional.id requires,
    and with notes about these settings. Otherwise returns it unchanged.

    Timeouts longer than transaction.timeout.ms are lowered to the value of transaction.timeout.ms.
    """
    settings, notes = dict(translation.settings), list(translation.notes)
    if "transactional.id" not in settings:
        return translation
    base = settings["transactional.id"]
    notes.append(
        f"transactional.id: every producer has one of its own, {base}-<arm>-<number>, for two with the same would "
        "fence each other"
    )
    if "transaction.timeout.ms" not in settings:
        settings["transaction.timeout.ms"] = clients.TRANSACTION_TIMEOUT_MS
        notes.append(f"the default fills the gap: transaction.timeout.ms={clients.TRANSACTION_TIMEOUT_MS}")
    longest_ms = values.whole_number("transaction.timeout.ms", str(settings["transaction.timeout.ms"]))
    for name in ("delivery.timeout.ms", "socket.timeout.ms"):
        if name in settings and values.whole_number(name, str(settings[name])) > longest_ms:
            settings[name] = longest_ms
            notes.append(f"{name}={longest_ms}: librdkafka allows no more than transaction.timeout.ms")
    return Translation(settings, translation.left_out, notes)


def check(settings: Mapping[str, Setting]) -> None:
    """Raises BadInput if `settings` has a producer property that the verifier's own producers cannot have.

    The producers can have only properties in EXERCISED. A property in ONLY_VALUE must have the value that stands there.
    """
    for name, value in settings.items():
        if name in ONLY_VALUE and setting_text(value) != ONLY_VALUE[name][0]:
            raise inputs.bad_input(name, value, *ONLY_VALUE[name])
        if name not in EXERCISED:
            raise BadInput(
                f"{printable_name(name)} is no producer property that can be verified"
                f"{known_names.hint(name, EXERCISED)}"
            )
