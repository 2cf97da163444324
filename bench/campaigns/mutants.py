"""Mutation testing: finds small changes of the code of verdicts that no test notices.

`python bench/campaigns/mutants.py [--shard I/N | --sample N] [WORD...]`, or `make mutants SHARD=I/N`, part of `make
campaign`. A mutant is one small change of one module in MODULES. The unit tests of the module's room run against each
mutant until a test fails: this test kills the mutant. A mutant that survives all tests needs a new test, or an
explanation in bench/campaigns/mutants.toml. The exit code is 1 in each of these cases: a survivor has neither, fewer
than LEAST_KILLED of all mutants are killed, a module has no result for its present text and tests, or an explanation
has no mutant.

Ctrl-C loses only the trial under way, because .kdv/mutants/ keeps the outcome of each trial. An outcome is used again
if neither the mutant's text nor the text of the tests has changed. If a test killed the mutant, only the file of this
test counts. Docstrings do not count. If the tests of a mutant took too long, it is killed, but counted separately, and
tried again next time. When all mutants of a module are tried, the result goes into docs/results/mutants.json, with the
digest of the module and its tests, and with the file of tests that killed each mutant: another machine goes on from
there. The next run skips the module while this digest stays the same. A shard is a part of the modules. To combine
shards of several machines, merge this JSON file. docs/results/mutants-<date>.md is made from it.

All mutants take hours. `--sample N` tries N of them, chosen by their digests, so that a greater sample holds a smaller
one. The share that was killed, with its 95 % interval, and the survivors go to docs/results/mutants-sample-<date>.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from filelock import FileLock

from bench.kit.mutants.changes import by_change, digest, mutants
from bench.kit.mutants.forks import PASSED, TIMED_OUT
from bench.kit.mutants.report import LEAST_KILLED, report, report_of_sample, totals
from bench.kit.mutants.results import Explanation, Killed, ModuleResult, Survivor
from bench.kit.mutants.trial import Trials

ROOT = Path(__file__).resolve().parents[2]
EXPLANATIONS = "bench/campaigns/mutants.toml"
RESULTS = "docs/results/mutants.json"
OUTCOMES = ".kdv/mutants"
_TALLY = ("tests/spark/test_anomalies.py", "tests/spark/test_invariants.py", "tests/spark/test_tally_and_cases.py")
_OF_MATCHING = ("spark/test_matching_keeps_nothing", "spark/test_screen", "spark/test_one_pass")
MODULES = {
    "plugins/delivery_verifier/contract": ("tests/unit/contract",),
    **dict.fromkeys(
        ("plugins/delivery_verifier/verdict", "plugins/delivery_verifier/canary"),
        ("tests/unit/verdict", "tests/unit/canary"),
    ),
    **dict.fromkeys(
        ("spark_jobs/checks/invariants.py", "spark_jobs/checks/ledger_invariants.py"), ("tests/unit/spark_jobs",)
    ),
    "spark_jobs/matching/anomalies.py": _TALLY,
    "spark_jobs/matching/match.py": (
        *_TALLY,
        *(f"tests/{name}.py" for name in (*_OF_MATCHING, "quality/test_unreadable")),
    ),
}
"""Maps each module, or folder of modules, to the tests (files or folders) that must kill its mutants. Other unit tests
are also used if they contain the name of the module, or are listed in ELSEWHERE."""
ELSEWHERE = {
    "contract/alternatives.py": ("planning/test_explanation.py",),
    "contract/clients.py": ("planning/test_explanation.py",),
    "contract/permissions.py": ("verdict/test_explained_by.py", "verdict/test_attribution.py"),
    "contract/effect_windows.py": ("verdict/test_explained_by.py", "verdict/test_attribution.py"),
    "contract/rulings.py": ("verdict/test_late.py", "planning/test_explanation.py"),
}
"""Maps a module to further unit tests, which call the module through another room."""

NEED_GIT = ("test_reach.py",)
"""Tests that only run in a checkout. The trials run in a copy of the files."""


@dataclass(frozen=True)
class Target:
    """A module of the project in `root`, and the files of its tests. Test files with the module's name come first."""

    root: Path
    module: str
    tests: tuple[str, ...]

    @property
    def source(self) -> str:
        """The text of the module."""
        return (self.root / self.module).read_text()

    @property
    def digest(self) -> str:
        """The digest of the texts of the module and its tests."""
        return _digest(self.root, self.module, *sorted(self.tests))


def targets(root: Path, modules: Mapping[str, tuple[str, ...]]) -> list[Target]:
    """Returns all modules with their tests."""
    return [
        Target(root, file.relative_to(root).as_posix(), _tests(root, file, folders))
        for folder, folders in modules.items()
        for file in _files(root / folder, "*.py")
        if file.name != "__init__.py"
    ]


def _files(path: Path, pattern: str) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob(pattern))


def _tests(root: Path, module: Path, folders: tuple[str, ...]) -> tuple[str, ...]:
    name = re.compile(rf"\b{'.'.join(module.with_suffix('').parts[-2:])}\b")
    files = [file for folder in folders for file in _files(root / folder, "test_*.py")]
    others = (file for file in sorted((root / "tests/unit").rglob("test_*.py")) if name.search(file.read_text()))
    files += [file for file in others if file not in files and file.name not in NEED_GIT]
    files += [root / "tests/unit" / name for name in ELSEWHERE.get("/".join(module.parts[-2:]), ())]
    files.sort(key=lambda file: module.stem not in file.stem)
    return tuple(file.relative_to(root).as_posix() for file in files)


def _digest(root: Path, *files: str) -> str:
    return digest(*((root / name).read_text() for name in files))


def run(
    target: Target, trials: Trials, outcomes: Path, last: ModuleResult, drawn: Collection[str] | None = None
) -> ModuleResult:
    """Tries each mutant of a module unless its outcome is known already; with `drawn`, only those with these digests.
    Returns the result of the module.

    The folder `outcomes` holds the known outcomes of this machine, and `last` the last result, of whatever machine.
    """
    file = outcomes / f"{target.module.replace('/', '.')}.jsonl"
    known = last.outcomes | (dict(map(json.loads, file.read_text().splitlines())) if file.exists() else {})
    killers = defaultdict[str, list[str]](list)
    tests, survivors, timed_out, start = list(target.tests), [], 0, time.monotonic()
    all_mutants = by_change(mutants(target.source))
    if drawn is not None:
        all_mutants = {change: mutant for change, mutant in all_mutants.items() if mutant.digest in drawn}
    for change, mutant in all_mutants.items():
        state = known.get(mutant.digest, {"killer": "", "tests": None})
        if state["killer"] == TIMED_OUT or state["tests"] != _state_of_tests(target, state["killer"]):
            killer = trials.killer(target.module, mutant.code, mutant.first_line, tests)
            state = {"killer": killer, "tests": _state_of_tests(target, killer)}
            if killer != TIMED_OUT:  # a busy machine may be the cause
                with file.open("a") as stream:
                    stream.write(json.dumps([mutant.digest, state]) + "\n")
            if killer in tests:  # what killed a mutant kills the next, more often than not
                tests.sort(key=lambda test, first=killer: test != first)
        timed_out += state["killer"] == TIMED_OUT
        killers[state["killer"]].append(mutant.digest)
        if state["killer"] == PASSED:
            survivors.append(Survivor(*change))
            print(f"  survived: {change[0]}: {change[1]}  ->  {change[2]}", flush=True)
    print(f"{target.module}: {len(all_mutants) - len(survivors)} of {len(all_mutants)} killed", flush=True)
    killed = [
        Killed(test, _state_of_tests(target, test), " ".join(killers[test])) for test in target.tests if test in killers
    ]
    took_s = time.monotonic() - start
    return ModuleResult.of_today(target.digest, len(all_mutants), survivors, took_s, timed_out, killed)


def commit(root: Path) -> str:
    """Returns the commit of the project in `root`, with a mark if files differ from the commit; empty if there is
    none."""
    command = ("git", "describe", "--always", "--dirty=, and changes", "--match=")
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.strip()


def _state_of_tests(target: Target, killer: str) -> str:
    """The digest of the tests that decided the outcome: of the file that killed the mutant, or of all test files."""
    return _digest(target.root, *([killer] if killer in target.tests else sorted(target.tests)))


def explanations(root: Path) -> list[Explanation]:
    """Returns the explanations in bench/campaigns/mutants.toml."""
    content = tomllib.loads((root / EXPLANATIONS).read_text())
    return msgspec.convert(content.get("survivor", []), list[Explanation])


def without_mutant(root: Path, explained: list[Explanation]) -> list[Explanation]:
    """Returns those of `explained` whose mutant does not exist."""
    keys = {explanation.change for explanation in explained}
    changes = {
        module: by_change(mutants((root / module).read_text(), keys)) if (root / module).is_file() else {}
        for module in {explanation.module for explanation in explained}
    }
    return [explanation for explanation in explained if explanation.change not in changes[explanation.module]]


def saved(root: Path) -> dict[str, ModuleResult]:
    """Returns the results in docs/results/mutants.json, by module."""
    file = root / RESULTS
    return msgspec.json.decode(file.read_bytes(), type=dict[str, ModuleResult]) if file.exists() else {}


def save(root: Path, module: str, result: ModuleResult) -> None:
    """Adds the result of a module to docs/results/mutants.json. Several shards may do so at the same time."""
    with FileLock(root / OUTCOMES / "results.lock"):
        content = msgspec.json.encode(dict(sorted((saved(root) | {module: result}).items())))
        (root / RESULTS).write_bytes(msgspec.json.format(content, indent=1) + b"\n")


def part_of(shard: str) -> tuple[int, int]:
    """Returns `I/N` as (I, N). Raises ValueError unless 1 <= I <= N."""
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    part, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= part <= parts:
        raise ValueError(f"a shard is I/N with 1 <= I <= N, not {shard!r}")
    return part, parts


def work(root: Path, modules: Mapping[str, tuple[str, ...]], shard: str, words: list[str], sample: int = 0) -> int:
    """Tries the mutants of all modules of the shard whose path has one of `words`; with `sample`, this many of them.
    Returns the exit code."""
    part, parts = part_of(shard)
    as_of = commit(root)  # the trials' copy is no repository, and results change the files of this one
    (root / OUTCOMES).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kdv-mutants-") as folder:
        names = [target.module for target in targets(root, modules)]
        trials = Trials(root, Path(folder), names, root / OUTCOMES / "calls")
        chosen = targets(trials.folder, modules)[part - 1 :: parts]
        if words:
            chosen = [target for target in chosen if any(word in target.module for word in words)]
        results = saved(root)
        if sample:
            code = _sample(root, chosen, trials, results, sample, as_of, words)
            trials.end()
            return code
        due = [target for target in chosen if results.get(target.module, ModuleResult()).digest != target.digest]
        print(f"{len(due)} of {len(chosen)} modules changed since their last result, or their tests did", flush=True)
        for target in due:
            result = run(target, trials, root / OUTCOMES, results.get(target.module, ModuleResult()))
            save(root, target.module, msgspec.structs.replace(result, commit=as_of))
        trials.end()
    return conclude(root, {target.module: target.digest for target in targets(root, modules)})


def _sample(
    root: Path,
    chosen: list[Target],
    trials: Trials,
    last: Mapping[str, ModuleResult],
    size: int,
    as_of: str,
    words: list[str],
) -> int:
    """Tries `size` mutants of the modules `chosen`, whose paths have one of `words`. Writes a page, and returns the
    exit code."""
    digests = [mutant.digest for target in chosen for mutant in by_change(mutants(target.source)).values()]
    drawn = frozenset(sorted(digests)[:size])
    results = {
        target.module: run(target, trials, root / OUTCOMES, last.get(target.module, ModuleResult()), drawn)
        for target in chosen
    }
    explained = explanations(root)
    page = root / "docs/results" / f"mutants-sample-{time.strftime('%Y-%m-%d')}.md"
    page.write_text(report_of_sample(results, len(digests), as_of, words, explained))
    killed, unexplained = totals(results, explained)
    print(f"{killed:.1%} of {len(drawn)} killed; survivors without an explanation: {unexplained}; {page}")
    return 1 if unexplained or killed < LEAST_KILLED else 0


def conclude(root: Path, modules: Mapping[str, str]) -> int:
    """Writes the page of results and returns the exit code. `modules`: maps each module to its present digest.

    Leaves out results with another digest, because they say nothing about the present text of the module and its tests.
    """
    explained = explanations(root)
    results = {module: result for module, result in saved(root).items() if modules.get(module) == result.digest}
    missing = [module for module in modules if module not in results]
    page = root / "docs/results" / f"mutants-{time.strftime('%Y-%m-%d')}.md"
    page.write_text(report(results, missing, explained))
    stale = without_mutant(root, explained)
    for explanation in stale:
        print(f"{EXPLANATIONS}: {explanation.module}: this mutant does not exist: {explanation.change}")
    killed, unexplained = totals(results, explained)
    print(f"{killed:.1%} killed; survivors without an explanation: {unexplained}; not tried: {len(missing)}; {page}")
    return 1 if stale or missing or unexplained or killed < LEAST_KILLED else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="the I-th of N parts of the modules")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="try only N mutants of the modules")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only modules whose path has one of these words")
    options = parser.parse_args()
    try:
        part_of(options.shard)
    except ValueError as error:
        parser.error(str(error))
    if options.sample < 0 or (options.sample and options.shard != "1/1"):
        parser.error(f"--sample is {options.sample}, and --shard {options.shard}; allowed: a number above 0, alone")
    return work(ROOT, MODULES, options.shard, options.words, options.sample)


if __name__ == "__main__":
    sys.exit(main())
