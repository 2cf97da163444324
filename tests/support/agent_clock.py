"""Runs a cluster agent whose clock a test can put forward. The cluster agent ends leases and runs by this clock.

`python agent_clock.py MODULE SPEC` does what `python -m MODULE SPEC` does. The file `clock_of(workspace)` holds the
seconds by which the cluster agent's clock is ahead. So no test waits for a lease to end, and no lease ends while a test
is slow.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from delivery_verifier.cluster import agent


def clock_of(workspace: Path) -> Path:
    """Returns the file with the seconds by which the clock of the cluster agent of `workspace` is ahead."""
    return workspace.with_suffix(".ahead")


def put_forward(workspace: Path, seconds: float) -> None:
    """Puts the clock of the cluster agent of `workspace` forward."""
    clock = clock_of(workspace)
    new = clock.with_suffix(".new")
    new.write_text(str(_ahead_s(clock) + seconds))
    new.rename(clock)  # the cluster agent never reads half a number


def _ahead_s(clock: Path) -> float:
    return float(clock.read_text()) if clock.exists() else 0.0


def main() -> None:
    """Runs the cluster agent."""
    _, module, spec = sys.argv
    clock = clock_of(Path(spec).parent)
    agent.time = SimpleNamespace(monotonic=lambda: time.monotonic() + _ahead_s(clock))  # type: ignore[attr-defined]
    sys.argv = [module, spec]
    importlib.import_module(module).main()


if __name__ == "__main__":
    main()
