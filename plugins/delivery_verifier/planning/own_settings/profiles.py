"""Profiles of the user's own: made from files, changed by overrides, saved under a name, and read back strictly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.host import folders
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.own_settings import librdkafka, properties, translation
from delivery_verifier.planning.own_settings.translation import Client

OWN = "own"
"""The name of a profile that nobody saved under another."""
RESERVED = frozenset({*catalogue.PROFILES, catalogue.CANARY, OWN})


def folder() -> Path:
    """Where saved profiles are."""
    return folders.home() / "profiles"


def known() -> dict[str, Profile]:
    """The catalogue's profiles, then the saved ones. A file that cannot be read is not among them (see `read`)."""
    return {**catalogue.PROFILES, **saved()}


def saved() -> dict[str, Profile]:
    """The saved profiles that can be read, by name."""
    found = (read(file) for file in sorted(folder().glob("*.json")))
    return {profile.name: profile for profile in found if isinstance(profile, Profile)}


def unreadable() -> dict[str, str]:
    """Files that should hold a profile, with what is wrong with each."""
    found = {file.name: read(file) for file in sorted(folder().glob("*.json"))}
    return {name: why for name, why in found.items() if isinstance(why, str)}


def read(file: Path) -> Profile | str:
    """The profile of a file, read strictly; or what is wrong with it."""
    try:
        profile = msgspec.json.decode(file.read_bytes(), type=Profile)
    except (OSError, msgspec.MsgspecError) as error:
        return str(error)
    if profile.name != file.stem or profile.name in RESERVED:
        return f"it names the profile {profile.name!r}, but the file allows {file.stem!r} only"
    return profile


def save(profile: Profile, name: str) -> Profile:
    """Writes the profile under `name`, over an older one of that name, and returns it so named. Raises BadInput."""
    if name in RESERVED or name.startswith("control-"):
        raise BadInput(f"save_profile is {name!r}, which is taken; choose another name")
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
    client: Client | None,
) -> Profile:
    """The profile that the files describe; what no file describes is `base`'s, or the defaults of client and broker.

    Raises BadInput naming file or property, and librdkafka's own reason where it refuses a value.
    """
    profile = base or catalogue.PROFILES["safe"]
    notes, files = list(profile.notes) if base else [], [name for name in (producer_file, topic_file) if name]
    if producer_file:
        given = properties.read_file(producer_file, "producer_config")
        client = client or translation.client_of(given)
        found = translation.filled(translation.producer(given, client), client)
        profile, notes = replace(profile, producer=found.settings), [*notes, *found.told()]
    if topic_file or producer_file:
        given = properties.read_file(topic_file, "topic_config") if topic_file else {}
        found = translation.filled_topic(translation.topic(given))
        profile, notes = replace(profile, topic=found.settings), [*notes, *found.told()]
    if consumer_file:
        found = translation.consumer(properties.read_file(consumer_file, "consumer_config"))
        librdkafka.check_consumer(found.settings)
        notes += found.told()
    summary = f"Settings from {' and '.join(Path(name).name for name in files)}." if files else profile.summary
    return replace(profile, name=OWN if files else profile.name, summary=summary, notes=tuple(notes))


def overridden(profile: Profile, producer_text: str, topic_text: str) -> Profile:
    """`profile` with the properties of these texts in place of its own, under librdkafka's names. Raises BadInput."""
    if not producer_text.strip() and not topic_text.strip():
        return profile
    given = properties.parse(producer_text, "producer_overrides")
    producer = translation.producer(given, "librdkafka", transactional="transactional.id" in profile.producer)
    producer.settings = {**profile.producer, **producer.settings}
    if "transactional.id" in given:
        producer = translation.in_transactions(producer)
    topic = translation.topic(properties.parse(topic_text, "topic_overrides"))
    return replace(
        profile,
        name=OWN,
        summary=f"The profile {profile.name} with overrides.",
        producer=producer.settings,
        topic=profile.topic | topic.settings,
        notes=(*profile.notes, *producer.told(), *topic.told()),
    )


def options(profile: Profile) -> dict[str, list[str]]:
    """The options of kdv that make this profile again: its name where it has one, else what sets it apart from safe."""
    if known().get(profile.name) == profile:
        return {"--profile": [profile.name]}
    safe = catalogue.PROFILES["safe"]
    return {
        "--profile": [safe.name],
        "--producer-override": list(properties.lines(_differing(profile.producer, safe.producer))),
        "--topic-override": list(properties.lines(_differing(profile.topic, safe.topic))),
    }


def _differing(mine: Mapping[str, object], base: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in sorted(mine.items()) if name not in base or base[name] != value}
