"""The profile of the subject, the arm that the user asks about: chosen by name, pasted, or sent, and then overridden.

A profile comes from one source. If two fields of a run give producer settings that contradict each other, the run is
refused, because nobody could see which field counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from delivery_verifier import catalogue
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.model.inputs import BadInput, Refusals
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning import client_versions
from delivery_verifier.planning.own_settings import (
    files,
    producer,
    profiles,
    properties,
    secret_values,
    spring,
    spring_documents,
)
from delivery_verifier.planning.own_settings.profiles import OWN
from delivery_verifier.planning.own_settings.translation import printable_name

TEXTS = ("producer_config", "producer_overrides", "topic_overrides")
"""The fields of a run that hold settings in .properties syntax."""
DEFAULT = "safe"
"""The profile of a run whose user named none."""
_NAMED = 5
"""The greatest number of names that a message lists."""


def check(values: Mapping[str, Any], refusals: Refusals) -> None:
    """Adds to `refusals` each error in the fields of a run that describe the subject's profile.

    `values` are the fields that are not None. Checks each text for secrets, the fields against each other, and each
    property by itself.
    """
    texts = {field: str(values.get(field) or "") for field in TEXTS}
    for field, text in texts.items():
        with refusals:
            secret_values.require_none(text, field)
    # The checks below quote values, but never those of connection and security properties.
    texts = {field: "" if secret_values.has_quotable(text) else text for field, text in texts.items()}
    if not values.get("scenario"):  # a scenario of the catalogue refuses settings of the user's own
        with refusals:
            _require_one_source(values)
    if texts["producer_config"].strip():
        with refusals:
            _check_pasted(texts["producer_config"], values.get("client"), refusals)
    profiles.check_overrides(texts["producer_overrides"], texts["topic_overrides"], refusals)


def is_pasted(values: Mapping[str, Any]) -> bool:
    """Returns whether the user pasted a file of producer settings. A text of blanks counts as none."""
    return bool(str(values.get("producer_config") or "").strip())


def profile(params: Mapping[str, Any]) -> Profile:
    """Returns the subject's profile: the one that was sent, pasted or named, with the user's overrides.

    `params` are the fields of a run that `check` has accepted. Raises BadInput if a field is refused all the same, e.g.
    because two properties contradict each other.
    """
    if is_pasted(params):
        base = profiles.pasted(params["producer_config"], params.get("client"))
    else:
        base = _sent(params.get("own_profile")) or _named(str(params.get("profile") or DEFAULT))
    of_producer, of_topic = (str(params.get(field) or "") for field in TEXTS[1:])
    return profiles.overridden(base, of_producer, of_topic)


def with_min_isr(profile: Profile, params: Mapping[str, Any]) -> Profile:
    """Returns `profile`. If the field `min_insync_replicas` is filled, its value replaces min.insync.replicas."""
    min_isr = params.get("min_insync_replicas")
    if min_isr is None:
        return profile
    return msgspec.structs.replace(profile, topic={**profile.topic, "min.insync.replicas": int(min_isr)})


def with_remarks(profile: Profile, params: Mapping[str, Any]) -> Profile:
    """Returns `profile` with notes: for which versions of the client its promises hold, and which setting has no effect
    beside the others. The profiles of the catalogue get none: nobody chose their settings one by one."""
    if params.get("min_insync_replicas") is None and catalogue.PROFILES.get(profile.name) == profile:
        return profile
    try:
        remarks = (client_versions.remark(profile), Settings.of_profile(profile).without_effect)
    except ContradictorySettings:  # the check of the whole scenario names all that is wrong
        return profile
    return msgspec.structs.replace(profile, notes=(*profile.notes, *filter(None, remarks)))


def _require_one_source(values: Mapping[str, Any]) -> None:
    """Raises BadInput, with every contradiction, if more than one field gives all producer settings, or if a field
    belongs to another source than the one that was chosen."""
    if contradictions := [*(_beside_pasted(values) if is_pasted(values) else _without_pasted(values))]:
        raise BadInput(*contradictions)


def _beside_pasted(values: Mapping[str, Any]) -> Iterator[str]:
    name = values.get("profile") or DEFAULT
    if name != OWN:
        yield (
            f"profile is {name!r}, but producer_config gives all producer settings; choose the profile {OWN}, or empty "
            "producer_config"
        )
    if values.get("own_profile"):
        yield "own_profile and producer_config both give all producer settings; leave one of them out"
    if str(values.get("producer_overrides") or "").strip():
        yield (
            "producer_overrides is given, but producer_config gives all producer settings; write the overrides into "
            "producer_config"
        )


def _without_pasted(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("profile") == OWN and not values.get("own_profile"):
        yield (
            f"profile is {OWN!r}, but producer_config is empty; paste the producer settings there, or choose another "
            "profile"
        )
    if values.get("client"):
        yield (
            f"client is {values['client']!r}, but producer_config is empty; leave client out: it says for which client "
            "pasted settings were written"
        )


def _check_pasted(text: str, client: str | None, refusals: Refusals) -> None:
    """Adds to `refusals` each error in `text`, a file of producer settings. Raises BadInput if `text` has another
    syntax than .properties files: the search for secrets knows only this one.

    In a file of Spring Boot, properties that are not Kafka's are errors: Airflow would store them although no run uses
    them.
    """
    if (syntax := files.foreign_syntax(text)) is not None:
        raise BadInput(
            f"producer_config looks like {syntax}; allowed: .properties syntax. For another file, run `kdv init FILE` "
            "on this host, and choose the profile that it saves"
        )
    entries = properties.parse(text, "producer_config")
    foreign = [name for name in entries if not (spring.is_of_kafka(name) or spring_documents.is_condition(name))]
    with refusals:
        if foreign and spring.is_spring(entries) and not any(map(spring.is_producers, foreign)):
            more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
            raise BadInput(
                f"producer_config has {', '.join(map(printable_name, foreign[:_NAMED]))}{more}, which no Kafka client "
                f"uses; paste only what is below {spring.PREFIX[:-1]}"
            )
    with refusals:
        profiles.pasted(text, client)


def _sent(value: object) -> Profile | None:
    """Returns the profile in `value`, the field `own_profile`; None if the field is empty.

    `kdv` fills this field with a whole profile, which it read from files or from a saved profile. Raises BadInput if
    the field holds no valid profile.
    """
    if not value:
        return None
    try:
        sent = msgspec.convert(value, Profile)
        producer.check(sent.written or {})
        Settings.of_profile(sent)
        return sent
    except (msgspec.ValidationError, ContradictorySettings) as error:
        raise BadInput(f"own_profile: {error}") from None


def _named(name: str) -> Profile:
    """Returns the profile of the catalogue, or the saved profile, called `name`. Raises BadInput if there is none."""
    known = profiles.known()
    if name not in known:
        raise BadInput(f"profile is {name!r}; allowed: {', '.join(known)}. `kdv list` describes them")
    return known[name]
