"""Triggers: what a step of a fault plan waits for before its action is performed. `Trigger` explains each kind of
trigger."""

from __future__ import annotations

import time
from collections.abc import Callable

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.views import leaders_in_words
from delivery_verifier.faults.applications import are_caught_up
from delivery_verifier.faults.injections import Injections
from delivery_verifier.host.waiting import pause, wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.act import Proof
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.fault_plan import FaultStep
from delivery_verifier.model.scenario import Scenario

LEADER_DEADLINE_S = 40.0
"""The longest time, in seconds, that a trigger waits for a change of leaders, coordinators or ISRs."""
EFFECT_DEADLINE_S = 60.0
"""The longest time, in seconds, that the trigger `took_effect` waits for the last injection's action to prove itself
(see `Action.proof`). Only actions of the proxy may need so long, because the proxy acts only when clients send
requests."""
APPLICATIONS_DEADLINE_S = 60.0
"""The longest time, in seconds, that a trigger waits until members of applications are parked or have caught up."""
APPLIED_S = 0.5
"""Seconds that a leader may take to apply a smaller ISR after the brokers' metadata shows this ISR. Within this time
the leader may still append an acks=all request although the ISR is smaller than min.insync.replicas."""


class LoadEnded(VerifierError, RuntimeError):
    """The load of a subject arm has ended early, so that a trigger that counts its records cannot fire any more."""


class Triggers:
    """The triggers of one scenario's fault plan.

    Most triggers call `check_load` while they wait. `check_load` raises an error if the load has failed.
    """

    def __init__(
        self,
        cluster: Cluster,
        scenario: Scenario,
        load: RunningLoad,
        injections: Injections,
        check_load: Callable[[], object],
    ) -> None:
        self._cluster, self._scenario, self._load = cluster, scenario, load
        self._injections, self._check_load = injections, check_load
        self._step_ended_s, self._count_before = time.monotonic(), 0

    def end_step(self) -> None:
        """Notes that a step ends or a cycle begins. The trigger of the next step may count from this moment on:
        `elapsed` counts the time, and `reported` counts the reported records."""
        self._step_ended_s, self._count_before = time.monotonic(), self._count_reported()

    def wait(self, step: FaultStep) -> None:
        """Waits until the trigger of `step` fires. Raises DeadlinePassed. Also raises LoadEnded if the trigger counts
        reported records, and the load of a subject has ended early, e.g. after a fatal client error."""
        match step.trigger.kind:
            case "at_once":
                pass
            case "elapsed":
                pause(max(0.0, step.trigger.value - (time.monotonic() - self._step_ended_s)))
            case "reported" | "settled":
                self._await_load(step)
            case "leader_moved" | "coordinator_moved" | "deposed":
                if self._injections.all:  # without an injection there is no effect to wait for
                    self._await_effect(step.trigger.kind)
            case "led":
                message = "every partition of the subjects to have a leader that runs"
                wait_until(self._leaders_run, message, LEADER_DEADLINE_S, detail=self._without_leader)
            case "took_effect":
                self._await_proof()
            case "parked" | "caught_up":
                self._await_applications(step.trigger.kind)
            case "isr_full":
                self._injections.await_recovery()
            case "isr_shrunk":
                wait_until(self._isr_runs, "the ISR to shrink to the brokers that run", LEADER_DEADLINE_S)
                pause(APPLIED_S)
                self._injections.note("isr_shrunk")

    def _await_load(self, step: FaultStep) -> None:
        """Waits until the trigger `settled` or `reported` of `step` fires.

        `settled` fires once every attempt sent so far has an outcome. `reported` fires once enough attempts are
        reported. Raises DeadlinePassed.
        """
        deadline_s = self._scenario.load.deadline_s
        if step.trigger.kind == "settled":
            message = f"all that was sent to be settled before {step.action}"
            wait_until(self._is_settled, message, deadline_s, every_s=0.005)
        else:
            records = self._count_before + self._records(step.trigger.value)
            message = f"{records} records to be reported before {step.action}"

            def are_reported() -> bool:
                if self._count_reported() >= records:
                    return True
                if arm := self._load.ended_early():
                    raise LoadEnded(f"the load of {arm} ended before {message}")
                return False

            wait_until(are_reported, message, deadline_s)

    def _await_effect(self, proof: Proof) -> None:
        """Waits until the newest injection shows the effect `proof`. Raises DeadlinePassed."""
        hit = self._injections.all[-1].hit
        partitions = sum(len(numbers) for numbers in hit.values())
        messages: dict[Proof, str] = {
            "leader_moved": f"{partitions} partitions to get another leader",
            "coordinator_moved": "the transactions to get another coordinator",
            "deposed": "the brokers that were hit to lead no more",
        }

        def is_seen() -> bool:
            self._check_load()
            return self._injections.last_shows(proof)

        def leaders() -> str:
            view = self._cluster.partitions(list(hit))
            touched = {key: state for key, state in view.items() if key[1] in hit[key[0]]}
            return leaders_in_words(touched, self._cluster.states())

        detail = str if proof == "coordinator_moved" else leaders
        wait_until(is_seen, messages[proof], LEADER_DEADLINE_S, detail=detail)

    def _await_proof(self) -> None:
        """Waits until the action of the newest injection has a proof that is not empty (see `Action.proof`). Raises
        DeadlinePassed."""
        injection = self._injections.all[-1]
        deadline_s = min(self._scenario.load.deadline_s, EFFECT_DEADLINE_S)

        def took_effect() -> bool:
            self._check_load()
            return bool(self._injections.action_proof(injection))

        wait_until(took_effect, f"{injection.action} to have taken effect", deadline_s, every_s=0.02)

    def _await_applications(self, kind: str) -> None:
        """Waits until the trigger `parked` or `caught_up` fires. Raises DeadlinePassed."""
        context = self._injections.context([], {})
        applications = context.applications
        if applications is None:
            raise ValueError(f"the trigger {kind} needs applications")

        def is_fired() -> bool:
            self._check_load()
            return applications.are_parked() if kind == "parked" else are_caught_up(context)

        wait_until(is_fired, f"the applications to be {kind.replace('_', ' ')}", APPLICATIONS_DEADLINE_S)

    def _count_reported(self) -> int:
        self._check_load()
        return self._load.reported()

    def _is_settled(self) -> bool:
        """Returns whether every attempt that was sent has an outcome."""
        self._check_load()
        return self._load.outstanding() == 0

    def _leaders_run(self) -> bool:
        self._check_load()
        states = self._cluster.partitions([arm.topic_name for arm in self._scenario.subjects])
        running = self._cluster.running()
        return bool(states) and all(state.leader in running for state in states.values())

    def _without_leader(self) -> str:
        """Returns which partitions of the subject arms have no leader that runs, who their replicas are, and who of
        these is down."""
        view = self._cluster.partitions([arm.topic_name for arm in self._scenario.subjects])
        states = self._cluster.states()
        lacking = {key: state for key, state in view.items() if states.get(state.leader) != "running"}
        return leaders_in_words(lacking, states)

    def _isr_runs(self) -> bool:
        """Returns whether all brokers in the ISRs run. Ignores each partition whose leader does not run."""
        running = set(self._cluster.running())
        states = self._cluster.partitions([arm.topic_name for arm in self._scenario.arms])
        return bool(states) and all(set(state.isr) <= running for state in states.values() if state.leader in running)

    def _records(self, value: float) -> int:
        """Returns the number of records for which a trigger with this `value` waits.

        A `value` of 1 or more is this number itself. A `value` below 1 is a share of the records of one cycle. The
        records of one cycle are the planned records of the smallest subject arm, divided by the number of cycles.
        """
        if value >= 1:
            return int(value)
        return int(value * min(arm.records for arm in self._scenario.subjects) / self._scenario.fault.cycles)
