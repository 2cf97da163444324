"""Mutation testing: how many small changes of the code that decides no test notices.

`python bench/mutants.py [--shard I/N] [MODULE...]`, or `make mutants SHARD=I/N`, part of `make campaign`. Each mutant of
each module of MODULES is tried against the unit tests of its room, until a test fails: it is killed. A mutant that no
test kills needs a test, or an explanation in bench/mutants.toml why no test can. The exit code is 1 if a mutant has
neither, if fewer than LEAST_KILLED of all mutants are killed, or if an explanation has no mutant.

Ctrl-C loses nothing but the trial under way: .kdv/mutants/ has the outcome of each trial. What it says of a mutant is
used again while the text of the mutant and the tests that killed or spared it are the same. A module that is done goes
into docs/results/mutants.json, with the digest of its text and of the tests of its room: the next run leaves it out
while the digest is the same. Shards are parts of the modules; run on several machines, their results are merged by
merging this file. docs/results/mutants-<date>.md is written from it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from filelock import FileLock
from mutants_code import by_change, mutants
from mutants_report import LEAST_KILLED, report, totals
from mutants_results import Explanation, ModuleResult, Survivor
from mutants_trial import PASSED, Trials

ROOT = Path(__file__).resolve().parents[1]
EXPLANATIONS = "bench/mutants.toml"
RESULTS = "docs/results/mutants.json"
OUTCOMES = ".kdv/mutants"
MODULES = {
    "plugins/delivery_verifier/contract": ("tests/unit/contract",),
    "plugins/delivery_verifier/judgement": ("tests/unit/judgement",),
}
"""Maps each folder of modules to the folders of the tests that must kill their mutants."""


@dataclass(frozen=True)
class Target:
    """A module and the files of tests of its room, those named like the module first."""

    root: Path
    module: str
    tests: tuple[str, ...]

    @property
    def source(self) -> str:
        return (self.root / self.module).read_text()

    @property
    def digest(self) -> str:
        """The digest of the module's text and its tests."""
        files = (self.module, *sorted(self.tests))
        return _digest("".join(f"{name}\n{(self.root / name).read_text()}" for name in files))


def targets(root: Path, modules: Mapping[str, tuple[str, ...]] = MODULES) -> list[Target]:
    """Returns all modules with their tests."""
    return [
        Target(root, file.relative_to(root).as_posix(), _tests(root, file.stem, folders))
        for place, folders in modules.items()
        for file in sorted((root / place).rglob("*.py"))
        if file.name != "__init__.py"
    ]


def _tests(root: Path, stem: str, folders: tuple[str, ...]) -> tuple[str, ...]:
    files = [file for folder in folders for file in sorted((root / folder).rglob("test_*.py"))]
    files.sort(key=lambda file: stem not in file.stem)
    return tuple(file.relative_to(root).as_posix() for file in files)


def run(target: Target, trials: Trials) -> ModuleResult:
    """Tries all mutants of a module whose outcome is not known, and returns the result of the module."""
    file = target.root / OUTCOMES / f"{target.module.replace('/', '.')}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    known = dict(map(json.loads, file.read_text().splitlines())) if file.exists() else {}
    tests, survivors, start = list(target.tests), [], time.monotonic()
    of_tests = {test: _digest((target.root / test).read_text()) for test in tests}
    all_mutants = by_change(mutants(target.source))
    for number, (change, mutant) in enumerate(all_mutants.items(), 1):
        state = known.get(mutant.digest, {"killer": "", "tests": None})
        if state["tests"] != _state_of_tests(state["killer"], of_tests):
            killer = trials.killer(target.module, mutant.code, tests)
            state = {"killer": killer, "tests": _state_of_tests(killer, of_tests)}
            with file.open("a") as outcomes:
                outcomes.write(json.dumps([mutant.digest, state]) + "\n")
            if killer in tests:  # what killed a mutant kills the next, more often than not
                tests.sort(key=lambda test, first=killer: test != first)
        if state["killer"] == PASSED:
            survivors.append(Survivor(*change))
            print(f"  survived: {change[0]}: {change[1]}  ->  {change[2]}", flush=True)
    killed = len(all_mutants) - len(survivors)
    print(f"{target.module}: {killed} of {len(all_mutants)} killed", flush=True)
    return ModuleResult.of(target.digest, len(all_mutants), survivors, time.monotonic() - start)


def _state_of_tests(killer: str, of_tests: Mapping[str, str]) -> str:
    """The digest of the tests on which an outcome rests: of the file that killed the mutant, or of all files."""
    return of_tests.get(killer) or _digest("".join(of_tests[test] for test in sorted(of_tests)))


def explanations(root: Path) -> list[Explanation]:
    """Returns the explanations of survivors."""
    content = tomllib.loads((root / EXPLANATIONS).read_text())
    return msgspec.convert(content.get("survivor", []), list[Explanation])


def without_mutant(root: Path, explained: list[Explanation]) -> list[Explanation]:
    """Returns the explanations whose mutant no longer exists."""
    changes = {
        module: by_change(mutants((root / module).read_text())) if (root / module).is_file() else {}
        for module in {explanation.module for explanation in explained}
    }
    return [explanation for explanation in explained if explanation.change not in changes[explanation.module]]


def saved(root: Path) -> dict[str, ModuleResult]:
    """Returns the results so far, by module."""
    file = root / RESULTS
    return msgspec.json.decode(file.read_bytes(), type=dict[str, ModuleResult]) if file.exists() else {}


def save(root: Path, module: str, result: ModuleResult) -> None:
    """Adds the result of a module to those so far. Several shards may do so at the same time."""
    with FileLock(root / OUTCOMES / "results.lock"):
        results = saved(root) | {module: result}
        content = msgspec.json.encode(dict(sorted(results.items())))
        (root / RESULTS).write_bytes(msgspec.json.format(content, indent=1) + b"\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="the I-th of N parts of the modules")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="words; only modules whose path has one of them")
    options = parser.parse_args()
    part, parts = map(int, options.shard.split("/"))
    chosen = [
        target
        for target in targets(ROOT)[part - 1 :: parts]
        if not options.modules or any(word in target.module for word in options.modules)
    ]
    results = saved(ROOT)
    due = [target for target in chosen if results.get(target.module, ModuleResult()).digest != target.digest]
    print(f"{len(due)} of {len(chosen)} modules changed since their last result, or their tests did", flush=True)
    with tempfile.TemporaryDirectory(prefix="kdv-mutants-") as folder:
        trials = Trials(ROOT, Path(folder)) if due else None
        for target in due:
            assert trials is not None
            save(ROOT, target.module, run(target, trials))
    return conclude(ROOT)


def conclude(root: Path) -> int:
    """Writes the page of results and returns the exit code."""
    explained, present = explanations(root), {target.module for target in targets(root)}
    results = {module: result for module, result in saved(root).items() if module in present}
    page = root / "docs/results" / f"mutants-{time.strftime('%Y-%m-%d')}.md"
    page.write_text(report(results, sorted(present - set(results)), explained))
    stale = without_mutant(root, explained)
    for explanation in stale:
        print(f"{EXPLANATIONS}: {explanation.module}: this mutant does not exist: {explanation.change}")
    killed, unexplained = totals(results, explained)
    print(f"{killed:.1%} killed; survivors without an explanation: {unexplained}; {page.relative_to(root)}")
    return 1 if stale or unexplained or killed < LEAST_KILLED else 0


if __name__ == "__main__":
    sys.exit(main())
