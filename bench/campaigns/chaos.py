"""Chaos: runs in which one process is killed at a random time. No verdict may be false, and nothing may be left behind.

`python bench/campaigns/chaos.py [--trials 50] [--seed 1] [--kinds a,b] [--only 7,9]`. Every trial starts a small run
and sends SIGKILL to one process of a kind. The time of the kill is drawn uniformly from the time for which such a
process lives in an undisturbed run. A verdict must agree with an independent recount of ledger and log. 60 s after the
end, no process, workspace, lock or packet filter rule may be left. If a series of trials is interrupted, the next call
continues it. Rows go to bench/results/chaos-<seed>.json, the table to docs/results/chaos-<date>.md. The exit code is 1
if any trial has a finding.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.kit import saved
from bench.kit.chaos import host as chaos_host
from bench.kit.chaos import trial as chaos_trial
from bench.kit.chaos.trial import Trial
from delivery_verifier.host import folders, machine
from delivery_verifier.host.ports import free_ports
from delivery_verifier.planning.provenance import versions_of

_COLUMNS = (
    "trial",
    "seed",
    "mode",
    "profile",
    "kind",
    "planned moment",
    "killed at",
    "exit",
    "verdict",
    "acked / lost / extra copies",
    "left behind",
    "s",
    "code",
    "found",
)


def main() -> int:
    """Performs the trials that are still to be done, and saves the rows after every trial. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", help="only trials of these kinds", default=",".join(chaos_host.KINDS))
    parser.add_argument("--only", help="only these numbers, again if need be", default="")
    parser.add_argument("--port", type=int, help="of Airflow; default KDV_PORT, else any that is free")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that all started processes end
    file = saved.STATE / f"chaos-{arguments.seed}.json"
    state = _load(file)
    only = {int(number) for number in arguments.only.split(",") if number}
    done, kinds = {row["number"] for row in state["rows"]}, arguments.kinds.split(",")
    with chaos_host.own_host(arguments.port or int(os.environ.get("KDV_PORT") or free_ports(1)[0])) as folder:
        for mode in ("direct", "airflow"):
            if mode not in state["undisturbed_s"]:
                state["undisturbed_s"][mode] = _undisturbed(mode, folder)
                _save(file, state)
        for trial in deal_trials(arguments.trials, arguments.seed, state["undisturbed_s"]):
            if trial.number in only or (not only and trial.number not in done and trial.kind in kinds):
                row = _perform(trial, folder)
                state["rows"].append(row)
                print(" | ".join(_cells(row)), flush=True)
                _save(file, state)
    _write_table(state)
    return 1 if any(_is_bad(row) for row in _latest(state["rows"])) else 0


def deal_trials(trials: int, seed: int, undisturbed_s: dict[str, dict[str, float]]) -> list[Trial]:
    """Returns the trials for a seed. The kinds of processes come in random order. All kinds are equally frequent. The
    times of the kills are uniform.

    Every third trial has a weak profile. `undisturbed_s`: for each mode (`direct` or `airflow`), the seconds per step
    of an undisturbed run.
    """
    dealer, kinds, dealt = random.Random(seed), list[str](), list[Trial]()
    directly = dict.fromkeys(chaos_host.KINDS, False)
    for number in range(1, trials + 1):
        if not kinds:
            kinds = list(chaos_host.KINDS)
            dealer.shuffle(kinds)
        name = kinds.pop()
        kind = chaos_host.KINDS[name]
        mode = "direct" if "direct" in kind.modes and directly[name] else "airflow"
        directly[name] = not directly[name]
        step, into_s = _moment(dealer.random(), kind, undisturbed_s[mode])
        dealt.append(
            Trial(number, f"{seed}:{number}", mode, "acks_1" if number % 3 == 0 else "safe", name, step, into_s)
        )
    return dealt


def _moment(share: float, kind: chaos_host.Kind, undisturbed_s: dict[str, float]) -> tuple[str, float]:
    """Returns the time of the kill: a step, and the seconds since the beginning of this step.

    At this time, a process of the kind has lived for the part `share` (0 to 1) of its lifetime. `undisturbed_s` are the
    seconds per step of an undisturbed run.
    """
    remaining_s = share * sum(undisturbed_s[step] for step in kind.steps)
    for step in kind.steps:
        if remaining_s < undisturbed_s[step]:
            return step, round(remaining_s, 2)
        remaining_s -= undisturbed_s[step]
    return kind.steps[-1], 0.0


def _undisturbed(mode: str, folder: Path) -> dict[str, float]:
    """Returns the seconds per step of a run without a kill.

    Raises RuntimeError if even this run has a finding, or is not HELD.
    """
    row = chaos_trial.perform(Trial(0, "0", mode, "safe"), folder)
    if row["verdict"] != "HELD" or _is_bad(row):
        raise RuntimeError(f"an undisturbed run is not as it should be: {json.dumps(row, indent=1)}")
    steps_s: dict[str, float] = row["steps_s"]
    print(f"undisturbed, {mode}: {row['seconds']} s", flush=True)
    return steps_s


def _perform(trial: Trial, folder: Path) -> dict[str, Any]:
    """Performs a trial and returns its row. Keeps the run directory in bench/results only if the trial was bad."""
    row = {**chaos_trial.perform(trial, folder), "commit": _commit()}
    run = folders.runs_dir() / row["run"]
    if _is_bad(row):
        target = saved.STATE / f"chaos-{row['run']}"
        shutil.copytree(run, target, dirs_exist_ok=True) if run.exists() else target.mkdir(parents=True)
        shutil.copy(folder / f"{row['run']}.log", target)
    shutil.rmtree(run, ignore_errors=True)
    return row


def _is_bad(row: dict[str, Any]) -> bool:
    """Returns whether a trial had a false verdict, leftovers or another finding."""
    return bool(row["false"] or row["left"] or row["findings"])


def _latest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the last row of each trial. A trial that was repeated has several rows."""
    return list({row["number"]: row for row in rows}.values())


def _load(file: Path) -> dict[str, Any]:
    if file.is_file():
        state: dict[str, Any] = json.loads(file.read_text())
        return state
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python", *sys.argv]),
        "machine": machine.describe(),
        "versions": versions_of("4.3.1"),
        "undisturbed_s": {},
        "rows": [],
    }


def _save(file: Path, state: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(state, indent=1) + "\n")
    partial.replace(file)


def _write_table(state: dict[str, Any]) -> None:
    rows = state["rows"]
    latest = _latest(rows)
    lines = [
        f"# Chaos, {state['date']}",
        "",
        f"`{state['command']}` on {state['machine']}; "
        + ", ".join(f"{name} {version}" for name, version in state["versions"].items())
        + ".",
        "",
        f"{len(latest)} trials: {sum(bool(row['false']) for row in latest)} false verdicts, "
        f"{sum(bool(row['left']) for row in latest)} with something left behind after 60 s, "
        f"{sum(bool(row['findings']) for row in latest)} with another finding, "
        f"{sum(row['killed'] is None for row in latest)} that ended before the kill. Verdicts: "
        f"{sum(row['verdict'] is not None for row in latest)}, none: {sum(row['verdict'] is None for row in latest)}.",
        "",
        "A trial that was performed again, after what it had found was fixed, counts as it ended last; all are listed.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|" + "---|" * len(_COLUMNS),
        *("| " + " | ".join(_cells(row)) + " |" for row in rows),
    ]
    target = saved.RESULTS / f"chaos-{state['date']}.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines) + "\n")
    print("\n".join(lines[4:]))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    killed, truth = row["killed"], row["recount"]
    return (
        str(row["number"]),
        row["seed"],
        row["mode"],
        row["scenario"],
        row["kind"],
        f"{row['step']} + {row['into_s']} s",
        f"{killed['at_s']} s, {killed['step'] or 'end'}" if killed else "ended before",
        str(row["exit_code"]),
        row["verdict"] or "none",
        "{acked} / {lost} / {extra_copies}".format(**truth) if truth else "-",
        "; ".join(row["left"]) or "nothing",
        f"{row['seconds']:.0f}",
        row["commit"],
        "; ".join(map(chaos_host.short, [*row["false"], *row["findings"]])) or "nothing",
    )


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=saved.ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
