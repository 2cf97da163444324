"""The throughput: how many records per second one arm of a run reported, read off its ledger."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from delivery_verifier.model.outcomes import REPORTED
from delivery_verifier.store.ledger import LOAD_BEGAN
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


def records_per_s(run: RunDirectory, arm: str) -> float | None:
    """Reported records of the load proper per second, from the first send of one of them to the last report.

    The warm-up does not count: between the warm-up and the load, `produce` waits until all replicas have the warm-up's
    records and the fault plan is ready. Neither those records nor that wait show how fast the settings are. The times
    come from the ledger and not from timeline/load: the first and the last interval there are only partly filled, which
    would falsify the rate of a load of a few seconds by several per cent.

    None where the run does not say when its load began, or reported nothing after that. Raises OSError or
    pyarrow.ArrowException where the ledger cannot be read.
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
    for batch in attempts.to_batches():  # a large ledger does not fit into memory
        if batch.num_rows:
            records += batch.num_rows
            sent_us.append(pc.min(batch["sent_at"]).as_py())
            settled_us.append(pc.max(batch["settled_at"]).as_py())
    duration_us = max(settled_us, default=0) - min(sent_us, default=0)
    return records / (duration_us / 1e6) if duration_us > 0 else None


def known_records_per_s(run: RunDirectory, arm: str) -> float | None:
    """As `records_per_s`; None also where the ledger cannot be read. A sealed verdict is shown without this figure."""
    try:
        return records_per_s(run, arm)
    except (OSError, pa.ArrowException):
        return None
