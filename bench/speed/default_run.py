"""Repeats the default run, and measures how long each step takes and whether anything is left behind.

`python bench/speed/default_run.py [--runs 10]`, or `--logs FILE ...` with the output of earlier `kdv run`s. Every run
is the run of `make verify`. All runs go through the same local Airflow, which stays up. The table goes to
docs/results/default-run-<date>.md. The exit code is 1 unless every run ended HELD.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import folders, machine
from delivery_verifier.planning.provenance import versions_of

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ("run", "--profile", "idempotent", "--fault", "kill_leader", "--records", "1000000")
_STEP = re.compile(r"^ *([0-9.]+) s  (\w+) +(running|success|failed)", re.MULTILINE)
_VERDICT = re.compile(r"^(HELD|VIOLATED|INCONCLUSIVE) \((.*)\)", re.MULTILINE)


def main() -> int:
    """Runs and measures the default run, and writes the table. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--logs", nargs="*", type=Path, default=[], help="what earlier runs printed, in place of running"
    )
    arguments = parser.parse_args()
    before = _resources()
    texts = [log.read_text() for log in arguments.logs] or [_run() for _ in range(arguments.runs)]
    lines = [
        f"# The default run, {time.strftime('%Y-%m-%d')}",
        "",
        f"`python bench/speed/default_run.py`: `kdv {' '.join(COMMAND)}`, {len(texts)} times in a row through one "
        f"Airflow, on {machine.describe()}; "
        + ", ".join(f"{name} {version}" for name, version in versions_of("4.3.1").items())
        + ".",
        "",
        *_table([dict(seconds(text)) for text in texts]),
        "",
        *_ends(texts),
    ]
    if not arguments.logs:
        lines += ["", "| | before | after |", "|---|---|---|", *_leaks(before, _resources())]
    target = ROOT / "docs" / "results" / f"default-run-{time.strftime('%Y-%m-%d')}.md"
    target.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if all((match := _VERDICT.search(text)) and match[1] == "HELD" for text in texts) else 1


def _run() -> str:
    done = subprocess.run([ROOT / ".venv/bin/kdv", *COMMAND], capture_output=True, text=True, timeout=900, check=False)
    return done.stderr + done.stdout


def seconds(text: str) -> list[tuple[str, float]]:
    """Returns the seconds of each step, in order, and the seconds from the trigger to the verdict.

    `text` is the output of `kdv run`.
    """
    begun_s, steps = dict[str, float](), list[tuple[str, float]]()
    for at_s, step, state in _STEP.findall(text):
        if state == "running":
            begun_s.setdefault(step, float(at_s))
        else:
            steps.append((step, float(at_s) - begun_s.get(step, float(at_s))))
            last_s = float(at_s)
    return [*steps, ("trigger to verdict", last_s - min(begun_s.values()))] if steps else []


def _table(runs: list[dict[str, float]]) -> list[str]:
    rows = [
        f"| {step} | {statistics.median(run.get(step, 0.0) for run in runs):.1f} | "
        f"{min(run.get(step, 0.0) for run in runs):.1f} | {max(run.get(step, 0.0) for run in runs):.1f} |"
        for step in runs[0]
    ]
    return ["| step | median s | shortest | longest |", "|---|---|---|---|", *rows]


def _ends(texts: list[str]) -> list[str]:
    ends = [f"{match[1]} ({match[2]})" if (match := _VERDICT.search(text)) else "no verdict" for text in texts]
    return [f"Verdicts: {', '.join(f'{ends.count(end)} x {end}' for end in dict.fromkeys(ends))}."]


def _resources() -> dict[str, float]:
    """Returns figures that could grow from run to run: the number of this project's processes, their memory, the number
    of runs, disk space, workspaces."""
    processes = [
        process
        for process in psutil.process_iter(["cmdline", "memory_info"])
        if str(ROOT) in " ".join(process.info["cmdline"] or [])
    ]
    runs = sum(1 for _ in folders.runs_dir().glob("*/scenario.json"))
    return {
        "processes": len(processes),
        "their memory, MB": round(sum(process.info["memory_info"].rss for process in processes) / 1e6),
        "runs kept": runs,
        "disk below runs/, MB": round(_size(folders.runs_dir()) / 1e6),
        "workspaces": len(workspaces.all_workspaces()),
    }


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _leaks(before: dict[str, float], after: dict[str, float]) -> list[str]:
    return [f"| {name} | {before[name]:g} | {after[name]:g} |" for name in before]


if __name__ == "__main__":
    sys.exit(main())
