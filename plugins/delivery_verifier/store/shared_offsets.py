"""Shared offsets: offsets of one topic and partition that more than one attempt was told by its acknowledgement.

At most one of these acknowledgements is right: a log has one record at an offset. The step reconcile counts the shared
offsets of every arm from the ledger alone, and lists their acknowledgements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.tables import SHARED_OFFSETS

if TYPE_CHECKING:
    import pyarrow as pa

SHARED = "shared/"
"""The prefix of some keys in the counts of reconcile.json. The count `shared/<arm>` is the number of shared offsets of
the arm."""
MOST = 5_000
"""The acknowledgements of at most this many shared offsets are listed per arm. All are counted."""
MOST_ACKS = 16
"""At most this many acknowledgements are listed per shared offset: those that were reported first."""


class SharedOffsets(NamedTuple):
    """The shared offsets of one arm: their number, and the acknowledgements of those that are listed, by (partition,
    offset). An acknowledgement has the columns of SHARED_OFFSETS, with times in µs since the epoch."""

    total: int
    listed: Mapping[tuple[int, int], list[dict[str, Any]]]


def by_arm(counts: Mapping[str, int], table: pa.Table) -> dict[str, SharedOffsets]:
    """Returns the shared offsets of each arm. `counts`: those of reconcile.json. `table`: SHARED_OFFSETS."""
    from delivery_verifier.store.times import as_us

    for name in ("sent_at", "settled_at"):
        table = table.set_column(table.schema.get_field_index(name), name, as_us(table[name]))
    listed: dict[str, dict[tuple[int, int], list[dict[str, Any]]]] = {}
    for row in table.to_pylist():
        listed.setdefault(row["arm"], {}).setdefault((row["partition"], row["offset"]), []).append(row)
    return {
        name.removeprefix(SHARED): SharedOffsets(count, listed.get(name.removeprefix(SHARED), {}))
        for name, count in counts.items()
        if name.startswith(SHARED)
    }


def read_shared_offsets(run: RunDirectory, arms: Collection[str]) -> dict[str, SharedOffsets]:
    """Returns the shared offsets of each arm; nothing if the run was reconciled before they were counted.

    Raises IncompleteRun if an arm was not counted though others were, or if the table is missing or incomplete, and
    pyarrow.ArrowException if its file is damaged."""
    import pyarrow.parquet as pq

    counts = run.manifest("reconcile").counts
    counted = [arm for arm in arms if SHARED + arm in counts]
    if not counted and not (run.path / SHARED_OFFSETS.file).exists():
        return {}
    if missing := [arm for arm in arms if arm not in counted]:
        raise IncompleteRun(f"reconcile.json does not say how many shared offsets {missing[0]} has")
    if not (run.path / SHARED_OFFSETS.file).exists():
        raise IncompleteRun(f"{SHARED_OFFSETS.file} is missing, though reconcile.json counts shared offsets")
    shared = by_arm(counts, pq.read_table(run.path / SHARED_OFFSETS.file, columns=list(SHARED_OFFSETS.column_names)))
    for arm, offsets in shared.items():
        if len(offsets.listed) != min(offsets.total, MOST):
            listed = f"{SHARED_OFFSETS.file} lists {len(offsets.listed)} of {offsets.total} shared offsets of {arm}"
            raise IncompleteRun(f"{listed}; it must list {min(offsets.total, MOST)}")
    return shared
