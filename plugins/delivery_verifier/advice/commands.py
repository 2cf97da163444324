"""The commands that try a change: they repeat a run with other settings."""

from __future__ import annotations

import shlex
from dataclasses import replace

from delivery_verifier.catalogue.profiles import PRICED, PROFILES
from delivery_verifier.contract.remedies import Remedy
from delivery_verifier.contract.settings import Settings
from delivery_verifier.contract.strength import WITHOUT_EFFECT
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.verdict.limits import with_option

OF_TOPICS = ("min.insync.replicas", "unclean.leader.election.enable", "flush.messages")
"""The settings of topics among the changes that the contract tries."""
_APPLICATION = "the application "


def again_with(scenario: Scenario, profile: str, remedy: Remedy) -> str:
    """Returns the command that repeats the run of `scenario`, with the changes of `remedy` in the settings of the
    subject.

    `profile`: the name of the subject's profile. Returns an empty text in these cases:

    * The run was not started by `kdv run`.
    * The scenario is one of the catalogue, whose settings are fixed.
    * The command of the run already overrides settings.
    * The profile is not in the catalogue.
    """
    words = shlex.split(scenario.command)
    overrides = {"--scenario", "--producer-override", "--topic-override", "--min-insync-replicas"}
    if words[:2] != ["kdv", "run"] or overrides & set(words) or profile not in PROFILES:
        return ""
    changes = [change for text in remedy.changes for change in text.split(" and ")]
    settings = [change for change in changes if not change.startswith(_APPLICATION)]
    if settings and (ready := _ready_profile(scenario, remedy.settings)):
        words = with_option(words, "--profile", ready)
    else:
        for change in settings:
            name = change.partition("=")[0]
            words += ["--topic-override" if name in OF_TOPICS else "--producer-override", change]
    for change in changes:
        if change.startswith(_APPLICATION):
            words = with_option(words, "--application", change.removeprefix(_APPLICATION))
    return shlex.join(words)


def _ready_profile(scenario: Scenario, settings: Settings) -> str:
    """Returns the name of the first profile of the catalogue that has `settings` on the cluster of `scenario`. Returns
    an empty text if there is none."""
    return next((name for name in PROFILES if same_settings(of_catalogue(name, settings), settings)), "")


def priced_as(settings: Settings) -> str:
    """Returns the profile for which `kdv price` measures the price of `settings`.

    Returns an empty text if there is none: `kdv price` measures only the profiles in PRICED, with the installed
    librdkafka and without an application.
    """
    if settings.discipline is not None or settings.client != "librdkafka" or settings.client_version:
        return ""
    return next((name for name in PRICED if same_settings(of_catalogue(name, settings), settings)), "")


def of_catalogue(name: str, like: Settings) -> Settings:
    """Returns the settings of the catalogue's profile `name`, used on the cluster and with the application of
    `like`."""
    plain = Settings.of_profile(PROFILES[name], like.replication_factor, like.elr)
    return replace(
        plain,
        isolation_level=like.isolation_level,
        client=like.client,
        client_version=like.client_version,
        transaction_version_2=like.transaction_version_2,
        transaction_log_min_isr=like.transaction_log_min_isr,
        transaction_log_elr=like.transaction_log_elr,
        discipline=like.discipline,
        auto_offset_reset=like.auto_offset_reset,
    )


def same_settings(settings: Settings, other: Settings) -> bool:
    """Returns whether the contract gives the same rulings on `settings` and `other`. Settings that cannot change a
    ruling, e.g. timeouts, are ignored (see `strength.WITHOUT_EFFECT`)."""
    return replace(settings, **{name: getattr(other, name) for name in WITHOUT_EFFECT}) == other
