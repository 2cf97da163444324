"""Faults that are made not to bite: every scenario of the catalogue, with its faults announced and never done.

`python bench/bypassed.py [--entries a,b]`, part of `make campaign`. Each biting action of a plan is replaced by one that does
nothing, while what is to prove it stays the real thing: whoever believes a plan instead of the cluster would now say HELD of
arms that nothing was done to. Every arm that carries load must be INCONCLUSIVE, with the doubt `fault_did_not_bite`. A table
goes to bench/results/bypassed-<date>.md. Exit code 1 if an arm got a verdict.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from delivery_verifier import catalogue, direct, home
from delivery_verifier.faults import runner
from delivery_verifier.faults.actions import ACTIONS, Action
from delivery_verifier.faults.moment import Moment
from delivery_verifier.runs import RunDirectory, now_us
from delivery_verifier.verdict import ArmVerdict, RunVerdict
from delivery_verifier.vocabulary import ACTS

DEADLINE_S = 5.0
"""How long a plan waits for what will not come; an effect takes up to three times the session to show."""


@dataclass(frozen=True)
class Bypassed:
    """An action that does not reach what it is aimed at."""

    action: Action

    def do(self, now: Moment) -> int:
        """Nothing."""
        return now_us()

    def proof(self, now: Moment) -> dict[str, object]:
        """What the real one would say now."""
        return self.action.proof(now)


def main() -> int:
    """Runs, and saves the table after every run."""
    biting = [name for name, entry in catalogue.ENTRIES.items() if any(step.act.bites for step in entry.fault.steps)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", default=",".join(biting))
    arguments = parser.parse_args()
    for name, act in ACTS.items():
        if act.bites:
            ACTIONS[name] = Bypassed(ACTIONS[name])
    runner.LEADER_DEADLINE_S = DEADLINE_S
    return _run(arguments.entries.split(","))


def _run(entries: list[str]) -> int:
    direct.prepare_spark()
    from spark_jobs.session import local_session

    target = Path(__file__).parent / "results" / f"bypassed-{datetime.datetime.now():%Y-%m-%dT%H%M}.md"
    target.parent.mkdir(exist_ok=True)
    rows: list[tuple[RunVerdict, float]] = []
    with local_session() as spark:
        for entry in entries:
            begun, name = time.monotonic(), f"bypassed-{time.strftime('%m%dT%H%M%S')}-{entry}"
            rows.append((direct.run({"scenario": entry}, name, lambda *_: None, spark), time.monotonic() - begun))
            target.write_text(report(rows, RunDirectory(home.runs_dir() / name).scenario.versions))
            print(_line(*rows[-1]), flush=True)
    return 0 if not any(believed(verdict) for verdict, _ in rows) else 1


def loaded(verdict: RunVerdict) -> list[ArmVerdict]:
    """The arms that carry load."""
    return [arm for arm in verdict.arms if arm.role != "canary"]


def believed(verdict: RunVerdict) -> list[str]:
    """The arms whose verdict does not say that nothing was done to them."""
    return [
        arm.arm for arm in loaded(verdict)
        if arm.verdict != "INCONCLUSIVE" or "fault_did_not_bite" not in {doubt.name for doubt in arm.doubts}
    ]  # fmt: skip


def report(rows: list[tuple[RunVerdict, float]], versions: dict[str, str]) -> str:
    """The table as Markdown."""
    wrong = sum(bool(believed(verdict)) for verdict, _ in rows)
    return "\n".join([
        "# Faults that were made not to bite", "",
        f"`python bench/bypassed.py`, {datetime.date.today()}; {os.cpu_count()} CPUs, {platform.platform()}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items()), "",
        f"{len(rows)} scenarios, {wrong} with an arm that got a verdict.", "",
        "| scenario | never done | arms INCONCLUSIVE because the fault did not bite | arms believed | other doubts | s |",
        "|---|---|---|---|---|---|", *(_line(*row) for row in rows), "",
    ])  # fmt: skip


def _line(verdict: RunVerdict, seconds: float) -> str:
    done = dict.fromkeys(step.action for step in catalogue.ENTRIES[verdict.scenario].fault.steps if step.act.bites)
    arms, wrong = loaded(verdict), believed(verdict)
    others = sorted({doubt.name for arm in arms for doubt in arm.doubts} - {"fault_did_not_bite"})
    cells = (f"`{verdict.scenario}`", ", ".join(done), f"{len(arms) - len(wrong)} of {len(arms)}", ", ".join(wrong) or "none",
             ", ".join(others) or "none", f"{seconds:.0f}")  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
