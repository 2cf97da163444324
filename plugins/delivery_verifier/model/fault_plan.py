"""The fault plan: ordered steps, each with a trigger, an action and a target. A cycle is one pass through all steps.

A target is a name that stands for the brokers to which an action is done. The module `faults.targets` resolves each
name to broker ids once per cycle, when a step of the cycle first names the target.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from delivery_verifier.model.act import Act, Capability, Proof
from delivery_verifier.model.application import Application
from delivery_verifier.model.data import Data, Name, Setting
from delivery_verifier.model.fault_actions import ACTS


class Trigger(Data, frozen=True):
    """The condition that a step of a fault plan waits for. Only `reported` and `elapsed` use `value`.

    * `reported`: the number of reported records has risen by `value` since the previous step ended. If there are
      several subject arms, the arm with the fewest reported records counts. A `value` below 1 is a share of the records
      of one cycle, that is, of the smallest `Arm.records` of all subjects divided by the number of cycles.
    * `settled`: every attempt of the subject arms has an outcome.
    * `elapsed`: `value` seconds have passed since the previous step ended.
    * `leader_moved`, `coordinator_moved`, `deposed`: the last injection shows the effect of the same name, which
      `act.Proof` defines. If the run has no injection yet, the trigger fires at once.
    * `led`: every partition of the subject arms has a leader that runs.
    * `took_effect`: the action of the last injection shows its own proof, e.g. that the proxy acted on requests.
    * `isr_shrunk`: in every partition whose leader runs, all other members of the ISR run, too.
    * `isr_full`: for every partition, all replicas are in the ISR.
    * `parked`: every member of an application stands where the action `park` ordered it to stand.
    * `caught_up`: all records that the arms with applications have sent are applied, and their offsets are committed.
    * `at_once`: there is no condition.
    """

    kind: Literal[
        "reported",
        "settled",
        "elapsed",
        "leader_moved",
        "coordinator_moved",
        "deposed",
        "led",
        "took_effect",
        "isr_shrunk",
        "isr_full",
        "parked",
        "caught_up",
        "at_once",
    ]
    value: float = 0.0


class Target(Struct, frozen=True):
    """One target. `meaning` says in words for which brokers the target stands.

    `in_a_sentence` names the target as the subject of a sentence, in the singular, e.g. `the leader`.
    """

    meaning: str
    in_a_sentence: str = "a broker"


TARGETS: dict[str, Target] = {
    "leader": Target("the leader of partition 0 when the name first occurs in a cycle", "the leader"),
    "new_leader": Target("the leader of partition 0 when this name first occurs in a cycle"),
    "followers": Target("all brokers but the cycle's leader", "every follower"),
    "follower": Target("the first of the followers"),
    "other_follower": Target("the second of the followers"),
    "leader_and_follower": Target("the cycle's leader and the first of the followers", "the leader with a follower"),
    "next": Target("another broker in every cycle, in turn"),
    "second": Target("the broker after `next` in turn"),
    "third": Target("the broker after `second` in turn"),
    "all": Target("every broker", "every broker"),
    "transaction_coordinator": Target(
        "the coordinator of the one producer with a transactional.id, when the name first occurs in a cycle",
        "the transaction coordinator",
    ),
    "none": Target("no broker: the action is not done to brokers", "no broker"),
}
"""Maps the name of a target in a fault plan to the target. Within a cycle, a target stands for the same brokers, even
if leaders move. In `Target.meaning`, *the cycle's leader* is the broker for which the target `leader` stands in this
cycle. A step may also name `same`, which is not in this table: the target of the previous step."""


class FaultStep(Data, frozen=True):
    """One step of a fault plan. `action` is a key of `fault_actions.ACTS`.

    * `target`: a key of `TARGETS`, or `same`: the target of the previous step. A target is resolved to
      brokers once per cycle, when a step first names the target.
    * `options`: values for the action's options.
    * `proofs`: the effects that must be seen just before the fault is healed, to prove that the fault took effect.
      None: the effects in `Act.proofs` of the action.
    """

    trigger: Trigger
    action: str
    target: str = "same"
    options: dict[str, Setting] = {}
    proofs: tuple[Proof, ...] | None = None

    @property
    def act(self) -> Act:
        """The action's entry in `fault_actions.ACTS`. Raises KeyError if there is no such action."""
        return ACTS[self.action]


class FaultPlan(Data, frozen=True):
    """A fault plan. `steps` are the steps of one cycle. `cycles` is the number of cycles.

    The next cycle begins only when all injections are healed and every replica is in sync again.
    """

    name: Name
    summary: str
    steps: tuple[FaultStep, ...] = ()
    cycles: Annotated[int, Meta(ge=1, le=1000)] = 1
    duration_s: float = 8.0
    """The planned length of one cycle in seconds. If the user gives no duration of the load, the load is planned to
    last for all cycles and a few seconds more."""

    @property
    def by_others(self) -> bool:
        """Whether somebody else breaks brokers, and the run watches (see `Act.by_others`)."""
        return any(step.act.by_others for step in self.steps)


def capabilities_of(plan: FaultPlan) -> tuple[Capability, ...]:
    """Returns the capabilities that the cluster must have for the actions of `plan`: each capability once, sorted by
    name."""
    return tuple(sorted({need for step in plan.steps for need in step.act.needs}))


def replacements_of(plan: FaultPlan, application: Application) -> range:
    """Returns the numbers of the replacements. A replacement is a process that takes the place of a frozen member.

    If `plan` freezes applications, there is one replacement for each member. Their numbers follow the numbers of the
    members. Otherwise the result is empty.
    """
    freezes = any(step.action == "freeze_application" for step in plan.steps)
    return range(application.members, application.members * (2 if freezes else 1))
