"""The runner of a fault plan: trigger, act, prove, heal, recover; cycle by cycle, each step on the record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from delivery_verifier.cluster import coordinators
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.proofs import coordinated, prove
from delivery_verifier.faults.targets import Targets, touched
from delivery_verifier.host.waiting import DeadlinePassed, pause, wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.fault_actions import ACTS, Proof
from delivery_verifier.model.fault_plan import FaultStep
from delivery_verifier.model.history import Injection, now_us
from delivery_verifier.model.scenario import Scenario

LEADER_DEADLINE_S = 40.0
RECOVERY_DEADLINE_S = 90.0
BITE_DEADLINE_S = 60.0
"""What the proxy is to act on is under way already, or sent by the plan just before."""
APPLIED_S = 0.5
"""A broker's metadata shows a smaller ISR before the partition's leader applies it: an acks=all request within that
time may still be appended under min.insync.replicas."""


class FaultRunner:
    """Runs one scenario's fault plan. `look` is called while waiting; it raises if the load has failed."""

    def __init__(
        self, cluster: Cluster, scenario: Scenario, valve: RunningLoad, look: Callable[[], object] = lambda: None
    ) -> None:
        self.cluster, self.scenario, self.valve, self.look = cluster, scenario, valve, look
        self.topics = [arm.topic_name for arm in scenario.arms]
        self.injections: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []
        self._since_s, self._since_reported = time.monotonic(), 0

    def run(self) -> list[Injection]:
        """Runs all cycles; whatever happens, the cluster is made whole afterwards.

        A trigger that does not come true in time ends the cycle: the injections still open are on record as ones that
        did not bite, and no verdict will be HELD.
        """
        try:
            for cycle in range(self.scenario.fault.cycles):
                self._since_s, self._since_reported = time.monotonic(), self._reported()
                self._cycle(cycle)
        finally:
            heal(self.cluster)
        return [msgspec.convert(injection, Injection) for injection in self.injections]

    def _cycle(self, cycle: int) -> None:
        targets, brokers, first = Targets(self.cluster, self.scenario, cycle), list[int](), len(self.injections)
        try:
            for step in self.scenario.fault.steps:
                self._await(step)
                brokers = brokers if step.target == "same" else targets.resolve(step.target)
                self._perform(step, brokers, cycle)
                self._since_s, self._since_reported = time.monotonic(), self._reported()
        except DeadlinePassed as error:
            if len(self.injections) == first:
                raise
            for injection in self.open or self.injections[-1:]:
                injection["proof"]["failed"], injection["bit"] = str(error), False
        if len(self.injections) > first:  # without a fault there is nothing to recover from
            self._recover()

    def _perform(self, step: FaultStep, brokers: list[int], cycle: int) -> None:
        """Does it. A bite may end another one: who is killed while frozen is frozen no more."""
        now = ActionContext(self.cluster, brokers, step.options, self.scenario, self.valve)
        healed = [
            one
            for one in self.open
            if one["action"] in step.act.heals and (step.act.clients or {*one["brokers"]} & {*brokers})
        ]
        for injection in healed:
            self._prove(injection)
        at_us = self._bite(step, now, cycle) if step.act.bites else ACTIONS[step.action].do(now)
        for injection in healed:
            self._close(injection, at_us, brokers)

    def _bite(self, step: FaultStep, context: ActionContext, cycle: int) -> int:
        action, requested = ACTIONS[step.action], now_us()
        hit = touched(step.act, self.cluster, self.scenario, context.brokers)
        before = {
            f"{topic}-{partition}": {"leader": state.leader, "leader_epoch": state.leader_epoch}
            for (topic, partition), state in self.cluster.partitions(self.topics).items()
            if partition in hit.get(topic, ())
        }
        led = any(state["leader"] in context.brokers for state in before.values()) or not context.brokers
        injection: dict[str, Any] = {
            "id": len(self.injections),
            "cycle": cycle,
            "action": step.action,
            "brokers": list(context.brokers),
            "hit": hit,
            "requested_at_us": requested,
            "bite_at_us": requested,
            "bit": False,
            "options": dict(step.options),
            "led": led,
            "proof": {"process": {}, "before": before},
        }
        wanted = step.proofs if step.proofs is not None else step.act.proofs
        injection["proof"]["wanted"] = list(wanted)
        if "coordinator_moved" in wanted:
            injection["proof"]["coordinated"] = coordinated(self.cluster, self.scenario, context.brokers)
        self.injections.append(injection)  # on record before it is done: what comes late may have bitten all the same
        self.open.append(injection)
        injection["bite_at_us"] = at_us = action.do(context)
        injection["proof"]["process"] = action.proof(context)
        if step.act.momentary:
            self._prove(injection)
            self._close(injection, now_us(), injection["brokers"])
        return at_us

    def _prove(self, injection: dict[str, Any]) -> None:
        """Looks for the proof just before healing: what was done still holds, and its effects are there.

        Where no broker is left to ask, an effect counts that the plan waited for and saw.
        """
        if "process_before_heal" in injection["proof"]:
            return
        now = ActionContext(self.cluster, injection["brokers"], injection["options"], self.scenario, self.valve)
        still = ACTIONS[injection["action"]].proof(now)
        seen = prove(self.cluster, self.scenario, injection)
        if "running" not in self.cluster.states().values():
            seen |= injection["proof"].get("waited_for", {})
        injection["proof"] |= {"process_before_heal": still, **seen}
        done = ACTS[injection["action"]].proof_only_before_heal or injection["proof"]["process"]
        injection["bit"] = bool(done and still and all(seen.values()))

    def _close(self, injection: dict[str, Any], at_us: int, brokers: list[int]) -> None:
        """An injection is healed once all its brokers are."""
        left = set(injection["proof"].pop("left", injection["brokers"])) - set(brokers)
        if left:
            injection["proof"]["left"] = sorted(left)
        else:
            injection["healed_at_us"] = at_us
            self.open.remove(injection)

    def _recover(self) -> None:
        """Recovery: every replica of every partition is in sync again, in every broker's eyes.

        Also a broker that died by nobody's plan is started again: the observer has it on record.
        """
        for injection in self.open:
            if "failed" not in injection["proof"]:
                self._prove(injection)
        at_us = now_us()
        heal(self.cluster)
        if any(ACTS[injection["action"]].clients for injection in self.open):
            self.valve.restart()
        for injection in list(self.open):
            self._close(injection, at_us, injection["brokers"])
        self._await_isr()

    def _await_isr(self) -> None:
        """Waits until every replica is in sync: then all that was healed before has recovered."""
        wanted = "coordinator_moved" in {proof for one in self.injections for proof in one["proof"]["wanted"]}
        topics = [*self.topics, *([coordinators.TOPIC] if wanted else [])]
        wait_until(
            lambda: self.cluster.isr_full(topics),
            "all replicas to be in sync again after the fault",
            RECOVERY_DEADLINE_S,
            detail=lambda: self.cluster.out_of_sync(topics),
        )
        at_us = now_us()
        for injection in self.injections:
            if "healed_at_us" in injection:
                injection.setdefault("recovered_at_us", at_us)

    def _await(self, step: FaultStep) -> None:
        trigger, deadline = step.trigger, self.scenario.load.deadline_s
        if trigger.kind == "elapsed":
            pause(max(0.0, trigger.value - (time.monotonic() - self._since_s)))
        elif trigger.kind == "reported":
            wanted = self._since_reported + self._records(trigger.value)
            wait_until(
                lambda: self._reported() >= wanted, f"{wanted} records to be reported before {step.action}", deadline
            )
        elif trigger.kind == "settled":
            wait_until(self._settled, f"all that was sent to be settled before {step.action}", deadline, every_s=0.005)
        elif trigger.kind == "leader_moved" and self.injections:
            hit = sum(len(partitions) for partitions in self.injections[-1]["hit"].values())
            wait_until(lambda: self._seen("leader_moved"), f"{hit} partitions to get another leader", LEADER_DEADLINE_S)
        elif trigger.kind == "coordinator_moved" and self.injections:
            wait_until(
                lambda: self._seen("coordinator_moved"),
                "the transactions to get another coordinator",
                LEADER_DEADLINE_S,
            )
        elif trigger.kind == "deposed" and self.injections:
            wait_until(lambda: self._seen("deposed"), "the brokers that were hit to lead no more", LEADER_DEADLINE_S)
        elif trigger.kind == "led":
            wait_until(self._led, "every partition of the subjects to have a leader that runs", LEADER_DEADLINE_S)
        elif trigger.kind == "bitten":
            wait_until(
                self._bitten,
                f"{self.injections[-1]['action']} to have taken effect",
                min(deadline, BITE_DEADLINE_S),
                every_s=0.02,
            )
        elif trigger.kind == "isr_full":
            self._await_isr()
        elif trigger.kind == "isr_shrunk":
            wait_until(self._isr_shrunk, "the ISR to shrink to the brokers that run", LEADER_DEADLINE_S)
            pause(APPLIED_S)
            self._note("isr_shrunk")

    def _reported(self) -> int:
        self.look()
        return self.valve.reported()

    def _settled(self) -> bool:
        self.look()
        return self.valve.outstanding() == 0

    def _seen(self, proof: Proof) -> bool:
        """Whether the last injection shows `proof`."""
        self.look()
        return bool(prove(self.cluster, self.scenario, self.injections[-1], (proof,))[proof])

    def _note(self, proof: Proof) -> None:
        """Puts on record which of the open injections show `proof` now that the plan has waited for it."""
        for injection in self.open:
            if found := prove(self.cluster, self.scenario, injection, (proof,))[proof]:
                injection["proof"].setdefault("waited_for", {})[proof] = found

    def _led(self) -> bool:
        self.look()
        seen = self.cluster.partitions([arm.topic_name for arm in self.scenario.subjects])
        running = {broker for broker, state in self.cluster.states().items() if state == "running"}
        return bool(seen) and all(state.leader in running for state in seen.values())

    def _bitten(self) -> bool:
        self.look()
        last = self.injections[-1]
        now = ActionContext(self.cluster, last["brokers"], last["options"], self.scenario, self.valve)
        return bool(ACTIONS[last["action"]].proof(now))

    def _isr_shrunk(self) -> bool:
        """Whether no partition that has a leader counts on a broker that does not run."""
        states, seen = self.cluster.states(), self.cluster.partitions(self.topics)
        running = {broker for broker, state in states.items() if state == "running"}
        return bool(seen) and all(set(state.isr) <= running for state in seen.values() if state.leader in running)

    def _records(self, value: float) -> int:
        """A value below 1 is a share of the smallest subject's floor, per cycle."""
        if value >= 1:
            return int(value)
        return int(value * min(arm.records for arm in self.scenario.subjects) / self.scenario.fault.cycles)
