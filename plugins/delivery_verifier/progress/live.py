"""Looks from outside at a run that goes on: finds out the reports, rates and faults so far, and what Spark does.

The module reads everything from files in the workspace of the run's cluster.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from delivery_verifier.host.supervision.control_block import FILE
from delivery_verifier.load.live_ledger import SENT, Control, Word, read_segment
from delivery_verifier.model.history import now_us
from delivery_verifier.model.live import SPARK_FILE, LiveArm, LiveLoad, LiveSpark, Mark
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.progress.marks import Marks
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

SEGMENTS_READ = 32
"""The greatest number of segments that are read of one producer. A segment is a file of the live ledger with 131,072
attempts. The newest segments are read, so the timeline of a larger load begins later."""
INTERVALS = 200
"""The greatest number of intervals in the timeline."""
SHORTEST_S = 0.5
"""The shortest interval of the timeline, in seconds."""
RATE_OVER_S = 3.0
"""The rate is the mean over this many seconds."""
SPARK_SILENT_S = 10.0
"""If Spark's progress is older than this many seconds, whoever wrote it has ended or hangs."""


def look(run_dir: Path) -> LiveLoad | None:
    """Returns the state of the load of the run in `run_dir`. Returns None if the run has no workspace yet, or if its
    workspace was removed.

    A workspace is removed when its run is judged. So files may vanish at any moment.
    """
    run = RunDirectory(run_dir)
    try:
        scenario = run.read_scenario()
        workspace = Path(run.manifest("start_cluster").notes["workspace"])
        if not workspace.is_dir():
            return None
        times = {arm.name: settled_ns(workspace / "live" / arm.name) for arm in scenario.loaded}
        until_ns = 0 if (run_dir / "produce.json").exists() else now_us() * 1000
        return _load(scenario, reported(scenario, workspace / "live"), times, Marks(workspace).read(), until_ns)
    except (IncompleteRun, OSError, KeyError, ValueError):  # ValueError: a file that is only half made
        return None


def spark(run_dir: Path) -> LiveSpark | None:
    """Returns what Spark does for the run in `run_dir` now.

    Returns None if that is not known: Spark does nothing for the run, or whoever watched Spark has ended.
    """
    try:
        file = Path(RunDirectory(run_dir).manifest("start_cluster").notes["workspace"]) / SPARK_FILE
        if time.time() - file.stat().st_mtime > SPARK_SILENT_S:
            return None
        return msgspec.json.decode(file.read_bytes(), type=LiveSpark)
    except (IncompleteRun, OSError, KeyError, ValueError):  # ValueError: the file is damaged
        return None


def reported(scenario: Scenario, live: Path) -> dict[str, int]:
    """Maps each arm to the number of its reported attempts. `live`: the folder of the producers' control files."""
    return {arm.name: sum(_reported(folder) for folder in _producers(live / arm.name)) for arm in scenario.loaded}


def settled_ns(arm: Path) -> npt.NDArray[np.int64]:
    """Returns the times, in ns since the epoch, at which the client reported attempts of an arm as acknowledged or,
    with acks=0, as sent.

    `arm`: the folder of the arm's producers. Reads the newest SEGMENTS_READ segments of each producer's ledger. Leaves
    out resends.
    """
    times = [np.empty(0, np.int64)]
    for folder in _producers(arm):
        for file in sorted(folder.glob("segment-*"))[-SEGMENTS_READ:]:
            result, _, settled = read_segment(folder, int(file.name.removeprefix("segment-")))
            times.append(settled[(result >= SENT) & (result != 0) & (settled > 0)])
    return np.concatenate(times)


def _reported(folder: Path) -> int:
    return Control.peek(folder, Word.REPORTED)


def _producers(arm: Path) -> list[Path]:
    return [folder for folder in arm.glob("*") if (folder / FILE).exists()]


def _load(
    scenario: Scenario,
    counts: dict[str, int],
    times: dict[str, npt.NDArray[np.int64]],
    marks: list[Mark],
    until_ns: int,
) -> LiveLoad:
    """`until_ns`: now, if the load goes on. While no client gets a report, the timeline goes on with zeros. 0 if the
    load has ended: the timeline ends with its last report."""
    everything = np.concatenate([*times.values(), np.empty(0, np.int64)])
    began_ns, last_ns = (int(everything.min()), int(everything.max())) if everything.size else (0, 0)
    lasted_s = (max(last_ns, until_ns) - began_ns) / 1e9 if everything.size else 0.0
    interval_s = max(SHORTEST_S, np.ceil(lasted_s / INTERVALS / SHORTEST_S) * SHORTEST_S)
    edges = began_ns + np.arange(int(lasted_s / interval_s) + 2) * int(interval_s * 1e9)
    arms = [
        LiveArm(
            name=arm.name,
            reported=counts[arm.name],
            records=arm.records,
            counts=[int(count) for count in np.histogram(times[arm.name], edges)[0]] if everything.size else [],
        )
        for arm in scenario.loaded
    ]
    recent = int((everything > now_us() * 1000 - RATE_OVER_S * 1e9).sum())
    return LiveLoad(
        began_us=began_ns // 1000,
        interval_s=float(interval_s),
        rate=recent / RATE_OVER_S,
        fault=scenario.fault.name if scenario.fault.steps else "",
        arms=arms,
        marks=marks,
    )
