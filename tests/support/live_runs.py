"""Runs that go on: a scenario, a workspace, live ledgers that a test fills, and what Spark does."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from delivery_verifier.load.live_ledger import FAILED, Control, LiveLedger, Word
from delivery_verifier.model.history import now_us
from delivery_verifier.model.live import SPARK_FILE, LiveSpark
from delivery_verifier.progress.marks import Marks
from delivery_verifier.store.run_directory import RunDirectory
from support.run_builder import begun

REPORTED = 900


def flowing(runs: Path, name: str, workspace: Path) -> RunDirectory:
    """Makes a run whose subject has reported 900 records over the last nine seconds, and failed 50. Broker 1 was killed
    four seconds after the first report."""
    run = begun(name).step("start_cluster", lambda output: output.notes.update(workspace=str(workspace))).write(runs)
    subject = run.read_scenario().subjects[0].name
    folder = workspace / "live" / subject / "0"
    control, ledger = Control(folder), LiveLedger(folder)
    now_ns = now_us() * 1000
    ledger.open(0, 1000, now_ns - 10_000_000_000)
    segment = ledger.segments[0]
    result, settled = (np.frombuffer(column, np.int64) for column in (segment.result, segment.settled))
    settled[:REPORTED] = now_ns - 9_000_000_000 + np.arange(REPORTED) * 10_000_000
    result[:REPORTED] = np.arange(REPORTED) + 1
    result[REPORTED : REPORTED + 50], settled[REPORTED : REPORTED + 50] = FAILED, now_ns
    control[Word.REPORTED] = REPORTED
    (workspace / "produce.begun").touch()
    Marks(workspace).add("kill (broker 1)", now_ns // 1000 - 5_000_000)
    return run


def give_workspace(run: RunDirectory, folder: Path) -> Path:
    """Makes a workspace of `run` in `folder`, and says so in the manifest of start_cluster.

    Returns the file in which Spark's progress will stand.
    """
    workspace = folder / run.read_scenario().run_token
    workspace.mkdir(parents=True, exist_ok=True)
    with run.writing("start_cluster") as output:
        output.notes["workspace"] = str(workspace)
    return workspace / SPARK_FILE


def reconciling(run: RunDirectory, folder: Path, spark: LiveSpark) -> Path:
    """Gives `run` a workspace in `folder`, where `spark` stands as what Spark does now. Returns the file."""
    file = give_workspace(run, folder)
    file.write_bytes(msgspec.json.encode(spark))
    return file
