"""Reads gate.toml, which says what `make test` runs, and costs.json, which says what each module of the tests costs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

HERE = Path(__file__).parent
COSTS = HERE / "costs.json"
MOST_CPU_S = 1300
"""The budget of gate.toml may never exceed this number of processor seconds."""


class Capability(Struct, frozen=True, forbid_unknown_fields=True):
    """Something a user would miss, with the tests that notice a break of it. gate.toml explains the fields."""

    name: str
    without: str
    offers: tuple[str, ...]
    rooms: tuple[str, ...]
    cpu_s: int
    tests: tuple[str, ...]


class Gate(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of gate.toml."""

    budget_cpu_s: int
    unit_cpu_s: int
    capability: tuple[Capability, ...]

    @property
    def cpu_s(self) -> int:
        """The recorded processor seconds of `make test`."""
        return self.unit_cpu_s + sum(one.cpu_s for one in self.capability)

    @property
    def tests(self) -> list[str]:
        """The ids of all named tests outside unit/, without repetition. The quick tests of unit/ run anyway."""
        every = (test for one in self.capability for test in one.tests if not test.startswith("unit/"))
        return [*dict.fromkeys(every)]


class Cost(Struct, frozen=True):
    """What a module of tests costs, in processor seconds of all processes that it starts. `gate_cpu_s`: the share of
    those tests that `make test` runs. `tests`: the number of tests."""

    tests: int
    cpu_s: float
    gate_cpu_s: float

    @property
    def rest_cpu_s(self) -> float:
        """What the tests cost that `make test` does not run."""
        return max(0.0, self.cpu_s - self.gate_cpu_s)


class Costs(Struct, frozen=True):
    """The contents of costs.json: the costs of all modules, by path below tests/, with the day and the machine."""

    date: str
    machine: str
    modules: dict[str, Cost]


def read(file: Path = HERE / "gate.toml") -> Gate:
    """Returns the contents of gate.toml. Raises msgspec.ValidationError if a field is missing or unknown."""
    return msgspec.toml.decode(file.read_bytes(), type=Gate)


def read_costs() -> Costs:
    """Returns what was recorded. A module without a record has none."""
    return msgspec.convert(json.loads(COSTS.read_text()), Costs) if COSTS.exists() else Costs("", "", {})


def covers(test: str, names: Iterable[str]) -> bool:
    """Whether one of `names` is the id of a test, of its function, of its module or of its folder."""
    return any(test == name or test.startswith((f"{name}[", f"{name}::", f"{name}/")) for name in names)
