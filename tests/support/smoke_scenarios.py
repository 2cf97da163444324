"""The smoke scenarios of the catalogue, each run once: half of the kinds through Airflow, the rest directly; and their
recount."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq

from delivery_verifier.catalogue import ENTRIES
from delivery_verifier.catalogue_run import begin, selection
from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.scenario import Bound
from delivery_verifier.store.books import Books
from delivery_verifier.store.run_directory import RunDirectory
from support.oracle import judge

THROUGH_AIRFLOW = {
    "protocol": "duplicates.closed_connection",
    "network": "acks_1.replication_cut",
    "power": "power.all_brokers",
    "client": "idempotent.killed_producer",
}
"""By kind of fault. Signals and elections are in the runs of `make verify` and of the trigger form."""
DIRECTLY = [name for name, entry in ENTRIES.items() if "smoke" in entry.tags and name not in THROUGH_AIRFLOW.values()]
_OPERATORS = {"=": int.__eq__, ">=": int.__ge__, "<=": int.__le__}


def expect_unavailable(names: list[str]) -> list[str]:
    """The option of `kdv catalogue` for those that this host cannot run (no root, no loop devices)."""
    lacking = [entry.name for entry in selection.entries(names, "") if begin.unavailable(entry)]
    return ["--expect-unavailable", ",".join(lacking)] if lacking else []


def assert_recounted(run: RunDirectory, entry: str) -> None:
    """Record by record in plain Python, ledger and log come to the books that Spark wrote, and to what the entry
    says."""
    ledger, log = (pq.read_table(run.path / name).to_pylist() for name in ("ledger", "log"))
    books = Books.read(run.path)
    for plan in ENTRIES[entry].arms:
        seen = {
            view: [row for row in log if (row["arm"], row["view"]) == (plan.name, view)]
            for view in ("raw", "committed")
        }
        lines = [row for row in seen["raw"] if row["producer"] != MARKER_PRODUCER]
        found = judge([row for row in ledger if row["arm"] == plan.name], lines, seen["committed"])[0]
        booked = {name: count for name, count in books.totals(plan.name).items() if count}
        assert booked == +found, (entry, plan.name)
        assert all(_holds(bound, found) for bound in plan.expectation.bounds), (entry, plan.name, found)


def _holds(bound: Bound, found: Counter[str]) -> bool:
    return bool(_OPERATORS[bound.op](found[bound.count.lower()], bound.value))
