"""The throughput of an arm: its reported records per second, computed from the ledger of the run."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from delivery_verifier.model.outcomes import REPORTED
from delivery_verifier.run_directory.ledger import LOAD_BEGAN
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory


def records_per_s(run: RunDirectory, arm: str) -> float | None:
    """Returns the number of reported records per second in the load of an arm, from the first send to the last report.

    The records of the warm-up do not count. Reason: a pause follows the warm-up, in which the step `produce` waits for
    the replicas and the fault plan. The times come from the ledger, because the intervals of timeline/load are too
    coarse for a short load.

    Returns None in three cases: the run does not record when its load began, no record of the load was reported, or no
    time passed between the first send and the last report. Raises OSError or pyarrow.ArrowException if the ledger
    cannot be read.
    """
    try:
        began_us = run.manifest("produce").counts.get(LOAD_BEGAN)
    except IncompleteRun:
        began_us = None
    if began_us is None:
        return None
    reported = ds.field("outcome").isin([outcome.value for outcome in REPORTED]) & ds.field("settled_at").is_valid()
    attempts = ds.dataset(run.path / "ledger", format="parquet").scanner(
        columns={name: ds.field(name).cast("int64") for name in ("sent_at", "settled_at")},
        filter=(ds.field("arm") == arm) & reported & (ds.field("sent_at").cast("int64") >= began_us),
    )
    records, sent_us, settled_us = 0, list[int](), list[int]()
    for batch in attempts.to_batches():  # in batches, because a large ledger does not fit into memory
        if batch.num_rows:
            records += batch.num_rows
            sent_us.append(pc.min(batch["sent_at"]).as_py())
            settled_us.append(pc.max(batch["settled_at"]).as_py())
    duration_us = max(settled_us, default=0) - min(sent_us, default=0)
    return records / (duration_us / 1e6) if duration_us > 0 else None


def known_records_per_s(run: RunDirectory, arm: str) -> float | None:
    """Returns the result of `records_per_s`, or None if the ledger cannot be read.

    So if the ledger of a run cannot be read, a page lacks only this figure.
    """
    try:
        return records_per_s(run, arm)
    except (OSError, pa.ArrowException):
        return None
