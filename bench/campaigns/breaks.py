"""Plants breaks in the product, and asks whether the tests that would run notice them.

`python bench/campaigns/breaks.py [--listed | --changed] [--seed N] [WORD...]`, part of `make campaign`. There are two
kinds:

* The breaks of bench/campaigns/breaks.toml: at least one for each capability of tests/gate.toml. The tests of the
  capability must be red. Without a break they must be green, and none may be skipped. WORD: only breaks with one of
  these words in their name or capability.
* Ten mutants in modules that the seed draws. What `make test CHANGED=1` would run must be red. A mutant that changes
  nothing a user could see is explained in bench/campaigns/breaks.toml, and the next one is drawn.

The tests run in a copy of the tracked files. A module with a break can be imported, so red means that a test noticed
what it does. The table says for each break which test failed first, and with which message: another reason than the
break shows there. A copy of the table goes to bench/results. The exit code is 1 if a break was not noticed.

Ctrl-C loses only the run under way, because .kdv/breaks.json keeps all outcomes. An outcome is used again if neither
the break nor the files of its tests have changed. After a change of the product, remove the file to try all breaks
again.
"""

from __future__ import annotations

import hashlib
import signal
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock
from msgspec import Struct

from bench.kit import saved
from bench.kit.breaks.checkout_copy import NOT_IMPORTED, Copy, Outcome
from bench.kit.breaks.drawn import Equivalent, draw

ROOT = Path(__file__).resolve().parents[2]
LIST, GATE, OUTCOMES = "bench/campaigns/breaks.toml", "tests/gate.toml", ".kdv/breaks.json"
DRAWN = 10
SEED = 38


class Break(Struct, frozen=True, forbid_unknown_fields=True):
    """One break of bench/campaigns/breaks.toml, which explains the fields."""

    name: str
    capability: str
    file: str
    old: str
    new: str
    suffers: str

    def broken(self, root: Path) -> str:
        """Returns the text of the broken file. Raises ValueError unless `old` stands in the file exactly once."""
        text = (root / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: its text is {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)


class Breaks(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of bench/campaigns/breaks.toml."""

    breaks: tuple[Break, ...] = msgspec.field(name="break")
    equivalent: tuple[Equivalent, ...] = ()


def listed(root: Path = ROOT) -> Breaks:
    """Returns the contents of bench/campaigns/breaks.toml."""
    return msgspec.toml.decode((root / LIST).read_bytes(), type=Breaks)


class Outcomes:
    """The outcomes that are known, by a digest. Makes the copy of the project only when a run is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, ROOT / OUTCOMES
        self._tests = {file: file.read_bytes() for file in sorted((ROOT / "tests").rglob("*.*")) if file.is_file()}

    @cached_property
    def copy(self) -> Copy:
        return Copy(ROOT, self._folder)

    def outcome(self, about: Iterable[str], run: Callable[[], Outcome]) -> Outcome:
        """Returns the known outcome about these texts. If there is none, calls `run` for it, and keeps it."""
        key = hashlib.sha256("\0".join(about).encode()).hexdigest()[:16]
        known = self._read().get(key)
        if known is not None:
            return known
        outcome = run()
        if not outcome.unfit:
            self._file.parent.mkdir(exist_ok=True)
            with FileLock(self._file.with_suffix(".lock")):  # another call may try other breaks at the same time
                every = msgspec.json.encode(self._read() | {key: outcome})
                self._file.write_bytes(msgspec.json.format(every, indent=1))
        return outcome

    def _read(self) -> dict[str, Outcome]:
        content = self._file.read_bytes() if self._file.exists() else b"{}"
        return msgspec.json.decode(content, type=dict[str, Outcome])

    def tests(self, names: Iterable[str] = ("",)) -> str:
        """Returns a digest of the files of tests whose path below tests/ begins with one of `names`."""
        chosen = tuple(name.partition("::")[0] for name in names)
        digest = hashlib.sha256()
        for file, content in self._tests.items():
            if "__pycache__" not in file.parts and str(file.relative_to(ROOT / "tests")).startswith(chosen):
                digest.update(content)
        return digest.hexdigest()


def try_listed(outcomes: Outcomes, words: list[str]) -> list[dict[str, Any]]:
    """Tries the breaks of the list. Returns a row of the table for each."""
    groups = {group["name"]: group["tests"] for group in tomllib.loads((ROOT / GATE).read_text())["capability"]}
    chosen = [
        each for each in listed().breaks if not words or any(word in f"{each.name} {each.capability}" for word in words)
    ]
    rows = []
    for each in sorted(chosen, key=lambda each: [*groups].index(each.capability)):
        tests, options = outcomes.tests(groups[each.capability]), ("--capability", each.capability)
        outcome = outcomes.outcome((each.capability, tests), partial(_unbroken, outcomes, options))
        if not outcome.unfit:
            broken = partial(_tried, outcomes, each.file, each.broken(ROOT), [options])
            outcome = outcomes.outcome((each.file, each.old, each.new, tests), broken)
        rows.append(_row({"break": each.name, "capability": each.capability}, outcome))
    return rows


def try_drawn(outcomes: Outcomes, seed: int) -> list[dict[str, Any]]:
    """Tries one mutant in each of DRAWN modules that `seed` draws. If the mutant is equivalent, or cannot be imported,
    tries the next one of the module. Returns a row of the table for each mutant."""
    rows, tests, done = list[dict[str, Any]](), outcomes.tests(), set[str]()
    options = [("--changed", "HEAD", "--quick"), ("--changed", "HEAD")]
    for each in draw(ROOT, seed, listed().equivalent):
        about = {"module": each.module, "mutant": f"{each.scope}: {each.before} -> {each.after}"}
        if each.module in done:
            continue
        if each.why:
            rows.append({**about, "outcome": "equivalent", "first failing test": each.why, "processor s": 0})
            continue
        run = partial(_tried_and_passed, outcomes, each.module, each.code, options)
        outcome = outcomes.outcome((each.module, each.code, tests), run)
        if outcome.unfit != NOT_IMPORTED:
            rows.append(_row(about, outcome))
            done.add(each.module)
        if len(done) == DRAWN:
            break
    return rows


def _unbroken(outcomes: Outcomes, options: Iterable[str]) -> Outcome:
    whole = outcomes.copy.run(*options, to_the_end=True)
    return Outcome("", whole.cpu_s, f"red without any break: {whole.failed}") if whole.failed else whole


def _tried(outcomes: Outcomes, file: str, text: str, runs: Iterable[tuple[str, ...]]) -> Outcome:
    """Returns the outcome of the first of `runs` that is red. The later ones would run its tests once more."""
    total = Outcome("", 0.0)
    with outcomes.copy.planted(file, text):
        if not outcomes.copy.imports(file):
            return Outcome("", 0.0, NOT_IMPORTED)
        for options in runs:
            total += outcomes.copy.run(*options)
            if total.failed:
                break
    return total


def _tried_and_passed(outcomes: Outcomes, file: str, text: str, runs: Iterable[tuple[str, ...]]) -> Outcome:
    """As `_tried`, but red only if the test that failed passes without the break."""
    outcome = _tried(outcomes, file, text, runs)
    if outcome.failed and not outcomes.copy.passes(outcome):
        return Outcome("", outcome.cpu_s, f"red without any break, too: {outcome.failed}")
    return outcome


def _row(about: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    said = "red" if outcome.failed else f"UNFIT: {outcome.unfit}" if outcome.unfit else "NOT NOTICED"
    row = {**about, "outcome": said, "first failing test": outcome.failed, "processor s": round(outcome.cpu_s)}
    print(": ".join(str(value) for value in row.values()), flush=True)
    return row


def main() -> int:
    """Tries what the command line asks for, and prints the tables. Returns 1 if a break was not noticed, otherwise
    0."""
    parser = saved.option_parser(__doc__)
    parser.add_argument("--listed", action="store_true", help="only the breaks of the list")
    parser.add_argument("--changed", action="store_true", help="only the mutants that are drawn")
    parser.add_argument("--seed", type=int, default=SEED, help=f"draws the mutants (default {SEED})")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only listed breaks with one of these words")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a run leaves behind is ended, as after Ctrl-C
    tables = []
    with tempfile.TemporaryDirectory(prefix="kb-") as folder:
        outcomes = Outcomes(Path(folder))
        if not asked.changed:
            tables.append(try_listed(outcomes, asked.words))
        if not asked.listed and not asked.words:
            tables.append(try_drawn(outcomes, asked.seed))
    page = "\n\n".join("\n".join(saved.table(rows)) for rows in tables if rows)
    print(page)
    saved.target("breaks").write_text(f"# Breaks, and the tests that notice them\n\n{page}\n")
    return 1 if any(row["outcome"] not in ("red", "equivalent") for rows in tables for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
