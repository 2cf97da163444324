"""An action: what every one of them must be able to do, and the context in which it does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.load.handle import RunningLoad
from delivery_verifier.model.data import Setting
from delivery_verifier.model.scenario import Scenario


@dataclass(frozen=True)
class ActionContext:
    """The cluster, whom to do it to, the options of the plan's step, and the load."""

    cluster: Cluster
    brokers: list[int]
    options: Mapping[str, Setting] = field(default_factory=dict)
    scenario: Scenario | None = None
    valve: RunningLoad | None = None


DEADLINE_S = 10.0


class Action(Protocol):
    """What can be done to a cluster."""

    def do(self, context: ActionContext) -> int:
        """Does it, and waits until it is done. Returns the wall time (µs) just before it took effect."""
        ...

    def proof(self, context: ActionContext) -> dict[str, object]:
        """What shows that it is done and still holds; empty if it does not."""
        ...
