"""An action: the interface of every action of a fault plan, and the context with which an action is performed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from delivery_verifier.applications.handle import RunningApplications
from delivery_verifier.cluster.backend import BreakableCluster
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Scenario

ActionProof = Mapping[str, str | int | list[int] | Mapping[str, int]]
"""An action's own proof: facts that show the action's effect. A key names what the fact is about, e.g. `broker 1`. The
value is the fact, e.g. `exited`. The mapping is empty if nothing shows the effect."""


@dataclass(frozen=True)
class Done:
    """What an action did. The injection keeps it for the proof, because one object performs all injections of an
    action.

    * `at_us`: the wall time just before the action took effect, in µs since the epoch.
    * `facts`: what was seen while the action was done and cannot be seen any more. Only the action's own proof reads
      it.
    """

    at_us: int
    facts: ActionProof = field(default_factory=dict)


@dataclass(frozen=True)
class ActionContext:
    """What an action may use: the cluster, the target brokers, the options, the scenario, its load and its
    applications.

    `brokers` are the target brokers, to which the action is done. `options` are the options that the fault plan gives
    to the action. If the caller is `actions.heal`, which only repairs the cluster, then `scenario`, `load` and
    `applications` are None. An action that needs one of these three then raises ValueError.
    """

    cluster: Cluster
    brokers: list[int]
    options: Mapping[str, Setting] = field(default_factory=dict)
    scenario: Scenario | None = None
    load: RunningLoad | None = None
    applications: RunningApplications | None = None


class Action(Protocol):
    """The interface of an action. An action is one thing that can be done to a cluster, its topics or its clients.

    An action keeps nothing between two calls: a later injection must never prove an earlier one.
    """

    def do(self, context: ActionContext) -> Done:
        """Performs the action, and waits until its effect is complete. Returns what it did."""
        ...

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns the facts that show that the effect of the action holds now. `done` is what `do` returned for the
        same injection.

        For a fault, the result is empty while the effect does not hold, e.g. while a thread still runs after SIGSTOP.
        For an action that is not a fault (`Act.takes_effect` is false), the result is not used.
        """
        ...


class Harmless:
    """The proof of an action that breaks nothing: there is nothing to prove."""

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns an empty proof."""
        return {}


def breakable_in(context: ActionContext) -> BreakableCluster:
    """Returns the cluster as one that can be broken. Raises ValueError if the run only observes the cluster."""
    if context.cluster.breakable is None:
        raise ValueError("an action on brokers needs a cluster that the run may break")
    return context.cluster.breakable


def applications_in(context: ActionContext) -> RunningApplications:
    """Returns the applications of the run. Raises ValueError if the context has none."""
    if context.applications is None:
        raise ValueError("an action on applications needs applications")
    return context.applications


def scenario_in(context: ActionContext) -> Scenario:
    """Returns the scenario of the run. Raises ValueError if the context has none."""
    if context.scenario is None:
        raise ValueError("an action on applications needs a scenario")
    return context.scenario


def load_in(context: ActionContext) -> RunningLoad:
    """Returns the load of the run. Raises ValueError if the context has none."""
    if context.load is None:
        raise ValueError("an action on user applications needs the load")
    return context.load
