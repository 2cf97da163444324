"""The registry of sinks. It holds one object per kind of sink. `model.application.SINKS` says which kind of sink each
application has."""

from __future__ import annotations

from delivery_verifier.applications.database import Tables
from delivery_verifier.applications.output_topic import OutputTopic
from delivery_verifier.applications.own.sink import OwnEffects
from delivery_verifier.applications.sink import Sink
from delivery_verifier.applications.slots import Slots
from delivery_verifier.model.application import SINKS, Discipline, SinkKind

_SINKS: dict[SinkKind, Sink] = {
    "slots": Slots(),
    "topic": OutputTopic(),
    "table": Tables(),
    "own": OwnEffects(),
}


def sink_of(discipline: Discipline) -> Sink:
    """Returns the sink of the applications with `discipline`."""
    return _SINKS[SINKS[discipline]]


def sinks_of(disciplines: set[Discipline]) -> dict[SinkKind, Sink]:
    """Returns every kind of sink that applications with `disciplines` use, in the order of the registry."""
    kinds = {SINKS[discipline] for discipline in disciplines}
    return {kind: sink for kind, sink in _SINKS.items() if kind in kinds}
