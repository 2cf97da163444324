"""The registry of sinks. It holds one object per kind of sink. `model.application.SINKS` says which kind of sink each
application has."""

from __future__ import annotations

from collections.abc import Collection

from delivery_verifier.applications.database import Tables
from delivery_verifier.applications.output_topic import OutputTopic
from delivery_verifier.applications.own.described import read_own
from delivery_verifier.applications.own.sink import OwnEffects, planted_place
from delivery_verifier.applications.sink import Sink
from delivery_verifier.applications.slots import Slots
from delivery_verifier.model.application import SINKS, Application, Discipline, SinkKind

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


def sinks_of_canary(applications: Collection[Application]) -> dict[str, Sink]:
    """Returns the sinks into which a run with `applications` plants its canary, by name: every kind of sink that they
    use, and the place of each own application. The first one keeps where the record of an effect stands.

    Raises BadInput if the file that describes an own application is wrong.
    """
    own = sorted({each.name for each in applications if each.discipline == "own"})
    disciplines = {each.discipline for each in applications}
    if own:  # its effects do not say where their records stand: those of slots are reconciled
        disciplines.add("commit_after")
    kinds: dict[str, Sink] = {kind: sink for kind, sink in sinks_of(disciplines).items() if kind != "own"}
    return kinds | {f"own {name}": OwnEffects(planted_place(read_own(name).effects)) for name in own}
