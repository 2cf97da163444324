"""Arms times clients: the arms of a run, once for each client that the user named.

All of them share the cluster, the fault and the moment. So a difference between two arms with the same settings is a
difference between their clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from delivery_verifier.model.act import CLIENTS
from delivery_verifier.model.application import Application
from delivery_verifier.model.client import VersionedClient
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.scenario import Arm, Expectation

ONLY_LIBRDKAFKA = (VersionedClient(),)
"""The clients of a run for which the user named none."""
HIT = CLIENTS.name
"""The option of a step that says how many clients it must hit."""
EITHER = {"HELD", "VIOLATED"}

Expected = Callable[[Arm, VersionedClient], Expectation]
"""Returns what the arm must show with the client."""


def with_clients(
    arms: Sequence[Arm], clients: Sequence[VersionedClient], expected: Expected, topic_of: Callable[[str], str]
) -> list[Arm]:
    """Returns `arms`, once with each of `clients`, in the order of `arms`. Producers and members of applications have
    the client of their arm.

    The canary and each weak control stay single, with librdkafka: they measure the verifier and the fault, and not a
    client. With librdkafka, an arm keeps its name. With another client the name of the client follows, and the version
    if the run has several versions of this client, e.g. `acks_1-java`, `acks_1-java-4.1.1`. `topic_of` returns the
    name of the topic for the name of an arm.
    """
    free = iter(range(max(arm.ordinal for arm in arms) + 1, 10_000))
    return [each for arm in arms for each in _variants(arm, clients, expected, topic_of, free)]


def for_clients(fault: FaultPlan, clients: Sequence[VersionedClient]) -> FaultPlan:
    """Returns `fault` for arms that run with each of `clients`. A step that must hit a number of clients must hit so
    many of each. If not, the plan would go on before it has hit the last ones."""

    def scaled(step: FaultStep) -> FaultStep:
        if (count := step.options.get(HIT)) is None:
            return step
        return replace(step, options=step.options | {HIT: int(count) * len(clients)})

    return replace(fault, steps=tuple(map(scaled, fault.steps)))


def is_single(arm: Arm) -> bool:
    """Returns whether the arm is the canary or a weak control: a control that may be HELD or VIOLATED."""
    return arm.role == "canary" or (arm.role == "control" and set(arm.expectation.verdicts) == EITHER)


def _variants(
    arm: Arm,
    clients: Sequence[VersionedClient],
    expected: Expected,
    topic_of: Callable[[str], str],
    free: Iterator[int],
) -> Iterator[Arm]:
    if is_single(arm):
        yield arm
        return
    for position, client in enumerate(clients):
        name = f"{arm.name}{_suffix(client, clients)}"
        yield replace(
            arm,
            name=name,
            topic_name=topic_of(name),
            ordinal=next(free) if position else arm.ordinal,
            expectation=expected(arm, client),
            client=client.client,
            client_version=client.version,
            application=_with(arm.application, client),
        )


def _with(application: Application | None, client: VersionedClient) -> Application | None:
    """Returns the application with members that have `client`, too. Members whose version the entry names keep it, so
    only the installed librdkafka fits their arm (see `scenario_checks`), and a program of the user's own keeps its
    client."""
    if application is None or application.discipline == "own" or application.client_version:
        return application
    return replace(application, client=client.client, client_version=client.version)


def _suffix(client: VersionedClient, clients: Sequence[VersionedClient]) -> str:
    if client.client == "librdkafka" and not client.version:
        return ""
    is_alone = sum(other.client == client.client for other in clients) == 1
    return f"-{client.client}" if is_alone or not client.version else f"-{client.client}-{client.version}"
