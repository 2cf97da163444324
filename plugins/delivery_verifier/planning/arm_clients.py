"""Whether the clients of a run can run: whether they start with the settings of their arms, and are on this host."""

from __future__ import annotations

from delivery_verifier.host.java import jars, runtime
from delivery_verifier.host.librdkafka import wheels
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Arm, Profile, Scenario
from delivery_verifier.planning.own_settings import effective, releases
from delivery_verifier.planning.own_settings.releases import Release


def check(arm: Arm) -> None:
    """Raises BadInput if the client of `arm` does not start with the settings of the arm."""
    if arm.client == "java":
        version = tuple(int(part) for part in arm.versioned_client.version.split("."))
        (release,) = releases.matching("java", version)
        if reason := why_java_does_not_start(arm.profile, release):
            raise BadInput(f"{arm.name}: {arm.versioned_client.words} does not start with these settings: {reason}")


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
    socket.timeout.ms, so the lesser of the two counts.
    """
    shorter = min(int(profile.producer[name]) for name in ("request.timeout.ms", "socket.timeout.ms"))
    return effective.reason_not_to_start({**profile.producer, "request.timeout.ms": shorter}, release)
