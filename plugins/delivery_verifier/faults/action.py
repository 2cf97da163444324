"""An action: what every action of a fault plan must be able to do, and the context in which it does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Scenario

ActionProof = Mapping[str, str | int | list[int] | Mapping[str, int]]
"""What an action shows as its own proof, per broker, producer, topic or partition; empty if the action has no proof."""


@dataclass(frozen=True)
class ActionContext:
    """The cluster, the target brokers, the options of the plan's step, and the scenario and its load.

    Code that only heals the cluster has neither a scenario nor a load. An action that needs one then raises ValueError.
    """

    cluster: Cluster
    brokers: list[int]
    options: Mapping[str, Setting] = field(default_factory=dict)
    scenario: Scenario | None = None
    load: RunningLoad | None = None


class Action(Protocol):
    """What can be done to a cluster, its topics or its clients."""

    def do(self, context: ActionContext) -> int:
        """Performs the action and waits until it is done. Returns the wall time (µs) just before it took effect."""
        ...

    def proof(self, context: ActionContext) -> ActionProof:
        """What shows now that the effect of the action holds; empty if it does not hold, or if the action breaks
        nothing."""
        ...
