"""Profiles of the user's own: built from files, changed by overrides, saved under a name, and read back strictly.

A saved file is refused if it has an unknown field, or a value of a wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.host import folders
from delivery_verifier.model.data import Setting, dumps
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.choices import OWN
from delivery_verifier.planning.own_settings import (
    clients,
    consumer,
    files,
    java_properties,
    librdkafka,
    producer,
    properties,
    releases,
    topic,
)
from delivery_verifier.planning.own_settings.clients import ClientVersion
from delivery_verifier.planning.own_settings.reading import Reading, require_client
from delivery_verifier.planning.own_settings.translation import Translation

RESERVED = frozenset({*catalogue.PROFILES, catalogue.CANARY, OWN})
"""Names under which no profile can be saved."""
SAVED = "saved-"
"""What stands before the name of a saved profile, if the catalogue has a profile of this name by now."""


def folder() -> Path:
    """Returns the folder of the saved profiles."""
    return folders.home() / "profiles"


def known() -> dict[str, Profile]:
    """Returns all profiles by name: first the profiles of the catalogue, then the saved profiles.

    Leaves out saved profiles whose files cannot be read.
    """
    return {**catalogue.PROFILES, **saved()}


def saved() -> dict[str, Profile]:
    """Returns the saved profiles by name. Leaves out profiles whose files cannot be read."""
    results = (read(file) for file in sorted(folder().glob("*.json")))
    return {result.name: result for result in results if isinstance(result, Profile)}


def unreadable() -> dict[str, str]:
    """Finds the saved profiles that cannot be read. Maps the name of each such file to a text that says what is
    wrong."""
    results = {file.name: read(file) for file in sorted(folder().glob("*.json"))}
    return {name: result for name, result in results.items() if isinstance(result, str)}


def read(file: Path) -> Profile | str:
    """Returns the profile in `file`. If the file holds no valid profile, returns a text that says what is wrong.

    A later catalogue may have taken the name. The saved profile is then called `saved-` and its name.
    """
    try:
        profile = msgspec.json.decode(file.read_bytes(), type=Profile)
    except (OSError, msgspec.MsgspecError) as error:
        return str(error)
    if profile.name != file.stem:
        return f"its field name is {profile.name!r}; allowed: the name of the file, {file.stem!r}; change one of them"
    if profile.name in catalogue.PROFILES:
        return replace(profile, name=f"{SAVED}{profile.name}")
    if profile.name in RESERVED:
        return f"its name is {profile.name!r}, which is reserved; rename the file, and the field name in it"
    return profile


def require_unambiguous(name: str) -> None:
    """Raises BadInput if `name` is the name of a profile of the catalogue, and a saved profile had this name before.

    Otherwise a command that ran with the saved profile would run with other settings, and nobody would notice.
    """
    file = folder() / f"{name}.json"
    if name in catalogue.PROFILES and file.is_file():
        raise BadInput(
            f"profile is {name!r}, which you have saved, and which the catalogue has by now; allowed: {SAVED}{name} "
            f"for yours; for that of the catalogue, rename or remove {file}"
        )


def save(profile: Profile, name: str) -> Profile:
    """Saves the profile under `name`. Replaces a saved profile with this name. Returns the profile with its new name.

    Raises BadInput if `name` is in RESERVED, begins with `control-` or `saved-`, or breaks the rules for names.
    """
    if name in RESERVED or name.startswith(("control-", SAVED)):
        raise BadInput(f"save_profile is {name!r}: a name of the catalogue, or reserved; choose another name")
    try:
        named = msgspec.convert({**msgspec.to_builtins(profile), "name": name}, Profile)
    except msgspec.ValidationError as error:
        raise BadInput(f"save_profile is {name!r}: {error}. Allowed: letters, digits, _ . -") from None
    folder().mkdir(parents=True, exist_ok=True)
    (folder() / f"{name}.json").write_bytes(dumps(named))
    return named


def from_files(
    base: Profile | None,
    producer_file: str | None,
    topic_file: str | None,
    consumer_file: str | None,
    client: str | None,
) -> Profile:
    """Returns the profile that the files describe.

    `client` is the client for which the producer file was written, e.g. `java` or `java:3.1` (see `clients.parse`). If
    `client` is None, the property names in the file decide. With a producer file but no topic file, the topic has
    Kafka's own defaults. Settings that no file describes are taken from `base` or, without a base, from the profile
    safe. The consumer file is checked, but not used.

    Raises BadInput, which names the file, or each refused property of the files. If librdkafka refuses the settings,
    the message gives librdkafka's reason.
    """
    profile = base or _without_notes(catalogue.PROFILES["safe"])
    errors = ValidationErrors()
    if producer_file:
        with errors:
            profile = _with_producer(profile, files.read_file(producer_file, "producer_config"), client)
    if producer_file or topic_file:
        with errors:
            profile = _with_topic_file(profile, topic_file)
    if consumer_file:
        with errors:
            profile = _with_consumer_file(profile, consumer_file)
    errors.require_none()
    sources = [Path(name).name for name in (producer_file, topic_file) if name]
    if not sources:
        return profile
    _require_consistent(profile)
    return replace(profile, name=OWN, summary=f"Settings from {' and '.join(sources)}.")


def pasted(text: str, client: str | None) -> Profile:
    """Returns the profile that `text` describes: a whole file of producer settings, which a user pasted into a form.

    The result is that of `from_files` with this producer file and no other file. `client`: as there. Raises BadInput,
    which names each refused property.
    """
    reading = files.read_text(text, "producer_config")
    profile = _with_producer(_without_notes(catalogue.PROFILES["safe"]), reading, client)
    profile = _with_topic_file(profile, None)
    _require_consistent(profile)
    return replace(profile, name=OWN, summary="The settings pasted into the form.")


def _require_consistent(profile: Profile) -> None:
    """Raises BadInput if the settings contradict each other, or brokers."""
    try:
        Settings.of_profile(profile)
    except ContradictorySettings as error:
        raise BadInput(str(error)) from None


def _without_notes(profile: Profile) -> Profile:
    return replace(profile, notes=())


def _with_producer(profile: Profile, reading: Reading, client: str | None) -> Profile:
    """Returns `profile` with the producer settings of `reading`, completed by the client's own defaults.

    Raises BadInput, which names each property that is wrong by itself. If there is none, names the first property that
    contradicts another one.
    """
    errors, chosen = ValidationErrors(), None
    with errors:
        require_client(reading, client, "producer_config")
        chosen = clients.parse(client or reading.client or clients.client_of(reading.settings))
    producer.check_each(reading.settings, chosen.client if chosen else "librdkafka", errors)
    errors.require_none()
    assert chosen is not None
    if reading.since:
        since, what = reading.since
        named, chosen = chosen, clients.that_has(chosen, what, since, "producer_config")
        if named != chosen:
            reading.notes.append(
                f"{what}: Kafka has it since {releases.text(since)}, so nothing is said of clients before it; the "
                f"defaults are those of {chosen.name}, unless you name your version, e.g. java:{releases.text(since)}"
            )
    clients.require_known(chosen, reading.not_known_of, "producer_config")
    translation = reading.over(producer.translate(reading.settings, chosen.client))
    return of_client(profile, translation, chosen, reading.settings)


def of_client(
    profile: Profile, translation: Translation, client: ClientVersion, settings: Mapping[str, str]
) -> Profile:
    """Returns `profile` with the producer settings of `translation`, completed by the defaults of `client`. `settings`
    are the settings that were translated.

    Raises BadInput if `client` does not start with the settings.
    """
    completed = producer.with_defaults(translation, client)
    own = java_properties.as_written(settings) if client.client == "java" else {}
    return replace(
        profile,
        producer=completed.settings,
        java_properties=own,
        notes=(*profile.notes, *completed.lines()),
        written_for=client.client,
        written_for_version=releases.text(client.version),
        written=translation.settings,
    )


def _with_topic_file(profile: Profile, file: str | None) -> Profile:
    """Returns `profile` with the topic settings of `file`, completed by Kafka's own defaults.

    If `file` is None, the topic has only the defaults. Raises BadInput, which names each refused property.
    """
    reading = files.read_file(file, "topic_config") if file else Reading()
    errors = ValidationErrors()
    topic.check_each(reading.settings, errors)
    errors.require_none()
    translation = reading.over(topic.with_defaults(topic.translate(reading.settings)))
    return replace(profile, topic=translation.settings, notes=(*profile.notes, *translation.lines()))


def _with_consumer_file(profile: Profile, file: str) -> Profile:
    """Checks the consumer settings of `file`, and does not use them. Returns `profile` with notes about these
    settings."""
    reading = files.read_file(file, "consumer_config")
    translation = reading.over(consumer.translate(reading.settings))
    librdkafka.check_consumer(translation.settings)
    return replace(profile, notes=(*profile.notes, *translation.lines()))


def overridden(profile: Profile, producer_text: str, topic_text: str) -> Profile:
    """Returns `profile` with the settings in the two texts. These settings replace settings of `profile` with the same
    names.

    Each text is in .properties syntax. The producer's properties are read as librdkafka's, and only those with `java.`
    in front as the Java client's. Raises BadInput, whose message names the first refused property. To learn of all
    refused properties, call `check_overrides`.
    """
    if not producer_text.strip() and not topic_text.strip():
        return profile
    entries, javas = _of_producer(producer_text)
    producer_changes = producer.translate(entries, "librdkafka", transactional="transactional.id" in profile.producer)
    own = {**java_properties.without(profile.java_properties, producer_changes.settings), **javas}
    written = None if profile.written is None else {**profile.written, **producer_changes.settings}
    producer_changes.settings = {**profile.producer, **producer_changes.settings}
    if "transactional.id" in entries:
        producer_changes = producer.with_transactions(producer_changes)
    topic_changes = topic.translate(properties.parse(topic_text, "topic_overrides"))
    return replace(
        profile,
        name=OWN,
        summary=f"The profile {profile.name} with overrides.",
        producer=producer_changes.settings,
        java_properties=own,
        topic=profile.topic | topic_changes.settings,
        notes=(*profile.notes, *producer_changes.lines(), *topic_changes.lines()),
        written=written,
    )


def _of_producer(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the overrides of a producer: those with librdkafka's names, and those for the Java client alone, by its
    own names. Raises BadInput if a run may not give one of the latter to the Java client."""
    entries = properties.parse(text, "producer_overrides")
    prefix = java_properties.PREFIX
    javas = {name.removeprefix(prefix): value for name, value in entries.items() if name.startswith(prefix)}
    java_properties.require_kept(javas, "producer_overrides")
    return {name: value for name, value in entries.items() if not name.startswith(prefix)}, javas


def check_overrides(producer_text: str, topic_text: str, errors: ValidationErrors) -> None:
    """Adds an error to `errors` for each setting in the two texts that `overridden` would refuse."""
    with errors:
        entries, _ = _of_producer(producer_text)
        producer.check_each(entries, "librdkafka", errors)
    with errors:
        topic.check_each(properties.parse(topic_text, "topic_overrides"), errors)


def options(profile: Profile) -> dict[str, list[str]]:
    """Returns the options of `kdv` that describe `profile`. Maps each option to its values.

    If a known profile with the same name equals `profile`, the only option gives this name. Otherwise the options give
    the profile safe, and an override for each setting of `profile` that differs from safe, or that the Java client gets
    as it was written.
    """
    if known().get(profile.name) == profile:
        return {"--profile": [profile.name]}
    safe, own = catalogue.PROFILES["safe"], dict(sorted(profile.java_properties.items()))
    return {
        "--profile": [safe.name],
        "--producer-override": [
            *properties.lines(_differences(profile.producer, safe.producer)),
            *properties.lines({f"{java_properties.PREFIX}{name}": text for name, text in own.items()}),
        ],
        "--topic-override": list(properties.lines(_differences(profile.topic, safe.topic))),
    }


def _differences(settings: Mapping[str, Setting], base: Mapping[str, Setting]) -> dict[str, Setting]:
    """Returns those of `settings` that `base` lacks or has with other values, sorted by name."""
    return {name: value for name, value in sorted(settings.items()) if name not in base or base[name] != value}
