"""The growth of topics: how many partitions they have before the fault plan adds some, and how much is sent until then.

`Load.partitions` is the number of partitions at the end, which all counts are about. The load is scripted, so its
layout is known beforehand: the first rounds of blocks go to the first partitions alone.
"""

from __future__ import annotations

from typing import NamedTuple

from delivery_verifier.model.application import ASSIGNED
from delivery_verifier.model.fault_actions import ADD_PARTITIONS
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Load, Scenario

WARM_UP_ROUNDS = 1


class Growth(NamedTuple):
    """`partitions`: with how many partitions the topics of arms with load are created. `rounds`: how many blocks each
    of them gets before there are more, 0 if the plan adds none."""

    partitions: int
    rounds: int


def growth_of(load: Load, fault: FaultPlan) -> Growth:
    """Returns what the fault plan makes of the number of partitions."""
    rounds = WARM_UP_ROUNDS
    for step in fault.steps:
        if step.action == "send":
            rounds += int(step.options.get("blocks", 1))
        elif step.action == ADD_PARTITIONS:
            return Growth(load.partitions - int(step.options["count"]), rounds)
    return Growth(load.partitions, 0)


def first_partitions(scenario: Scenario) -> int:
    """Returns with how many partitions the topics of arms with load are created."""
    return growth_of(scenario.load, scenario.fault).partitions


def check_growth(scenario: Scenario) -> None:
    """Raises BadInput if the fault plan adds partitions in a way that the load, or an application, cannot follow."""
    steps = [step for step in scenario.fault.steps if step.action == ADD_PARTITIONS]
    if not steps:
        return
    where, load = f"the fault plan has the action {ADD_PARTITIONS}", scenario.load
    if len(steps) > 1 or scenario.fault.cycles > 1:
        raise BadInput(f"{where} {len(steps) * scenario.fault.cycles} times; allowed: once, and 1 cycle")
    if load.pacing != "scripted":
        raise BadInput(f"{where}, and load.pacing is {load.pacing}; allowed: scripted, where the layout is known")
    if scenario.cluster.external is not None:
        raise BadInput(f"{where}, and the cluster is external; allowed: a cluster that the run starts")
    if first_partitions(scenario) < 1:
        raise BadInput(
            f"{where} with count {steps[0].options['count']}, and load.partitions, the number at the end, is "
            f"{load.partitions}; allowed: a count below it"
        )
    actions = [step.action for step in scenario.fault.steps]
    if "send" not in actions[actions.index(ADD_PARTITIONS) :]:
        raise BadInput(f"{where}, and no send behind it; allowed: with a send, so that the new partitions get records")
    if unfit := sorted({"rewind", "freeze_application"}.intersection(actions)):
        raise BadInput(f"{where}, and {', '.join(unfit)}; allowed: without, because these need all partitions at once")
    for arm in scenario.loaded:
        if arm.application is not None and arm.application.discipline in (*ASSIGNED, "own"):
            raise BadInput(
                f"{where}, and {arm.application.name} assigns the partitions to itself when it starts, or may do so, "
                "so it never gets the new ones; allowed: disciplines that subscribe"
            )
