"""Says what past commits would have run: with `make test CHANGED`, and in turns of continuous integration.

`python bench/speed/chosen_tests.py [--commits N] [--turns N]`. Runs nothing. Costs are those of tests/costs.json, and
the graph of imports is that of this checkout. The exit code is 1 if a module was not chosen within so many turns as a
module may wait.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # where the tests' own modules are

import batches  # noqa: E402
import costs  # noqa: E402
import gate  # noqa: E402
import reach  # noqa: E402
import turns  # noqa: E402
from batches import TURNS, Memory  # noqa: E402

LONGEST = TURNS + 1
"""Within so many turns in a row, every module must be chosen at least once."""


def main() -> int:
    """Prints both tables. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--turns", type=int, default=30)
    asked = parser.parse_args()
    changes(_commits(asked.commits))
    return turned(_commits(asked.turns)[::-1])


def changes(commits: list[str]) -> None:
    """Prints what each commit would have cost with `make test CHANGED`, in processor seconds."""
    known, asked = gate.read_costs(), gate.read()
    by_commit = {}
    for commit in commits:
        files = reach.changed_files(f"{commit}^", commit)
        by_commit[commit] = sum(costs.of_batch(batch, known) for batch in batches.of_files(files, asked))
    costs_of_all = sorted(by_commit.values())
    print(
        f"CHANGED over {len(by_commit)} commits, in processor seconds: median {statistics.median(costs_of_all):.0f}, "
        f"9 of 10 at most {costs_of_all[len(by_commit) * 9 // 10]:.0f}, "
        f"at most {costs_of_all[-1]:.0f} ({max(by_commit, key=by_commit.__getitem__)[:8]})"
    )


def turned(commits: list[str]) -> int:
    """Plays a turn for each commit, the oldest first. Prints what each chose. Returns 1 if a module waited too long."""
    asked, known, memory = gate.read(), {**batches.UNKNOWN, **gate.read_costs().modules}, Memory()
    every, chosen = batches.beside_the_gate(asked), list[set[str]]()
    for commit in commits:
        commit_s = int(_git("log", "-1", "--format=%ct", commit))
        files = turns.files_of_the_day_before(commit)
        reached = turns.reached(files, every)
        names, owed = batches.choose(every, known, memory, reached, commit_s // turns.SLOT_S)
        cost = sum(known.get(name, batches.NEW).rest_cpu_s for name in names)
        print(f"{commit[:8]}: {len(names)} of {len(every)} modules, {cost:.0f} processor seconds, {len(owed)} owed")
        memory.turn += 1
        memory.ran |= dict.fromkeys(names, memory.turn)
        memory.owed = [*owed]
        chosen.append({*names})
    spans = [set().union(*chosen[begin : begin + LONGEST]) for begin in range(len(chosen) - LONGEST + 1)]
    late = {name for span in spans for name in {*every} - span}
    print(f"within any {LONGEST} turns, every module is chosen" if not late else f"not chosen in time: {sorted(late)}")
    return 1 if late else 0


def _commits(number: int) -> list[str]:
    return _git("rev-list", "--no-merges", f"--max-count={number}", "HEAD").splitlines()


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
