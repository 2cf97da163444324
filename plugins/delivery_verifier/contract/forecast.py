"""The forecast: which disturbances a fault plan would cause in a partition if every fault takes effect.

The command `kdv explain` and other texts use the forecast to describe a run before it is done. No verdict is based on
the forecast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace

from delivery_verifier.contract import power
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.history import Disturbance, Injection, Observation
from delivery_verifier.model.late_ends import kinds_of
from delivery_verifier.model.scenario import Arm

TARGET_BROKERS: dict[str, frozenset[int]] = {
    "leader": frozenset({1}),
    "new_leader": frozenset({2}),
    "followers": frozenset({2, 3}),
    "follower": frozenset({2}),
    "other_follower": frozenset({3}),
    "leader_and_follower": frozenset({1, 2}),
    "all": frozenset({1, 2, 3}),
    "next": frozenset({1}),
    "second": frozenset({2}),
    "third": frozenset({3}),
    "none": frozenset(),
    "transaction_coordinator": frozenset({1}),
}
"""Maps each target that a fault plan can name to the brokers that this target stands for.

The forecast assumes a partition that broker 1 leads and that brokers 2 and 3 follow. Such a partition exists in the
usual load of three partitions on three brokers, because every broker leads one partition. The forecast also assumes
that broker 1 is the transaction coordinator.
"""


def expected_disturbances(fault: FaultPlan, arm: Arm, replicas: int = 3) -> list[Disturbance]:
    """Returns the disturbances that one pass through the plan `fault` would cause on the topic of `arm`. Its partitions
    have `replicas` replicas; more than three count as three.

    * Each action adds the disturbances that `ACTS` names for it. Some actions are done only to the topics of subject
      arms. They add nothing if `arm` is not a subject.
    * An unclean election, or a loss of power of a whole ISR, arises only from several steps together. The function
      simulates a partition to find them.
    * If the arm writes transactions, each loss of power of a whole ISR is assumed to hit the replicas of the arm's
      transaction coordinator, too.

    The times (`at_us`) of the disturbances show only their order.
    """
    partition = _Partition(arm.topic_name, frozenset(range(1, min(replicas, 3) + 1)))
    actions: list[Disturbance] = []
    elections: list[Disturbance] = []
    for step in fault.steps:
        if arm.role == "subject" or not step.act.only_subject_topics:
            at_us = next(partition.clock)
            actions += _of_action(step, at_us, arm.topic_name)
            elections += partition.run_step(at_us, step)
    losses = list(power.isr_power_losses(partition.observations, partition.power_cuts))
    of_coordinator = [replace(loss, kind="coordinator_power_loss", topic="") for loss in losses if arm.transactional_id]
    return [*actions, *elections, *losses, *of_coordinator]


def _of_action(step: FaultStep, at_us: int, topic: str) -> Iterator[Disturbance]:
    """Yields the disturbances that `ACTS` names for the action of `step`."""
    for kind in (*kinds_of(step.act, step.options), *step.act.observed_as):
        yield Disturbance(
            kind=kind,
            at_us=at_us,
            planned=True,
            topic=topic,
            setting=str(step.options.get("setting", "")),
            value=str(step.options.get("value", "")).lower(),
        )


@dataclass
class _Partition:
    """The simulated state of a partition while a plan runs.

    `replicas`: the brokers with a replica, which are in sync at first. `up`: the brokers that run and can be reached.
    `isr`: the brokers in sync. `target`: the target brokers of the last step. `observations`: what an observer
    would have seen so far. `power_cuts`: the injections so far that cut the power of brokers. `clock`: yields the
    time (µs) of the next event.
    """

    topic: str
    replicas: frozenset[int]
    up: frozenset[int] = TARGET_BROKERS["all"]
    isr: frozenset[int] = field(init=False)
    target: frozenset[int] = TARGET_BROKERS["none"]
    observations: list[Observation] = field(default_factory=list)
    power_cuts: list[Injection] = field(default_factory=list)
    clock: Iterator[int] = field(default_factory=lambda: count(step=OBSERVER_LAG_US))

    def __post_init__(self) -> None:
        self.isr = self.replicas
        self._observe()

    def run_step(self, at_us: int, step: FaultStep) -> Iterator[Disturbance]:
        """Simulates one step of the plan. Yields an unclean election if the step brings brokers back while every broker
        in the ISR stays down."""
        if step.target != "same":
            self.target = TARGET_BROKERS[step.target]
        if step.act.takes_effect:
            self._disturb(at_us, step)
        elif step.act.heals:
            yield from self._heal(at_us)
        self._observe()

    def _disturb(self, at_us: int, step: FaultStep) -> None:
        act = step.act
        if "power_loss" in act.counts_as:
            self.power_cuts.append(
                Injection(
                    id=at_us,
                    cycle=0,
                    action=act.name,
                    brokers=sorted(self.target),
                    hit={},
                    requested_at_us=at_us,
                    effect_at_us=at_us,
                    took_effect=True,
                )
            )
        if "broker_crash" in act.observed_as:
            self.observations += [
                Observation(at_us=at_us, kind="process", broker=broker, state="exited") for broker in self.target
            ]
        is_brief = "brief" in (step.proofs or ())  # the fault is too short for the broker to leave the ISR
        if (act.does or "isolation" in act.counts_as) and not is_brief:
            self.up -= self.target
            self.isr = self.isr & self.up or self.isr  # the last broker in sync stays in the ISR, though it is down

    def _heal(self, at_us: int) -> Iterator[Disturbance]:
        """Brings the target brokers back. Yields an unclean election if every broker in the ISR is still down."""
        returning = self.target - self.up
        if not returning:
            return
        self.up |= returning
        returning &= self.replicas
        if returning and not self.isr & self.up:
            self.isr = returning
            yield Disturbance(kind="unclean_election", at_us=at_us, planned=True, topic=self.topic)
        self.isr |= returning

    def _observe(self) -> None:
        """Adds to `observations` the ISR that an observer would see now."""
        at_us, isr = next(self.clock), sorted(self.isr)
        self.observations.append(Observation(at_us=at_us, kind="partition", topic=self.topic, partition=0, isr=isr))
