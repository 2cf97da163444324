"""What tests cost, in processor seconds: measured, printed, recorded in costs.json, and estimated from the record."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import gate
from batches import Batch
from gate import Capability, Cost, Costs, Gate, covers
from meter import Meter

TIMES = "KDV_TEST_TIMES"
"""The environment variable with the file to which tests/conftest.py adds a line for each test."""
SLOW_CPU_S = 0.5
"""A test of unit/ that takes more processor seconds is marked slow."""
CHEAP_CPU_S = 0.2
"""A test that is marked slow and takes fewer processor seconds should lose the mark."""


class Spent(NamedTuple):
    """What one test cost: `cpu_s` of all processes of its batch while it ran, with what was started for it and after
    the test before it; `own_cpu_s` of the test's process and its ended children alone. `quick`: a test of unit/ that is
    not marked slow."""

    test: str
    cpu_s: float
    own_cpu_s: float
    quick: bool


def read(file: Path, meter: Meter) -> tuple[list[Spent], list[str]]:
    """Returns what the tests of a batch cost, and the modules of which not all tests were run: the time was up, or
    somebody interrupted them. `file`: the lines of conftest.py."""
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    collected = Counter[str]()
    for line in lines:
        collected.update(line.get("collected", {}))
    ran = [line for line in lines if "ended" in line]
    until = [0.0, *(meter.until(line["ended"]) for line in ran[:-1]), meter.used_s]
    spent = [
        Spent(line["id"], after - before, line["cpu_s"], line["id"].startswith("unit/") and not line["slow"])
        for line, before, after in zip(ran, until, until[1:])
    ]
    return spent, sorted(collected - Counter(module_of(one.test) for one in spent))


def table(rows: Sequence[tuple[str, float, Sequence[Spent]]], seconds: float) -> str:
    """Returns the costs by folder, and which tests of unit/ are marked slow and should not be, or the other way round.

    `rows`: the name of a batch, its seconds by the clock, and what its tests cost.
    """
    lines = [f"{'folder':<18} {'tests':>6} {'processor':>11}"]
    everything = [one for _, _, spent in rows for one in spent]
    for folder in dict.fromkeys(one.test.split("/")[0] for one in everything):
        own = [one for one in everything if one.test.startswith(f"{folder}/")]
        lines.append(f"{folder:<18} {len(own):6d} {sum(one.cpu_s for one in own):9.0f} s")
    lines += [f"{name:<18} {'':6} {'':11} {clock:6.0f} s by the clock" for name, clock, _ in rows]
    total = sum(one.cpu_s for one in everything)
    lines.append(f"{'all':<18} {len(everything):6d} {total:9.0f} s {seconds:6.0f} s by the clock")
    return "\n".join([*lines, *_wrongly_marked(everything)])


def _wrongly_marked(spent: Iterable[Spent]) -> list[str]:
    unit = [one for one in spent if one.test.startswith("unit/")]
    dear = [one for one in unit if one.quick and one.own_cpu_s > SLOW_CPU_S]
    cheap = [one for one in unit if not one.quick and one.own_cpu_s < CHEAP_CPU_S]
    lines = [f"not marked slow, and took {one.own_cpu_s:.1f} processor seconds: {one.test}" for one in dear]
    return [*lines, *(f"marked slow, and took {one.own_cpu_s:.2f} processor seconds: {one.test}" for one in cheap)]


def by_capability(spent: Sequence[Spent], asked: Gate) -> str:
    """Returns the processor seconds of each capability of the gate, counted now and recorded in gate.toml."""
    rows = [(one.name, _of(one, spent), one.cpu_s) for one in asked.capability]
    rows.append(("the quick tests of unit/", sum(one.cpu_s for one in spent if one.quick), asked.unit_cpu_s))
    counted = sum(one.cpu_s for one in spent)
    rows.append((f"the gate, with a budget of {asked.budget_cpu_s} s", counted, asked.cpu_s))
    head = f"{'processor seconds: counted now':>32} {'in gate.toml':>14}  capability"
    return "\n".join([head, *(f"{now:30.0f} s {then:12.0f} s  {name}" for name, now, then in rows)])


def _of(capability: Capability, spent: Iterable[Spent]) -> float:
    return sum(one.cpu_s for one in spent if not one.quick and covers(one.test, capability.tests))


def record(spent: Iterable[Spent]) -> None:
    """Writes the costs of all modules that were run whole into costs.json, with the day and the machine."""
    named, known = gate.read().tests, gate.read_costs()
    by_module = defaultdict[str, list[Spent]](list)
    for one in spent:
        by_module[module_of(one.test)].append(one)
    fresh = {
        module: Cost(
            tests=len(own),
            cpu_s=round(sum(one.cpu_s for one in own), 1),
            gate_cpu_s=round(sum(one.cpu_s for one in own if one.quick or covers(one.test, named)), 1),
        )
        for module, own in by_module.items()
    }
    merged = {name: cost for name, cost in {**known.modules, **fresh}.items() if (gate.HERE / name).exists()}
    found = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} processors, Linux {platform.release().split('-')[0]}, Python "
        f"{platform.python_version()}",
        "modules": {
            name: {"tests": cost.tests, "cpu_s": cost.cpu_s, "gate_cpu_s": cost.gate_cpu_s}
            for name, cost in sorted(merged.items())
        },
    }
    lines = json.dumps(found, indent=1).replace("{\n   ", "{").replace(",\n   ", ", ").replace("\n  }", "}")
    gate.COSTS.write_text(lines + "\n")


def estimate(wanted: Iterable[Batch]) -> str:
    """Returns what batches would run, a line each, with the recorded costs of their modules."""
    lines, total = list[str](), 0.0
    for batch in wanted:
        cost = of_batch(batch, gate.read_costs())
        total += cost
        lines.append(f"{batch.name}: {cost:.0f} processor seconds: {' '.join(batch.ids)} {' '.join(batch.options)}")
    return "\n".join([*lines, f"all: {total:.0f} processor seconds"])


def of_batch(batch: Batch, known: Costs) -> float:
    """Returns the recorded processor seconds of a batch. Of a module without a record, nothing is known."""
    total = 0.0
    for module, cost in known.modules.items():
        if covers(module, batch.ids):
            slow_only, quick_only = batch.options[:2] == ("-m", "slow"), batch.options[:2] == ("-m", "not slow")
            rest = slow_only or "--deselect" in batch.options
            total += cost.rest_cpu_s if rest else cost.gate_cpu_s if quick_only else cost.cpu_s
        elif any(name.startswith(f"{module}::") for name in batch.ids):
            total += cost.gate_cpu_s
    return total


def module_of(test: str) -> str:
    """Returns the module of a test, as a path below tests/."""
    return test.partition("::")[0]
