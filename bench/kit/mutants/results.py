"""The stored results of mutation testing: the result of each module, and the explanations of survivors."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform

from msgspec import Struct

Change = tuple[str, str, str]
"""(scope, lines before the change, lines after the change), as in `mutants_code`."""


class Survivor(Struct, frozen=True):
    """A mutant that no test killed: its function or class, and its lines before and after the change."""

    scope: str
    before: str
    after: str

    @property
    def change(self) -> Change:
        return self.scope, self.before, self.after


class Explanation(Survivor, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Explains why no test can kill a mutant of `module`, or why no test needs to."""

    module: str
    why: str


class Killed(Struct, frozen=True):
    """The mutants that one file of tests killed. `digest`: the digest of the file's text. `mutants`: the digests of the
    mutants, separated by spaces. They need no other trial for as long as this file stays the same."""

    test: str
    digest: str
    mutants: str


class ModuleResult(Struct, frozen=True, kw_only=True):
    """The result of one module.

    * `digest`: the digest of the module's text and its tests.
    * `took_s`: how long the trials took, in seconds.
    * `timed_out`: how many mutants were killed only because their tests took too long.
    * `commit`: the commit of the project; empty if unknown.
    * `killed`: what killed the mutants, so that a change of one file of tests costs only the trials that rest on it.
    """

    digest: str = ""
    mutants: int = 0
    survivors: list[Survivor] = []
    took_s: float = 0.0
    date: str = ""
    machine: str = ""
    versions: dict[str, str] = {}
    timed_out: int = 0
    commit: str = ""
    killed: list[Killed] = []

    @property
    def outcomes(self) -> dict[str, dict[str, str]]:
        """The killer of each mutant that a file of tests killed, and the digest of this file, by the mutant's
        digest."""
        return {
            mutant: {"killer": each.test, "tests": each.digest}
            for each in self.killed
            for mutant in each.mutants.split()
        }

    @classmethod
    def of_today(
        cls,
        digest: str,
        mutants: int,
        survivors: list[Survivor],
        took_s: float,
        timed_out: int,
        killed: list[Killed],
    ) -> ModuleResult:
        """Returns the result of trials on this machine, with the date of today."""
        return cls(
            digest=digest,
            mutants=mutants,
            survivors=survivors,
            took_s=round(took_s, 1),
            date=str(datetime.date.today()),
            machine=f"{os.cpu_count()} CPUs, {platform.platform()}",  # `host.machine` may not be imported here
            versions={name: importlib.metadata.version(name) for name in ("cosmic-ray", "pytest", "hypothesis")},
            timed_out=timed_out,
            killed=killed,
        )
