"""The fault plan: ordered steps of trigger, action and target, repeated in cycles."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from delivery_verifier.model.act import Act, Capability, Proof
from delivery_verifier.model.data import Data, Name, Setting
from delivery_verifier.model.fault_actions import ACTS


class Trigger(Data, frozen=True):
    """When a step of a fault plan fires.

    The kinds:

    * `reported`: every subject arm had `value` records reported since the last step.
    * `settled`: no subject arm has an attempt outstanding.
    * `elapsed`: `value` seconds have passed since the last step.
    * `leader_moved`: other brokers lead the partitions that the last injection hit.
    * `coordinator_moved`: other brokers coordinate what the brokers of the last injection coordinated.
    * `deposed`: the brokers of the last injection lead none of the partitions that it hit, whoever leads them now.
    * `led`: every partition of the subject arms has a leader that runs.
    * `bitten`: the last injection has its own proof.
    * `isr_shrunk`: the ISR of every partition with a leader holds running brokers only.
    * `isr_full`: the ISR of every partition holds all of its replicas.
    * `at_once`: no condition.
    """

    kind: Literal[
        "reported",
        "settled",
        "elapsed",
        "leader_moved",
        "coordinator_moved",
        "deposed",
        "led",
        "bitten",
        "isr_shrunk",
        "isr_full",
        "at_once",
    ]
    value: float = 0.0


class FaultStep(Data, frozen=True):
    """One step of a fault plan. `action` is one of `fault_actions.ACTS`, with its `options`.

    A target is resolved once per cycle, when a step first names it; `same` is the target of the step before. `proofs`:
    the effects that must be seen just before healing; None: those of the action's own entry.
    """

    trigger: Trigger
    action: str
    target: str = "same"
    options: dict[str, Setting] = {}
    proofs: tuple[Proof, ...] | None = None

    @property
    def act(self) -> Act:
        """The action's entry in `fault_actions.ACTS`. Raises KeyError."""
        return ACTS[self.action]


class FaultPlan(Data, frozen=True):
    """Ordered steps, repeatable in cycles; each cycle waits until the one before has healed and recovered."""

    name: Name
    summary: str
    steps: tuple[FaultStep, ...] = ()
    cycles: Annotated[int, Meta(ge=1, le=1000)] = 1
    duration_s: float = 8.0
    """How long one cycle takes, for pacing the load."""


def equipment_of(plan: FaultPlan) -> tuple[Capability, ...]:
    """What the actions of `plan` need of the cluster."""
    return tuple(sorted({need for step in plan.steps for need in step.act.needs}))
