"""A run in which every kind of anomaly occurs, and what a reconciliation says of it, in a form that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from delivery_verifier.run_directory.run_directory import RunDirectory
from support.planters import EVERY, random_history
from support.run_directories import scenario, write

SEED = 20_260_301


def mixed_run(path: Path) -> RunDirectory:
    """Writes a run directory with 60 histories in which every kind of anomaly may occur. It is ready to be reconciled
    from its log/."""
    histories = [random_history(f"h{at}", at, SEED + at, EVERY, 25) for at in range(1, 61)]
    transactional = {history.arm for history in histories if history.transaction}
    made = scenario([history.arm for history in histories], producers=2, transactional=transactional)
    rows = [row for history in histories for row in history.attempts]
    lines = [row for history in histories for row in history.lines + (history.seen if history.transaction else [])]
    return write(path, made, rows, lines)


def content(run: RunDirectory) -> dict[str, Any]:
    """Returns the rows of all tables that `reconcile` wrote, and its counts, without the times that it took."""
    manifest = run.manifest("reconcile")
    folders = {Path(name).parent if name.startswith("anomalies") else Path(name) for name in manifest.files}
    rows = {str(name): sorted(pq.read_table(run.path / name).to_pylist(), key=repr) for name in folders}
    return rows | {"counts": {name: count for name, count in manifest.counts.items() if not name.endswith("_ms")}}
