"""The clients of a run: whether they start with the settings of their arms and are on this host, and what they get of
the settings."""

from __future__ import annotations

from delivery_verifier.host.java import jars, runtime
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.load import layout
from delivery_verifier.load.java import settings
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Arm, Load, Profile, Scenario
from delivery_verifier.planning.own_settings import effective, releases
from delivery_verifier.planning.own_settings.releases import Release

_TIMES = ("delivery.timeout.ms", "request.timeout.ms", "linger.ms")
"""The times on which it depends whether the Java client starts."""


def check(load: Load, arm: Arm) -> None:
    """Raises BadInput if the client of `arm` does not start with the settings of the arm, has no counterpart of one, or
    has no room for the records of `load`."""
    if arm.client != "java":
        return
    version = tuple(int(part) for part in arm.versioned_client.version.split("."))
    (release,) = releases.matching("java", version)
    if reason := why_java_does_not_start(arm.profile, release):
        raise BadInput(f"{arm.name}: {arm.versioned_client.words} does not start with these settings: {reason}")
    block = layout.of_arm(load, arm).block
    try:
        properties = settings.properties(arm.profile.producer, arm.java_properties, load.payload_bytes, load.deadline_s)
        settings.require_room(properties, load.payload_bytes, block, load.partitions)
    except BadInput as error:
        raise BadInput(f"{arm.name}: {error}") from None


def require_on_host(scenario: Scenario) -> None:
    """Makes sure that this host has each client of `scenario`, those of the applications' members, too, in its version.
    Fetches what it lacks.

    Raises JavaError if a client needs Java and there is none, and JarError or WheelError if a version cannot be had.
    """
    of_members = {arm.application.versioned_client for arm in scenario.loaded if arm.application is not None}
    for each in {arm.versioned_client for arm in scenario.loaded} | of_members:
        if each.client == "java":
            runtime.java_home()
            jars.java_client_jars(each.version)
        else:
            wheels.environment(each.version)


def why_java_does_not_start(profile: Profile, release: Release) -> str:
    """Returns why a Java producer of `release` does not start with the settings of `profile`, or an empty text.

    Java's request.timeout.ms is the time after which the client itself gives up a request. In librdkafka that is
    socket.timeout.ms, so the lesser of the two counts, unless the user wrote the one of Java.
    """
    shorter = min(int(profile.producer[name]) for name in ("request.timeout.ms", "socket.timeout.ms"))
    written = {name: int(text) for name, text in profile.java_properties.items() if name in _TIMES}
    return effective.reason_not_to_start({**profile.producer, "request.timeout.ms": shorter, **written}, release)


def gets(arm: Arm) -> str:
    """Returns in a sentence which client gets the settings of `arm`, and by whose names."""
    client = arm.versioned_client.words
    if own := arm.java_properties:
        return (
            f"these settings go to {client}: {', '.join(own)} as they were written for the Java client, and the others "
            "translated into its names"
        )
    if arm.client == "java":
        return f"these settings go to {client}, translated into its names"
    if arm.profile.java_properties:
        return f"these settings go to {client}; --clients java gives the Java client its own, as they were written"
    return f"these settings go to {client}"
