"""Says how a run gets its verdict that ended without one, although its evidence is complete."""

from __future__ import annotations

import shlex
from pathlib import Path

from delivery_verifier.model.steps import GATE, REQUIRES


def how_to_judge(run_dir: Path) -> str:
    """Returns a sentence with the command that judges the run. Returns an empty text if the run has a verdict, or if
    its evidence is not complete.

    The evidence is complete when the topics have been read: what follows depends only on the run directory.
    """
    steps = (*REQUIRES["read_topic"], "read_topic")
    if (run_dir / f"{GATE}.json").is_file() or not all((run_dir / f"{step}.json").is_file() for step in steps):
        return ""
    return f"The evidence of this run is complete. To judge it: kdv reconcile {shlex.quote(run_dir.name)}"
