"""An injection that is not closed yet: what is known of the injection so far, and its form in injections.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from delivery_verifier.faults.action import ActionProof, Done
from delivery_verifier.model.act import Act, Proof
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Injection


class LeaderBefore(Struct, frozen=True):
    """The leader of a partition just before a fault took effect. `leader` is -1 if the partition had no leader."""

    leader: int
    leader_epoch: int


class LeaderAfter(Struct, frozen=True):
    """The leader and the in-sync replicas of a partition when effects are checked. `leader` is -1 if the partition has
    no leader."""

    leader: int
    leader_epoch: int
    isr: list[int]


Effect = Mapping[str, LeaderAfter] | Mapping[str, int]
"""What was seen of one effect (see act.Proof). The mapping is empty if the effect was not seen.

For the effect `transactions_open`, the mapping holds the time at which each transaction began, in ms since the epoch,
by transactional.id. For the effect `brief`, the mapping holds the time since the effect (`passed_ms`) and the timeout
of the broker session (`session_ms`), both in ms. For any other effect, it maps the name of each partition (see
`partition_name`) to the partition's leader.
"""


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command of the operator that was run for an injection, on a cluster that somebody else runs.

    * `at_us`: just before it was started, in µs since the epoch. `exit_code`: None if it was ended, or did not start.
    * `output`: the end of what it printed, without secrets.
    * `problem`: why it counts as failed; empty if it does not. That it does not fail proves nothing.
    """

    action: str
    broker: int
    at_us: int
    command: list[str]
    exit_code: int | None
    took_s: float
    output: str = ""
    problem: str = ""


class Proofs(Struct, kw_only=True, omit_defaults=True):
    """The proof that an injection took effect. A field that has its default value is left out of
    injections.json.

    * `process`: the action's own proof (see `Action.proof`) right after the action.
    * `before`: the leader of every hit partition (see `Injection.hit`) just before the fault took effect. The keys are
      names of partitions (see `partition_name`).
    * `required`: the effects that must be seen. In injections.json this field is called `wanted`.
    * `coordinated`: the partitions of `__transaction_state` that hold transactions of the load, and whose leaders were
      target brokers just before the fault took effect. None: the effect `coordinator_moved` is not required.
    * `waited_for`: the effect `isr_shrunk`, as it was seen after a trigger had waited for it. Other effects for which
      triggers wait are not recorded here.
    * `process_before_heal`: the action's own proof just before healing. None: the injection is not healed yet.
    * `effects`: what was seen of each effect just before healing. In injections.json each effect is a field.
    * `failed`: why the plan could not go on, usually because of a missed deadline. None: the plan went on.
    * `ordered`: the commands that were run to break and to heal the brokers, in their order, under a name like `1: kill
      of broker 11`. Empty: the verifier has done it itself.
    """

    process: ActionProof
    before: dict[str, LeaderBefore]
    required: list[Proof] = msgspec.field(name="wanted")
    coordinated: list[int] | None = None
    waited_for: dict[Proof, Effect] = {}
    process_before_heal: ActionProof | None = None
    effects: dict[Proof, Effect] = {}
    failed: str | None = None
    ordered: dict[str, Order] = {}

    def to_builtins(self) -> dict[str, object]:
        """Returns the proof as injections.json has it: one mapping.

        The keys of the mapping are the names of the effects and of those fields that do not have their default values.
        """
        fields: dict[str, Any] = msgspec.to_builtins(self)
        effects: dict[str, Any] = fields.pop("effects", {})
        return {**fields, **effects}


@dataclass
class OpenInjection:
    """An injection from its request until the cluster has recovered. All times are µs since the epoch.

    `Injection` explains most fields. `done` is what the action did; it is None as long as the action is not complete.
    `brokers_to_heal` are the target brokers that no action has healed yet.
    """

    id: int
    cycle: int
    action: str
    brokers: list[int]
    hit: dict[str, list[int]]
    led: bool
    options: dict[str, Setting]
    requested_at_us: int
    effect_at_us: int
    proofs: Proofs
    done: Done | None = None
    took_effect: bool = False
    healed_at_us: int | None = None
    recovered_at_us: int | None = None
    brokers_to_heal: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.brokers_to_heal = set(self.brokers)

    @property
    def act(self) -> Act:
        """The action's entry in ACTS. Raises KeyError if ACTS lacks the action."""
        return ACTS[self.action]

    def fail(self, reason: str) -> None:
        """Records why the plan could not go on. The injection then counts as an injection that did not take effect."""
        self.proofs.failed, self.took_effect = reason, False

    def to_injection(self) -> Injection:
        """Returns the injection in the form that injections.json has."""
        return Injection(
            id=self.id,
            cycle=self.cycle,
            action=self.action,
            brokers=self.brokers,
            hit=self.hit,
            requested_at_us=self.requested_at_us,
            effect_at_us=self.effect_at_us,
            healed_at_us=self.healed_at_us,
            recovered_at_us=self.recovered_at_us,
            took_effect=self.took_effect,
            led=self.led,
            options=self.options,
            proof=self.proofs.to_builtins(),
        )


def partition_name(topic: str, partition: int) -> str:
    """Returns `<topic>-<partition>`, the name of a partition in the keys of a proof."""
    return f"{topic}-{partition}"
