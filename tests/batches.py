"""Says what to run: the gate (`make test`), everything (`make test-all`), what a change can reach (`CHANGED=`), or what
continuous integration runs beside the gate (`TURN=1`). A batch is what one process of pytest runs."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

import gate
import reach
from gate import Capability, Cost, Gate, covers
from msgspec import Struct, field

PROCESSES = (("catalogue", "e2e"), ("spark", "quality"), ("kafka",), ("unit",), ("airflow",))
"""The folders whose tests share a process, in the order in which the processes begin. Tests of catalogue/ and e2e/, and
of spark/ and quality/, share a Spark session, which is dear to start."""
TIERS = tuple(folder for folders in PROCESSES for folder in folders)
COMPOSE = "compose"
"""The tests of docker-compose.yml, which tests/composed.py runs after all others."""
TURNS = 3
"""A turn of continuous integration runs this part of what neither the gate nor a change of the last day calls for. In
at most one turn more, all tests have been run."""
TURN_CPU_S = 2700.0
"""Processor seconds of a turn beside the gate. What is beyond is run first in the next turn."""
QUICK = ("-m", "not slow")
UNKNOWN = {COMPOSE: Cost(tests=0, cpu_s=900.0, gate_cpu_s=0.0)}
"""Costs that costs.json does not have: an estimate for the services."""
NEW = Cost(tests=0, cpu_s=30.0, gate_cpu_s=0.0)
"""What a module without a record is taken to cost."""


class Batch(NamedTuple):
    """What one process runs. `ids`: folders, modules or tests, below tests/. `options`: further options of pytest."""

    ids: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the batch: the folders of its tests."""
        return "+".join(dict.fromkeys(name.split("/")[0] for name in self.ids))


class Memory(Struct):
    """What this host has run. `turn` counts the turns of continuous integration. `ran`: the turn in which each module
    was run last. `owed`: the modules that the last turn named, but did not begin. `green`: the modules that passed at
    `state`, a state of the checkout."""

    turn: int = 0
    ran: dict[str, int] = field(default_factory=dict)
    owed: list[str] = field(default_factory=list)
    state: str = ""
    green: list[str] = field(default_factory=list)


def of_gate(asked: Gate) -> list[Batch]:
    """Returns the batches of `make test`."""
    return _batches(["unit", *asked.tests], QUICK)


def of_capabilities(asked: Iterable[Capability]) -> list[Batch]:
    """Returns the batches of the tests of some capabilities."""
    return _batches([*dict.fromkeys(test for one in asked for test in one.tests)], QUICK)


def of_tiers(tiers: Iterable[str], green: Iterable[str] = ()) -> list[Batch]:
    """Returns the batches of whole folders, without the modules `green`, which need not run again."""
    left_out = {*green}
    every = [name for tier in tiers for name in (modules(tier) if left_out else [tier])]
    return _batches([name for name in every if name not in left_out])


def of_change(since: str, asked: Gate, *, quick: bool = False) -> list[Batch]:
    """Returns what the change since a commit can reach. `quick`: only the quick tests of unit/, near the change."""
    return of_files(reach.changed_files(since), asked, quick=quick)


def of_files(files: Sequence[str], asked: Gate, *, quick: bool = False) -> list[Batch]:
    """Returns what a change of files can reach: modules of tests, and the capabilities of the touched rooms. A change
    that reaches everything is tried with the gate."""
    if reach.reaches_everything(files):
        return [batch for batch in of_gate(asked) if not quick or batch.name == "unit"]
    found = reach.modules(files, graph())
    if quick:
        near = [name for name, at in found.items() if name.startswith("unit/") and at <= reach.HEAVY_WITHIN]
        return _batches(near, QUICK)
    named = [test for one in reach.capabilities(files, asked.capability) for test in one.tests]
    return _batches([*found, *(test for test in dict.fromkeys(named) if not covers(test, found))])


@functools.cache
def graph() -> dict[str, list[str]]:
    """Returns the graph of imports, which is computed once."""
    return reach.graph()


def of_turn(chosen: Sequence[str], owed: Sequence[str], asked: Gate) -> list[Batch]:
    """Returns the batches of a turn, without the tests that `make test` runs. Compose is no batch. What the last turn
    owes comes first, and the rest in the order of `make test-all`: another order would be tried nowhere else."""
    chosen = sorted(chosen, key=lambda name: (name not in owed, name))
    heavy = [name for name in chosen if name != COMPOSE and not name.startswith("unit/")]
    done = [test for test in asked.tests if not _has_random_histories(test)]
    without = tuple(word for test in done for word in ("--deselect", f"tests/{test}"))
    return [*_batches(heavy, without), *_batches([name for name in chosen if name.startswith("unit/")], ("-m", "slow"))]


def modules(tier: str) -> list[str]:
    """Returns the modules of a folder, by path below tests/."""
    return sorted(str(file.relative_to(gate.HERE)) for file in (gate.HERE / tier).rglob("test_*.py"))


def beside_the_gate(asked: Gate) -> list[str]:
    """Returns the modules with tests that `make test` does not run, and COMPOSE."""
    done = {name for name in asked.tests if not _has_random_histories(name)}
    heavy = [name for tier in TIERS for name in modules(tier) if tier != "unit" and name not in done]
    slow = [name for name in modules("unit") if "mark.slow" in (gate.HERE / name).read_text()]
    return [*heavy, *slow, COMPOSE]


def _has_random_histories(test: str) -> bool:
    """Whether the module of a test plays random histories. Outside the gate it plays more of them, and other ones."""
    return "in_this_round(" in (gate.HERE / test.partition("::")[0]).read_text()


def choose(
    every: Sequence[str], costs: Mapping[str, Cost], memory: Memory, reached: Iterable[str], slot: int
) -> tuple[Sequence[str], Sequence[str]]:
    """Returns the modules of a turn in their order, and those that are left to the next turn because the processor
    seconds do not suffice.

    First comes what the last turn owes, and what has waited for TURNS turns. Then what the changes of the last day
    reach, the cheapest first. Then, of all others, a part of 1 in TURNS by cost, those first that have waited longest.
    Where this host remembers nothing, `slot` (a number that grows with the time of the commit) says with which part to
    begin.
    """
    known = {**UNKNOWN, **costs}
    cost = {name: known.get(name, NEW).rest_cpu_s for name in every}
    ran = {name: memory.ran.get(name, -1) for name in every}
    due = [name for name in every if name in memory.owed or (ran[name] >= 0 and memory.turn + 1 - ran[name] > TURNS)]
    due.sort(key=lambda name: -cost[name])  # a dear module is not put off again
    near = sorted({*reached} & {*every} - {*due}, key=lambda name: (cost[name], name))
    begin = len(_within(sum(cost.values()) * (slot % TURNS) / TURNS, every, cost))
    rest = [name for name in [*every[begin:], *every[:begin]] if name not in {*due, *near}]
    rest.sort(key=lambda name: ran[name])
    part = _within(sum(cost[name] for name in rest) / TURNS, rest, cost)
    wanted = [*due, *near, *part]
    taken = _within(TURN_CPU_S, wanted, cost)
    return taken, wanted[len(taken) :]


def _within(limit: float, names: Sequence[str], cost: Mapping[str, float]) -> Sequence[str]:
    """Returns the first of `names`, up to that one with which the costs reach the limit."""
    before = itertools.accumulate((cost[name] for name in names), initial=0.0)
    return names[: sum(used < limit for used, _ in zip(before, names))]


def _batches(ids: Sequence[str], options: tuple[str, ...] = ()) -> list[Batch]:
    """Returns the ids by process, in the order of PROCESSES."""
    found = []
    for folders in PROCESSES:
        own = [name for folder in folders for name in ids if name.split("/")[0] == folder]
        if own:
            found.append(Batch(tuple(_by_folder(own)), options))
    return found


def _by_folder(ids: Sequence[str]) -> list[str]:
    """Returns the ids in their order, but what shares a folder stands together.

    pytest makes a folder's collector anew when it comes back to the folder, and that one lacks the fixtures of
    conftest.py (pytest 9.1).
    """
    paths = {
        name: (*reversed(PurePath(name.partition("::")[0]).parents), PurePath(name.partition("::")[0])) for name in ids
    }
    first: dict[PurePath, int] = {}
    for at, name in enumerate(ids):
        for path in paths[name]:
            first.setdefault(path, at)
    return sorted(ids, key=lambda name: [first[path] for path in paths[name]])
