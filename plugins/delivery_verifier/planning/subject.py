"""The profile of the subject, the arm that the user asks about: chosen by name, pasted, or sent, and then overridden.

A profile comes from one source: `consistency` refuses a second one, because nobody could see which one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import msgspec
from msgspec.structs import replace

from delivery_verifier import catalogue
from delivery_verifier.contract.settings import ContradictorySettings, Settings
from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput, ValidationErrors
from delivery_verifier.model.scenario import Profile
from delivery_verifier.planning import client_versions
from delivery_verifier.planning.field import Part
from delivery_verifier.planning.own_settings import (
    files,
    java_properties,
    producer,
    profiles,
    properties,
    secret_values,
    spring,
    spring_documents,
)
from delivery_verifier.planning.own_settings.translation import printable_name
from delivery_verifier.planning.request import FIELDS, Request

TEXTS = ("producer_config", "producer_overrides", "topic_overrides")
"""The fields of a run that hold settings in .properties syntax."""
_NAMED = 5
"""The greatest number of names that a message lists."""


def check(request: Request, errors: ValidationErrors) -> None:
    """Adds to `errors` each error in the texts that describe the subject's profile: a secret, and each refused
    property."""
    texts = {field: getattr(request, field) or "" for field in TEXTS}
    for field, text in texts.items():
        with errors:
            secret_values.require_none(text, field)
    # The checks below quote values, but never those of connection and security properties.
    texts = {field: "" if secret_values.has_quotable(text) else text for field, text in texts.items()}
    if texts["producer_config"].strip():
        with errors:
            _check_pasted(texts["producer_config"], request.written_for, errors)
    profiles.check_overrides(texts["producer_overrides"], texts["topic_overrides"], errors)


def is_pasted(request: Request) -> bool:
    """Returns whether the user pasted a file of producer settings. A text of blanks counts as none."""
    return bool((request.producer_config or "").strip())


def profile(request: Request) -> Profile:
    """Returns the subject's profile: the one that was sent, pasted or named, with the user's overrides.

    `request` has passed `consistency.check_request`. Raises BadInput if a field is refused all the same, e.g. because
    two properties contradict each other.
    """
    if is_pasted(request):
        base = profiles.pasted(request.producer_config or "", request.written_for)
    else:
        base = _sent(request.own_profile) or profiles.known()[request.profile]
    return profiles.overridden(base, request.producer_overrides or "", request.topic_overrides or "")


def adjusted(chosen: Profile, request: Request) -> Profile:
    """Returns `chosen` with the settings that fields of their own give (see `Words.sets`), and with remarks.

    The remarks say for which versions of the client the promises hold, and which setting has no effect beside the
    others. The profiles of the catalogue get none: nobody chose their settings one by one.
    """
    settings: dict[tuple[Part, str], Setting] = {
        field.words.sets: getattr(request, name)
        for name, field in FIELDS.items()
        if field.words.sets and getattr(request, name) is not None
    }
    if not settings and catalogue.PROFILES.get(chosen.name) == chosen:
        return chosen
    return _with_remarks(_with_settings(chosen, settings))


def _with_settings(profile: Profile, settings: Mapping[tuple[Part, str], Setting]) -> Profile:
    """Returns `profile` with `settings` in place of its own. `settings` maps the part and the name of each to its
    value."""
    parts = {
        part: {**getattr(profile, part), **{name: value for (owner, name), value in settings.items() if owner == part}}
        for part in get_args(Part)
    }
    return replace(profile, **parts)


def _with_remarks(profile: Profile) -> Profile:
    try:
        remarks = (client_versions.remark(profile), Settings.of_profile(profile).without_effect)
    except ContradictorySettings:  # the check of the whole scenario names all that is wrong
        return profile
    return replace(profile, notes=(*profile.notes, *filter(None, remarks)))


def _check_pasted(text: str, client: str | None, errors: ValidationErrors) -> None:
    """Adds to `errors` each error in `text`, a file of producer settings. Raises BadInput if `text` has another
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
    with errors:
        if foreign and spring.is_spring(entries) and not any(map(spring.is_producers, foreign)):
            more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
            raise BadInput(
                f"producer_config has {', '.join(map(printable_name, foreign[:_NAMED]))}{more}, which no Kafka client "
                f"uses; paste only what is below {spring.PREFIX[:-1]}"
            )
    with errors:
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
        java_properties.require_kept(sent.java_properties, "own_profile")
        Settings.of_profile(sent)
        return sent
    except (msgspec.ValidationError, ContradictorySettings) as error:
        raise BadInput(f"own_profile: {error}") from None
