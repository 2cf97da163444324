"""Draws breaks by chance: a module of the product, and one of its mutants."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from bench.campaigns.mutants import explanations
from bench.kit.mutants.changes import by_change, mutants

PACKAGES = ("plugins/delivery_verifier", "spark_jobs", "expectations")


class Equivalent(Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant that was drawn, and why nobody could see a difference. Its fields are as in
    bench/campaigns/mutants.toml."""

    module: str
    scope: str
    before: str
    after: str
    why: str


class Drawn(Struct, frozen=True):
    """A mutant of a module. `code`: the text of the changed module. `why`: why it is equivalent; empty if nothing says
    that it is."""

    module: str
    scope: str
    before: str
    after: str
    code: str
    why: str = ""


def draw(root: Path, seed: int, equivalents: Sequence[Equivalent]) -> Iterator[Drawn]:
    """Yields the mutants of all modules. `seed` decides the order of the modules, and of the mutants of each module.

    Mutants that bench/campaigns/mutants.toml explains are left out."""
    dice = random.Random(seed)
    modules = sorted(
        file.relative_to(root).as_posix()
        for package in PACKAGES
        for file in (root / package).rglob("*.py")
        if file.name != "__init__.py"
    )
    dice.shuffle(modules)
    explained = {(survivor.module, *survivor.change) for survivor in explanations(root)}
    reasons = {(each.module, each.scope, each.before, each.after): each.why for each in equivalents}
    for module in modules:
        changes = by_change(mutants((root / module).read_text()))
        for change in random.Random(f"{seed} {module}").sample(sorted(changes), len(changes)):
            if (module, *change) in explained:
                continue
            yield Drawn(module, *change, changes[change].code, reasons.get((module, *change), ""))
