"""Checks of the application of an arm, before anything starts. A setting is refused if it does not fit the discipline
of the application or the fault plan. A missing setting is refused, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from delivery_verifier.model.application import (
    ASSIGNED,
    IN_TRANSACTIONS,
    REQUIRED,
    RESETS,
    SINKS,
    STORED,
    TIMED,
    WRITTEN_WITH,
    Application,
)
from delivery_verifier.model.client import require_possible
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Isolation, Scenario

LATE = ("hold", "delay", "stall", "delay_end")
"""The actions that may delay a request to end a transaction. The request may then reach the coordinator after the next
transaction has begun."""


def check_application(arm: str, application: Application) -> None:
    """Raises BadInput if consumer settings are missing, or if settings do not fit the discipline of the application."""
    where, consumer = f"arms.{arm}.application.consumer", application.consumer
    if application.discipline == "own":
        if consumer:
            raise BadInput(f"{where} is given, but the settings of a user application are unknown: leave them out")
        if application.client_version:
            raise BadInput(
                f"arms.{arm}.application.client_version is given, but a user application brings its own client: leave "
                "it out"
            )
        return
    require_possible(application.client, application.client_version, f"arms.{arm}.application.client_version")
    if application.client == "java" and application.discipline == "store_after":
        raise BadInput(
            f"arms.{arm}.application.client is java, and store_after stores offsets for the client's timer, which the "
            "Java client does not let a program do; allowed: commit_after, or librdkafka"
        )
    if application.effects:
        raise BadInput(f"arms.{arm}.application.effects is given, but only user applications have it: leave it out")
    if missing := [name for name in REQUIRED if name not in consumer]:
        raise BadInput(f"{where} lacks {missing[0]}: nothing is left to a default; state {', '.join(REQUIRED)}")
    timed = zip(("enable.auto.commit", "enable.auto.offset.store"), TIMED[application.discipline], strict=True)
    for name, value in timed:
        if setting_text(consumer[name]) != setting_text(value):
            raise BadInput(
                f"{where}: {name} is {consumer[name]}, but {application.discipline} needs {setting_text(value)}"
            )
    if application.discipline in STORED and (application.members > 1 or not _is_eager(consumer)):
        raise BadInput(
            f"arms.{arm}.application: {application.discipline} needs one member, group.protocol=classic and "
            "partition.assignment.strategy=range or roundrobin: its members assign their partitions themselves"
        )
    if application.discipline in ASSIGNED and application.members > 1:
        raise BadInput(
            f"arms.{arm}.application: {application.discipline} needs one member: each assigns all partitions to itself"
        )
    for name, allowed in {"auto.offset.reset": RESETS, "isolation.level": get_args(Isolation)}.items():
        if consumer[name] not in allowed:
            raise BadInput(f"{where}: {name} is {consumer[name]!r}; allowed: {', '.join(allowed)}")
    _check_producer(f"arms.{arm}.application.producer", application)


def _is_eager(consumer: Mapping[str, Setting]) -> bool:
    """Returns whether the members of the group give up all partitions when the group rebalances."""
    strategies = str(consumer.get("partition.assignment.strategy", "range,roundrobin")).split(",")
    return consumer.get("group.protocol", "classic") == "classic" and {*strategies} <= {"range", "roundrobin"}


def _check_producer(where: str, application: Application) -> None:
    """Raises BadInput if the producer settings do not fit the discipline. `where` is the name of the field for the
    message."""
    producer, discipline = application.producer, application.discipline
    if SINKS[discipline] != "topic":
        if producer:
            raise BadInput(
                f"{where} has {next(iter(producer))}, but {discipline} writes to no output topic: leave it out"
            )
        return
    for name, needed in WRITTEN_WITH.items():
        if name not in producer or setting_text(producer[name]) != needed:
            raise BadInput(f"{where}: {name} is {producer.get(name, 'not stated')}, but {discipline} needs {needed}")
    if discipline in IN_TRANSACTIONS:
        for name in ("transactional.id", "transaction.timeout.ms"):
            if not producer.get(name):
                raise BadInput(f"{where} lacks {name}, which {discipline} needs: state it")
    elif "transactional.id" in producer:
        raise BadInput(f"{where} has a transactional.id, but {discipline} writes no transactions: leave it out")


def check_power(scenario: Scenario) -> None:
    """Raises BadInput if the fault plan cuts the power of brokers. Call it for a scenario with an application. A power
    cut may remove committed offsets, and nobody observes the log of committed offsets."""
    for number, step in enumerate(scenario.fault.steps):
        if "power_loss" in step.act.counts_as:
            raise BadInput(
                f"fault.steps[{number}] is {step.action}, which does not go with an application: nobody observes the "
                "log of committed offsets; leave one of them out"
            )


def check_late_ends(scenario: Scenario) -> None:
    """Raises BadInput if an application writes transactions, and the fault plan may delay a request to end a
    transaction.

    Such a late request may end the next transaction in part (KAFKA-17754). The contract has no rule for this effect in
    an output topic.
    """
    names = [arm.name for arm in scenario.loaded if arm.application and arm.application.transactional_id]
    for number, step in enumerate(scenario.fault.steps):
        if names and step.action in LATE:
            raise BadInput(
                f"fault.steps[{number}] is {step.action}, which does not go with the application of arm {names[0]}: "
                "an end of a transaction that comes late may end the next one; leave one of them out"
            )


def check_freezes(scenario: Scenario) -> None:
    """Raises BadInput if the fault plan freezes or thaws applications in a way that is not allowed.

    The plan must have exactly one step that parks applications, then one that freezes them, then one that thaws them.
    No other step of the plan may be about applications, because replacements run in place of some members after the
    thaw. Each application must have exactly one member. No application may be a program of the user's own, and
    members with the Java client must commit in transactions.
    """
    actions = [step.action for step in scenario.fault.steps]
    acts = [action for action in actions if ACTS[action].whom == "application"]
    if not {"freeze_application", "thaw_application"} & set(acts):
        return
    if acts != ["park", "freeze_application", "thaw_application"] or scenario.fault.cycles > 1:
        raise BadInput(
            f"fault.steps does {', '.join(acts)}, and fault.cycles is {scenario.fault.cycles}; allowed with a freeze: "
            "park, freeze_application, thaw_application, and 1 cycle"
        )
    own = [arm.name for arm in scenario.loaded if arm.application and arm.application.discipline == "own"]
    several = [arm.name for arm in scenario.loaded if arm.application and arm.application.members > 1]
    if refused := own or several:
        raise BadInput(
            f"fault.steps freezes applications, but that of {refused[0]} is "
            f"{'an own one' if own else 'one of several members'}: a replacement can take the place of one member only"
        )
    # A commit of a thawed Java member may get no answer before it is refused: then nobody knows what it was told. The
    # end of a transaction is always known.
    java = [
        arm.name
        for arm in scenario.loaded
        if arm.application and arm.application.client == "java" and arm.application.discipline not in IN_TRANSACTIONS
    ]
    if java:
        raise BadInput(
            f"fault.steps freezes applications, and the members of {java[0]} have the Java client: what the group "
            "tells one that wakes up is not always known, unless it commits in transactions; allowed: librdkafka"
        )
