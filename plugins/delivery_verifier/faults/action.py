"""An action: the interface of every action of a fault plan, and the context in which an action is performed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Scenario

ActionProof = Mapping[str, str | int | list[int] | Mapping[str, int]]
"""An action's own proof: what shows its effect, per broker, producer, topic or partition; empty if nothing shows it."""


@dataclass(frozen=True)
class ActionContext:
    """What an action may use: the cluster, the target brokers, the options of the plan's step, the scenario, its load.

    `brokers` are the target brokers, to which the action is done. `options` are the options of the step. Code that only
    heals the cluster has neither a scenario nor a load. An action that needs a scenario or a load then raises
    ValueError.
    """

    cluster: Cluster
    brokers: list[int]
    options: Mapping[str, Setting] = field(default_factory=dict)
    scenario: Scenario | None = None
    load: RunningLoad | None = None


class Action(Protocol):
    """One thing that can be done to a cluster, its topics or its clients."""

    def do(self, context: ActionContext) -> int:
        """Performs the action, and waits until its effect is complete.

        Returns the wall time (µs since the epoch) just before the action took effect.
        """
        ...

    def proof(self, context: ActionContext) -> ActionProof:
        """Returns what shows that the effect of the action holds now.

        The proof of a fault is empty while the effect does not hold: e.g. SIGSTOP was sent, but a thread still runs. An
        action that is no fault (`Act.bites` is false) is never asked for its proof by a plan. It may return anything.
        """
        ...
