"""What is kept of mutation testing: the result of each module, and the explanations of survivors."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform

from msgspec import Struct

Change = tuple[str, str, str]
"""(scope, lines as they were, changed lines), as in `mutants_code`."""


class Survivor(Struct, frozen=True):
    """A mutant that no test killed: in which function or class, the lines as they were, and as they were changed."""

    scope: str
    before: str
    after: str

    @property
    def change(self) -> Change:
        return self.scope, self.before, self.after


class Explanation(Survivor, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why no test can, or need, kill a mutant of `module`."""

    module: str
    why: str


class ModuleResult(Struct, frozen=True, kw_only=True):
    """The result of one module. `digest` is that of its text and its tests. `took_s`: how long the trials took.
    `timed_out`: how many of the killed mutants no test failed for, but made the tests take too long. `commit`: of the
    project, empty if unknown."""

    digest: str = ""
    mutants: int = 0
    survivors: list[Survivor] = []
    took_s: float = 0.0
    date: str = ""
    machine: str = ""
    versions: dict[str, str] = {}
    timed_out: int = 0
    commit: str = ""

    @classmethod
    def of_today(
        cls, digest: str, mutants: int, survivors: list[Survivor], took_s: float, timed_out: int
    ) -> ModuleResult:
        """The result of trials on this machine, today."""
        return cls(
            digest=digest,
            mutants=mutants,
            survivors=survivors,
            took_s=round(took_s, 1),
            date=str(datetime.date.today()),
            machine=f"{os.cpu_count()} CPUs, {platform.platform()}",  # `host.machine` may not be imported here
            versions={name: importlib.metadata.version(name) for name in ("cosmic-ray", "pytest", "hypothesis")},
            timed_out=timed_out,
        )
