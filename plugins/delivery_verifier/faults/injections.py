"""The injections of a fault plan, from the request for a fault until the cluster has recovered from the fault.

* An injection is open until it is healed.
* Just before the healing, `Injections.prove` decides whether the injection took effect, that is, whether the fault had
  its effect.
* The injection is recovered when all replicas are in sync again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import Action, ActionContext, ActionProof
from delivery_verifier.faults.actions import ACTIONS
from delivery_verifier.faults.open_injection import LeaderBefore, OpenInjection, Proofs, partition_name
from delivery_verifier.faults.proofs import coordinated_partitions, prove
from delivery_verifier.faults.targets import touched_partitions
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.act import Proof
from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_plan import FaultStep
from delivery_verifier.model.history import TRANSACTION_STATE, now_us
from delivery_verifier.model.scenario import Scenario

RECOVERY_DEADLINE_S = 90.0


class Injections:
    """The injections of one scenario's fault plan.

    `actions` has the object that performs each action. The attribute `all` holds all injections in the order of their
    requests. The attribute `open` holds the injections that are not healed yet.
    """

    def __init__(
        self,
        cluster: Cluster,
        scenario: Scenario,
        load: RunningLoad,
        applications: RunningApplications | None = None,
        actions: Mapping[str, Action] = ACTIONS,
    ) -> None:
        self._cluster, self._scenario, self._load, self._applications = cluster, scenario, load, applications
        self.actions = actions
        self._topics = [arm.topic_name for arm in scenario.arms]
        self.all: list[OpenInjection] = []
        self.open: list[OpenInjection] = []

    def context(self, brokers: list[int], options: Mapping[str, Setting]) -> ActionContext:
        """Returns the context for an action on `brokers`. `options` are the options of the fault plan's step."""
        return ActionContext(self._cluster, brokers, options, self._scenario, self._load, self._applications)

    def inject(self, step: FaultStep, brokers: list[int], cycle: int) -> int:
        """Records an injection and performs its action. Returns the time just before the action took effect.

        The time is wall time in µs since the epoch. `cycle` is the number of the current cycle. The injection is
        recorded before its action is performed, because an action that misses its deadline may have taken effect. If
        `Act.momentary` is true, nothing has to be healed, so the injection is proven and closed at once.
        """
        injection = self._new_injection(step, brokers, cycle)
        self.all.append(injection)
        self.open.append(injection)
        action, context = self.actions[step.action], self.context(brokers, step.options)
        injection.done = action.do(context)
        injection.effect_at_us = injection.done.at_us
        injection.proofs.process = self.action_proof(injection)
        if step.act.momentary:
            self.prove(injection)
            self.close(injection, injection.brokers, now_us())
        return injection.effect_at_us

    def _new_injection(self, step: FaultStep, brokers: list[int], cycle: int) -> OpenInjection:
        """Returns a new injection. Notes in it the leader of each hit partition before the action is done."""
        requested_at_us = now_us()
        hit = touched_partitions(step.act, self._cluster, self._scenario, brokers)
        before = {
            partition_name(topic, partition): LeaderBefore(state.leader, state.leader_epoch)
            for (topic, partition), state in self._cluster.partitions(self._topics).items()
            if partition in hit.get(topic, ())
        }
        proofs = Proofs(
            process={}, before=before, required=list(step.act.proofs if step.proofs is None else step.proofs)
        )
        if "coordinator_moved" in proofs.required:
            proofs.coordinated = coordinated_partitions(self._cluster, self._scenario, brokers)
        return OpenInjection(
            id=len(self.all),
            cycle=cycle,
            action=step.action,
            brokers=list(brokers),
            hit=hit,
            led=any(state.leader in brokers for state in before.values()) or not brokers,
            options=dict(step.options),
            requested_at_us=requested_at_us,
            effect_at_us=requested_at_us,
            proofs=proofs,
        )

    def healed_by(self, step: FaultStep, brokers: list[int]) -> list[OpenInjection]:
        """Returns the open injections that `step` heals when its action is done to `brokers`.

        The step may heal only some of the brokers of a returned injection.
        """
        return [
            injection
            for injection in self.open
            if injection.action in step.act.heals and (step.act.clients or set(injection.brokers) & set(brokers))
        ]

    def prove(self, injection: OpenInjection) -> None:
        """Decides whether `injection` took effect. Call this just before the injection is healed.

        The injection took effect if all of these conditions hold:

        * The action's own proof (see `Action.proof`) is not empty now.
        * The action's own proof was also not empty right after the action. If `Act.proof_only_before_heal` is true,
          this condition does not count.
        * Every required effect is seen now. If no broker runs, no broker can report effects. An effect then counts if
          the plan waited for this effect and saw it earlier.

        The brokers of an injection may be healed one after another. Then the injection is proven once, before the first
        broker is healed.
        """
        proofs = injection.proofs
        if proofs.process_before_heal is not None:
            return
        proofs.process_before_heal = self.action_proof(injection)
        proofs.effects = prove(self._cluster, self._scenario, injection, proofs.required)
        if not self._cluster.running():
            proofs.effects |= proofs.waited_for
        done = injection.act.proof_only_before_heal or proofs.process
        injection.took_effect = bool(done and proofs.process_before_heal and all(proofs.effects.values()))

    def action_proof(self, injection: OpenInjection) -> ActionProof:
        """Returns the proof that the injection's action gives now (see `Action.proof`). The result is empty if the
        effect does not hold now, or if the action is not complete."""
        if injection.done is None:
            return {}
        context = self.context(injection.brokers, injection.options)
        return self.actions[injection.action].proof(context, injection.done)

    def close(self, injection: OpenInjection, brokers: list[int], healed_at_us: int) -> None:
        """Marks `brokers` as healed. Closes the injection once all of its target brokers are healed.

        `healed_at_us`: the time at which `brokers` were healed, in µs since the epoch. If the injection closes, this is
        also the time at which the injection was healed.
        """
        injection.brokers_to_heal -= set(brokers)
        if not injection.brokers_to_heal:
            injection.healed_at_us = healed_at_us
            self.open.remove(injection)

    def note(self, proof: Proof) -> None:
        """Checks which open injections show the effect `proof`. The plan has just waited for this effect.

        Records the effect in each injection that shows it.
        """
        for injection in self.open:
            if effect := prove(self._cluster, self._scenario, injection, (proof,))[proof]:
                injection.proofs.waited_for[proof] = effect

    def last_shows(self, proof: Proof) -> bool:
        """Returns whether the newest injection now shows the effect `proof`."""
        return bool(prove(self._cluster, self._scenario, self.all[-1], (proof,))[proof])

    def await_leaders(self, whole_s: float, return_s: float) -> None:
        """Waits until every replica is in sync, and then until every partition is led by its first replica again, as
        far as the cluster does that by itself within `return_s`. Raises DeadlinePassed if replicas are not in sync
        after `whole_s`."""
        self._await_in_sync(self._topics, whole_s)
        are_back = lambda: all(  # noqa: E731
            state.leader == state.replicas[0] for state in self._cluster.partitions(self._topics).values()
        )
        with suppress(DeadlinePassed):  # a leader that moves later is a disturbance that was not planned
            wait_until(are_back, "leaders to move back by themselves", return_s, every_s=0.2)

    def await_recovery(self, deadline_s: float = RECOVERY_DEADLINE_S) -> None:
        """Waits until every replica is in sync. Then marks every healed injection as recovered.

        Raises DeadlinePassed.
        """
        topics = list(self._topics)
        if any("coordinator_moved" in injection.proofs.required for injection in self.all):
            topics.append(TRANSACTION_STATE)
        self._await_in_sync(topics, deadline_s)
        recovered_at_us = now_us()
        for injection in self.all:
            if injection.healed_at_us is not None and injection.recovered_at_us is None:
                injection.recovered_at_us = recovered_at_us

    def _await_in_sync(self, topics: list[str], deadline_s: float) -> None:
        wait_until(
            lambda: self._cluster.isr_full(topics),
            "all replicas to be in sync again after the fault",
            deadline_s,
            detail=lambda: self._cluster.out_of_sync(topics),
        )
