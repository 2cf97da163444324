"""The runner of a fault plan: trigger, act, prove, heal, recover; cycle by cycle, each step on the record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.targets import TARGETS, led_by
from delivery_verifier.injection import Injection
from delivery_verifier.runs import now_us
from delivery_verifier.scenario import FaultStep, Scenario
from delivery_verifier.waiting import DeadlinePassed, pause, wait_until

LEADER_DEADLINE_S = 40.0
RECOVERY_DEADLINE_S = 90.0


class FaultRunner:
    """Runs one scenario's fault plan. `reported` says how many records every subject arm has had reported."""

    def __init__(self, cluster: Cluster, scenario: Scenario, reported: Callable[[], int]) -> None:
        self.cluster, self.scenario, self.reported = cluster, scenario, reported
        self.topics = [arm.topic_name for arm in scenario.arms]
        self.injections: list[dict[str, Any]] = []
        self._since_s, self._since_reported = time.monotonic(), reported()

    def run(self) -> list[Injection]:
        """Runs all cycles; whatever happens, every broker runs again afterwards.

        A trigger that does not come true in time ends the plan: the injection is on record as one that did not
        bite, and no verdict will be HELD.
        """
        try:
            for cycle in range(self.scenario.fault.cycles):
                self._cycle(cycle)
        finally:
            heal(self.cluster)
        return [msgspec.convert(injection, Injection) for injection in self.injections]

    def _cycle(self, cycle: int) -> None:
        open_injection: dict[str, Any] | None = None
        brokers: list[int] = []
        try:
            for step in self.scenario.fault.steps:
                self._await(step, open_injection)
                if step.target != "same":
                    brokers = TARGETS[step.target](self.cluster, self.scenario)
                if ACTIONS[step.action].bites:
                    open_injection = self._bite(cycle, step, brokers)
                else:
                    self._heal(step, brokers, open_injection)
                self._since_s, self._since_reported = time.monotonic(), self.reported()
        except DeadlinePassed as error:
            if open_injection is None:
                raise
            open_injection["proof"]["failed"] = str(error)
            open_injection["bit"] = False
            heal(self.cluster)
        if open_injection is not None:
            self._recover(open_injection)

    def _bite(self, cycle: int, step: FaultStep, brokers: list[int]) -> dict[str, Any]:
        action, hit, requested = ACTIONS[step.action], led_by(self.cluster, self.topics, brokers), now_us()
        before = {
            f"{topic}-{partition}": {"leader": state.leader, "leader_epoch": state.leader_epoch}
            for (topic, partition), state in self.cluster.partitions(self.topics).items()
            if partition in hit.get(topic, ())
        }
        at_us = action.do(self.cluster, brokers)
        proof = action.proof(self.cluster, brokers)
        injection: dict[str, Any] = {
            "id": len(self.injections), "cycle": cycle, "action": step.action, "brokers": brokers, "hit": hit,
            "requested_at_us": requested, "bite_at_us": at_us, "bit": False,
            "proof": {"process": proof, "before": before},
        }  # fmt: skip
        self.injections.append(injection)
        return injection

    def _heal(self, step: FaultStep, brokers: list[int], injection: dict[str, Any] | None) -> None:
        """Looks for the proof just before healing: the process is as the action left it, and leadership has moved."""
        if injection is not None:
            action = ACTIONS[injection["action"]]
            still = action.proof(self.cluster, brokers)
            after = self._moved(injection)
            injection["proof"] |= {"process_before_heal": still, "after": after}
            injection["bit"] = bool(injection["proof"]["process"] and still and after)
        at_us = ACTIONS[step.action].do(self.cluster, brokers)
        if injection is not None:
            injection["healed_at_us"] = at_us

    def _moved(self, injection: dict[str, Any]) -> dict[str, object]:
        """New leadership of the hit partitions, if every one of them is led by another broker; else nothing."""
        seen = self.cluster.partitions(self.topics)
        hit = [(topic, partition) for topic, partitions in injection["hit"].items() for partition in partitions]
        if not hit or any(key not in seen or seen[key].leader in (-1, *injection["brokers"]) for key in hit):
            return {}
        return {
            f"{topic}-{partition}": {"leader": seen[topic, partition].leader,
                                     "leader_epoch": seen[topic, partition].leader_epoch}
            for topic, partition in hit
        }  # fmt: skip

    def _recover(self, injection: dict[str, Any]) -> None:
        """Recovery: every replica of every partition is in sync again, in every broker's eyes.

        Also a broker that died by nobody's plan is started again: the observer has it on record.
        """
        heal(self.cluster)
        wait_until(
            lambda: self.cluster.isr_full(self.topics), "all replicas to be in sync again after the fault",
            RECOVERY_DEADLINE_S, detail=lambda: self.cluster.out_of_sync(self.topics),
        )  # fmt: skip
        injection["recovered_at_us"] = now_us()

    def _await(self, step: FaultStep, injection: dict[str, Any] | None) -> None:
        trigger, deadline = step.trigger, self.scenario.load.deadline_s
        if trigger.kind == "elapsed":
            pause(max(0.0, trigger.value - (time.monotonic() - self._since_s)))
        elif trigger.kind == "reported":
            wanted = self._since_reported + self._records(trigger.value)
            wait_until(
                lambda: self.reported() >= wanted, f"{wanted} records to be reported before {step.action}", deadline
            )
        elif trigger.kind == "leader_moved" and injection is not None:
            hit = sum(len(partitions) for partitions in injection["hit"].values())
            wait_until(lambda: self._moved(injection), f"{hit} partitions to get another leader", LEADER_DEADLINE_S)
        elif trigger.kind == "isr_full":
            wait_until(lambda: self.cluster.isr_full(self.topics), "all replicas to be in sync", RECOVERY_DEADLINE_S)

    def _records(self, value: float) -> int:
        """A value below 1 is a share of the smallest subject's floor, per cycle."""
        if value >= 1:
            return int(value)
        return int(value * min(arm.records for arm in self.scenario.subjects) / self.scenario.fault.cycles)
