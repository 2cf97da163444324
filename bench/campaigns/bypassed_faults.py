"""Runs every scenario of the catalogue with faults that have no effect. No run may end as if the faults had happened.

`python bench/campaigns/bypassed_faults.py [--entries a,b]`, part of `make campaign`. Each action that must have an
effect is replaced by an action that does nothing. The verifier still asks for the proof of the real action. A verifier
that believed the plan instead of the cluster would now say HELD. Every arm that carries load must be INCONCLUSIVE, with
the doubt `fault_took_no_effect`. A scenario that the host cannot run is listed as UNAVAILABLE. A table goes to
bench/results/bypassed-faults-<date>.md. The exit code is 1 if any arm ended otherwise, or if a run failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from dataclasses import dataclass

from bench.kit import saved
from delivery_verifier import catalogue
from delivery_verifier.faults import triggers
from delivery_verifier.faults.action import Action, ActionContext, ActionProof, Done
from delivery_verifier.faults.actions import ACTIONS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import ClusterSpec
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.pipeline import direct
from delivery_verifier.pipeline.local_spark import prepare_spark
from delivery_verifier.planning.preflight import Unavailable
from delivery_verifier.planning.provenance import versions_of

DEADLINE_S = 5.0
"""How long a plan waits for the effect of a fault, in seconds. The effect never comes."""
Row = tuple[str, RunVerdict | str, float]
"""The name of an entry, its verdict, and the seconds that the run took. If there is no verdict, a text says why."""


@dataclass(frozen=True)
class Bypassed:
    """A stand-in for the action `action`. It does nothing, and returns the proof of the real action."""

    action: Action

    def do(self, context: ActionContext) -> Done:
        """Does nothing, and sees nothing."""
        return Done(now_us())

    def proof(self, context: ActionContext, done: Done) -> ActionProof:
        """Returns the proof of the real action, which was not performed."""
        return self.action.proof(context, done)


def main() -> int:
    """Runs the entries, and saves the table after every run. Returns the exit code."""
    effective = [
        name for name, entry in catalogue.ENTRIES.items() if any(step.act.takes_effect for step in entry.fault.steps)
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that the cluster is ended
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--entries", default=",".join(effective))
    arguments = parser.parse_args()
    for name, act in ACTS.items():
        if act.takes_effect:
            ACTIONS[name] = Bypassed(ACTIONS[name])
    triggers.LEADER_DEADLINE_S = triggers.EFFECT_DEADLINE_S = DEADLINE_S
    return _run(arguments.entries.split(","))


def _run(entries: list[str]) -> int:
    prepare_spark()
    from spark_jobs.session.classic import local_session

    target = saved.target("bypassed-faults")
    rows: list[Row] = []
    with local_session() as spark:
        for entry in entries:
            begun, name = time.monotonic(), f"bypassed-{time.strftime('%m%dT%H%M%S')}-{entry}"
            outcome: RunVerdict | str
            try:
                outcome = direct.run({"scenario": entry}, name, lambda *_: None, spark)
            except Unavailable as error:
                outcome = f"UNAVAILABLE: {error}"
            except Exception as error:  # the table says that there is no verdict; the next entry runs
                outcome = f"failed: {error}"
            rows.append((entry, outcome, time.monotonic() - begun))
            target.write_text(report(rows))
            print(_line(*rows[-1]), flush=True)
    return 1 if any(is_bad(outcome) for _, outcome, _ in rows) else 0


def is_bad(outcome: RunVerdict | str) -> bool:
    """Returns whether a run failed, or whether an arm that carries load was judged as if a fault had hit the arm."""
    return outcome.startswith("failed") if isinstance(outcome, str) else bool(arms_judged_falsely(outcome))


def loaded_arms(verdict: RunVerdict) -> list[ArmVerdict]:
    """Returns the arms that carry load."""
    return [arm for arm in verdict.arms if arm.role != "canary"]


def arms_judged_falsely(verdict: RunVerdict) -> list[str]:
    """Returns the names of arms that were judged falsely. An arm that carries load must be INCONCLUSIVE, with the doubt
    `fault_took_no_effect`."""
    return [
        arm.arm
        for arm in loaded_arms(verdict)
        if arm.verdict != "INCONCLUSIVE" or "fault_took_no_effect" not in {doubt.name for doubt in arm.doubts}
    ]


def report(rows: list[Row]) -> str:
    """Returns the table of all runs as Markdown."""
    wrong = sum(is_bad(outcome) for _, outcome, _ in rows)
    machine = saved.circumstances(versions_of(ClusterSpec().kafka_version))
    return "\n".join(
        [
            "# Faults that were made not to take effect",
            "",
            f"`python bench/campaigns/bypassed_faults.py`, {machine}",
            "",
            f"{len(rows)} scenarios, {wrong} wrong.",
            "",
            "| scenario | never done | arms INCONCLUSIVE because the fault did not take effect | others | further "
            "doubts | s "
            "|",
            "|---|---|---|---|---|---|",
            *(_line(*row) for row in rows),
            "",
        ]
    )


def _line(entry: str, verdict: RunVerdict | str, seconds: float) -> str:
    done = dict.fromkeys(step.action for step in catalogue.ENTRIES[entry].fault.steps if step.act.takes_effect)
    if isinstance(verdict, str):
        return f"| `{entry}` | {', '.join(done)} | – | {verdict.splitlines()[0]} | – | {seconds:.0f} |"
    arms, wrong = loaded_arms(verdict), arms_judged_falsely(verdict)
    others = sorted({doubt.name for arm in arms for doubt in arm.doubts} - {"fault_took_no_effect"})
    cells = (
        f"`{entry}`",
        ", ".join(done),
        f"{len(arms) - len(wrong)} of {len(arms)}",
        ", ".join(wrong) or "none",
        ", ".join(others) or "none",
        f"{seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
