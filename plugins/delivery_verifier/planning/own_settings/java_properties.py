"""The properties that an arm with the Java client gets as the user wrote them, by the Java client's own names.

They come from a file that was written for this client, or from overrides with PREFIX. A run directory stores them. So
only names that the Java client's producer knows are among them, and none of a connection: no other value is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from delivery_verifier.model.client import JAVA_NAMES
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning.own_settings import known_names, producer
from delivery_verifier.planning.own_settings.translation import printable_name

PREFIX = "java."
"""What stands before the name of an override for arms with the Java client alone, e.g. `java.batch.size`."""
_LOWERED = "delivery.timeout.ms"
"""What librdkafka bounds by transaction.timeout.ms, and the Java client does not."""


def as_written(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns those of a file's settings, by Kafka's own names, that the Java client gets as they are."""
    return {name: text for name, text in settings.items() if known_names.reaches_java(name)}


def require_kept(names: Collection[str], field: str) -> None:
    """Raises BadInput, which shows `field`, if a profile may not hold one of the properties. Shows no value."""
    for name in names:
        if not known_names.reaches_java(name):
            raise BadInput(
                f"{field}: {PREFIX}{printable_name(name)} is no property that a run may give to the Java client: it "
                "is not the producer's, or belongs to a connection, to foreign code or to the run itself; leave it out"
            )


def without(own: Mapping[str, str], overridden: Collection[str]) -> dict[str, str]:
    """Returns `own` without the properties that say the same as one of the `overridden` settings, which have
    librdkafka's names: the Java client gets these translated."""
    said = {JAVA_NAMES.get(name, name) for name in overridden}
    if said & {"compression.level", "compression.type"}:
        said |= producer.LEVELS.keys()
    return {name: text for name, text in own.items() if name not in said}


def check(profile: Profile) -> None:
    """Raises BadInput if `profile` may not hold one of its properties for the Java client, if that client does not take
    a value, or if one contradicts what the profile states: the contract rules on that."""
    own, stated = profile.java_properties, profile.producer
    if not own:
        return
    require_kept(own, "producer settings")
    codec = {"compression.type": setting_text(stated["compression.type"])} if "compression.type" in stated else {}
    said = producer.translate(codec | own, "java", transactional="transactional.id" in stated).settings
    for name, value in producer.fitted(said).items():
        if name in stated and stated[name] not in (value, _lowered(name, value, stated)):
            raise BadInput(
                f"the Java client would get {_named(name, own)}, and the profile states "
                f"{name}={setting_text(stated[name])}; give both the same value, or leave {PREFIX}... out"
            )


def _lowered(name: str, value: Setting, stated: Mapping[str, Setting]) -> Setting:
    """Returns the value that librdkafka has in place of `value`, if it allows less in a transaction."""
    if name == _LOWERED and "transactional.id" in stated:
        return min(int(value), int(stated["transaction.timeout.ms"]))
    return value


def _named(name: str, own: Mapping[str, str]) -> str:
    """Returns the property of `own` that was translated into the setting `name`, with its value."""
    java = name if name in own else JAVA_NAMES.get(name, name)
    return f"{java}={own[java]}" if java in own else name
