"""The runner of a fault plan.

In every cycle the runner waits for the trigger of each step and performs the step's action. It then proves and heals
the injections, and waits for the cluster to recover. The runner records every injection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import ordered
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.injections import RECOVERY_DEADLINE_S, Injections
from delivery_verifier.faults.observing import Watch
from delivery_verifier.faults.ordered import CommandFailed, Orders
from delivery_verifier.faults.targets import Targets
from delivery_verifier.faults.triggers import LoadEnded, Triggers
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.external_cluster import RETURN_S
from delivery_verifier.model.fault_plan import FaultStep
from delivery_verifier.model.history import Injection, now_us
from delivery_verifier.model.live import RECOVERED
from delivery_verifier.model.scenario import Scenario

_log = logging.getLogger(__name__)


class FaultRunner:
    """Runs one scenario's fault plan. Most triggers call `check_load`, which raises an error if the load has failed.

    `listener` is called after each action, and with RECOVERED after each recovery of the cluster. Its arguments are a
    text for people and the time in µs since the epoch.
    """

    def __init__(
        self,
        cluster: Cluster,
        scenario: Scenario,
        load: RunningLoad,
        check_load: Callable[[], object] = lambda: None,
        applications: RunningApplications | None = None,
    ) -> None:
        self._cluster, self._scenario, self._load, self._applications = cluster, scenario, load, applications
        external = scenario.cluster.external
        self._orders = Orders(cluster, scenario) if external is not None and external.commands is not None else None
        actions = ACTIONS if self._orders is None else {**ACTIONS, **ordered.actions(self._orders)}
        self.injections = Injections(cluster, scenario, load, applications, actions)
        self._check_load, self._by_others = check_load, list[Injection]()
        self._triggers = Triggers(cluster, scenario, load, self.injections, check_load)
        self.listener: Callable[[str, int], None] = lambda text, at_us: None

    def run(self) -> list[Injection]:
        """Runs all cycles. Then heals the cluster, even if an error was raised. Returns the injections.

        If the load of a subject has ended early, the plan ends at the next step that waits for reported records. The
        injections are then fewer than planned, so the run cannot be HELD.

        If a trigger or an action misses its deadline, the cycle ends. All injections that are not healed yet then fail.
        If all injections are healed already, the last injection fails instead. A failed injection counts as an
        injection that did not take effect, so the run cannot be HELD.

        Raises DeadlinePassed if a deadline is missed before the first injection of a cycle, or if the cluster does not
        recover.
        """
        try:
            for cycle in range(self._scenario.fault.cycles):
                self._triggers.end_step()
                if not self._run_cycle(cycle):
                    break
        finally:
            self._end_faults()
        if self._orders is not None:
            self._orders.in_evidence(self.injections.all)
        return [*(injection.to_injection() for injection in self.injections.all), *self._by_others]

    def _run_cycle(self, cycle: int) -> bool:
        """Runs all steps of the plan once, and waits for the recovery of the cluster. Returns whether the plan goes on:
        False if the load of a subject has ended early."""
        targets, brokers, goes_on = Targets(self._cluster, self._scenario, cycle), list[int](), True
        injections_before = len(self.injections.all)
        try:
            for step in self._scenario.fault.steps:
                self._triggers.wait(step)
                if step.act.by_others:
                    self._watch()
                    continue
                brokers = brokers if step.target == "same" else targets.resolve(step.target)
                self._perform(step, brokers, cycle)
                self._triggers.end_step()
        except (DeadlinePassed, CommandFailed) as error:
            if len(self.injections.all) == injections_before:
                raise
            for injection in self.injections.open or self.injections.all[-1:]:
                injection.fail(str(error))
        except LoadEnded as error:
            goes_on = False
            _log.warning("the fault plan ends here: %s", error)
        if len(self.injections.all) > injections_before:  # without a fault there is nothing to recover from
            goes_on = self._recover() and goes_on
        return goes_on

    def _watch(self) -> None:
        """Watches while somebody else breaks brokers, and keeps the injections that follow from what was seen."""
        watch = Watch(self._cluster, self._scenario, self._load, self._check_load, self.listener)
        self._by_others = watch.injections()
        self.listener(RECOVERED, now_us())

    def _perform(self, step: FaultStep, brokers: list[int], cycle: int) -> None:
        """Performs the action of `step` on `brokers`.

        The action may heal earlier injections, e.g. a kill ends the freeze of a broker. The healed injections are
        proven before the action, and marked as healed after the action.
        """
        healed = self.injections.healed_by(step, brokers)
        for injection in healed:
            self.injections.prove(injection)
        if step.act.takes_effect:
            at_us = self.injections.inject(step, brokers, cycle)
        else:
            at_us = self.injections.actions[step.action].do(self.injections.context(brokers, step.options)).at_us
        for injection in healed:
            self.injections.close(injection, brokers, at_us)
        if step.action != "wait":  # it does nothing
            self.listener(_mark(step, brokers), at_us)

    def _recover(self) -> bool:
        """Heals the open injections, and waits until every broker sees all replicas of all partitions in sync.

        Also starts a broker again that died without a fault. The observer of the cluster has recorded the death of this
        broker. Returns whether the plan goes on: False if the commands of an operator have not healed the cluster.
        Nobody else can, and the injections then say who is still down.
        """
        injections = self.injections
        for injection in injections.open:
            if injection.proofs.failed is None:
                injections.prove(injection)
        try:
            self._close_all(self._end_faults())
        except (DeadlinePassed, CommandFailed) as error:
            if self._orders is None:
                raise
            self._orders.give_up()
            self._restart_clients()
            for injection in injections.all:
                if injection.recovered_at_us is None:
                    injection.fail(str(error))
            _log.warning("the fault plan ends here, and the cluster is not whole: %s", error)
            return False
        self.listener(RECOVERED, now_us())
        return True

    def _end_faults(self) -> int:
        """Heals whatever the plan has done to brokers. Returns when that began (µs since the epoch)."""
        return (heal(self._cluster) if self._orders is None else self._orders.heal()).at_us

    def _close_all(self, healed_at_us: int) -> None:
        """Ends what the open injections did to clients, closes them, and waits until the cluster has recovered."""
        injections = self.injections
        self._restart_clients()
        for injection in list(injections.open):
            injections.close(injection, injection.brokers, healed_at_us)
        if self._orders is not None and self._orders.leaders_return:
            injections.await_leaders(self._orders.whole_s, RETURN_S)
        injections.await_recovery(RECOVERY_DEADLINE_S if self._orders is None else self._orders.whole_s)

    def _restart_clients(self) -> None:
        if any(injection.act.clients for injection in self.injections.open):
            self._load.restart()
            if self._applications is not None:
                self._applications.restart()


def _mark(step: FaultStep, brokers: list[int]) -> str:
    """Returns a text for people that says what the step does, e.g. `kill (broker 1)`, or `start (brokers 1, 2, 3)`."""
    where = f" (broker{'s'[: len(brokers) > 1]} {', '.join(map(str, brokers))})" if brokers else ""
    return f"{step.action.replace('_', ' ')}{where}"
