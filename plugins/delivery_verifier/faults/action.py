"""A moment of a fault plan: what an action has to work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.load.handle import Valve
from delivery_verifier.model.scenario import Scenario, Setting


@dataclass(frozen=True)
class Moment:
    """The cluster, whom to do it to, the options of the plan's step, and the load."""

    cluster: Cluster
    brokers: list[int]
    options: Mapping[str, Setting] = field(default_factory=dict)
    scenario: Scenario | None = None
    valve: Valve | None = None
