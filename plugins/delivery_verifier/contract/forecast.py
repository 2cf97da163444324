"""The rehearsal: what a fault plan would be seen to do to a partition, if every step bites. For telling beforehand
only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from delivery_verifier.contract import power
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.history import Disturbance, Injection, Observation
from delivery_verifier.model.scenario import Arm

ROLES: dict[str, frozenset[int]] = {
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
"""Brokers of a plan's targets, for a partition that broker 1 leads and 2 and 3 follow. Who coordinates transactions
leads it too: with three partitions, one of them."""
STEP_US = 10_000_000


def expected(fault: FaultPlan, arm: Arm) -> list[Disturbance]:
    """The disturbances of the arm's topic: those of each action, and those that the steps cause only together."""
    topic, steps = (
        arm.topic_name,
        [step for step in fault.steps if arm.role == "subject" or not step.act.only_subject_topics],
    )
    own = [
        Disturbance(
            kind=kind,
            at_us=0,
            planned=True,
            topic=topic,
            setting=str(step.options.get("setting", "")),
            value=str(step.options.get("value", "")).lower(),
        )
        for step in steps
        for kind in (*step.act.counts_as, *step.act.observed_as)
    ]
    partition = _Partition(topic)
    together = [found for at, step in enumerate(steps, 1) for found in partition.take(at * STEP_US, step)]
    return [*own, *together, *power.of_isr(partition.seen, partition.cuts)]


@dataclass
class _Partition:
    """A partition of three replicas while a plan runs: who is up, who is in sync, and what an observer would have
    seen."""

    topic: str
    up: frozenset[int] = ROLES["all"]
    isr: frozenset[int] = ROLES["all"]
    target: frozenset[int] = ROLES["none"]
    seen: list[Observation] = field(default_factory=list)
    cuts: list[Injection] = field(default_factory=list)

    def take(self, at_us: int, step: FaultStep) -> Iterator[Disturbance]:
        """Does one step. Yields an unclean election where only a replica that is not in sync comes up."""
        if not self.seen:
            self._look(0)
        self.target = self.target if step.target == "same" else ROLES[step.target]
        if step.act.bites:
            self._hurt(at_us, step)
        elif step.act.heals and (back := self.target - self.up):
            self.up |= back
            if not self.isr & self.up:
                self.isr = back
                yield Disturbance(kind="unclean_election", at_us=at_us, planned=True, topic=self.topic)
            self.isr |= back
        self._look(at_us + STEP_US // 2)

    def _hurt(self, at_us: int, step: FaultStep) -> None:
        act = step.act
        if "power_loss" in act.counts_as:
            self.cuts.append(
                Injection(
                    id=at_us,
                    cycle=0,
                    action=act.name,
                    brokers=sorted(self.target),
                    hit={},
                    requested_at_us=at_us,
                    bite_at_us=at_us,
                    bit=True,
                )
            )
        if "broker_crash" in act.observed_as:
            self.seen += [
                Observation(at_us=at_us, kind="process", broker=it, state="exited", exit_code=-9) for it in self.target
            ]
        if (act.does or "isolation" in act.counts_as) and "brief" not in (step.proofs or ()):
            self.up -= self.target
            self.isr = self.isr & self.up or self.isr

    def _look(self, at_us: int) -> None:
        leader = min(self.isr & self.up, default=-1)
        self.seen.append(
            Observation(
                at_us=at_us, kind="partition", topic=self.topic, partition=0, leader=leader, isr=sorted(self.isr)
            )
        )
