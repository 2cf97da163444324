"""Makes a run of `kdv run` whose ledger has planted anomalies, and compares what the run finds with what was planted.

`python bench/kit/planted.py run --direct --profile P --records N [options of kdv run]` is `kdv run` with one change.
The change happens between the producer and the ledger: every (N / 1,000)th row of the subject's ledger is written down
wrongly, so that the anomalies are spread over the whole run. In turn, a row

* names attempt 1 of its record. No such attempt is in the log: LOST. Nobody sent the attempt that is there: PHANTOM;
* names the next offset as the acknowledged one: MISPLACED.

`bench/speed/scaling.py --plant` uses this program. `differences` compares the cases of the run, one by one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delivery_verifier.command_line import main as command_line
from delivery_verifier.load import publish_ledger
from delivery_verifier.run_directory.run_directory import RunDirectory

PLACES = 1000
"""In how many parts the load is divided. At the end of each part stands one wrong row."""
Case = tuple[str, int, int]
"""The kind of an anomaly, the sequence and the number of the attempt."""


def main(argv: Sequence[str]) -> int:
    """Runs `kdv` with the arguments `argv`. Returns its exit code."""
    records, subject = (argv[argv.index(option) + 1] for option in ("--records", "--profile"))
    step = step_of(int(records))
    table_of = publish_ledger._table

    def planted_table(slots: Any, owner: publish_ledger.LedgerOwner, *rest: Any) -> pa.Table:
        table = table_of(slots, owner, *rest)
        return planted(table, step) if owner.arm == subject else table

    publish_ledger._table = planted_table
    return command_line.main(argv)


def step_of(records: int) -> int:
    """Returns the distance between two wrong rows, in records, of a run with `records` planned records."""
    return max(2, records // PLACES)


def planted(table: pa.Table, step: int) -> pa.Table:
    """Returns rows of the ledger with the wrong rows among them. The acknowledged rows with the sequences `step`, 3 *
    `step`, ... name another attempt, and those with 2 * `step`, 4 * `step`, ... another offset."""
    number = pc.divide(table["sequence"], step)
    chosen = pc.and_(pc.equal(pc.multiply(number, step), table["sequence"]), pc.greater(number, 0))
    odd = pc.equal(pc.bit_wise_and(number, 1), 1)
    renumbered, moved = pc.and_(chosen, odd), pc.and_(chosen, pc.invert(odd))
    columns = {
        "attempt": pc.if_else(renumbered, pa.scalar(1, pa.int32()), table["attempt"]),
        "offset": pc.if_else(moved, pc.add(table["offset"], 1), table["offset"]),
    }
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
    return table


def expected_in(run: RunDirectory, records: int) -> Counter[Case]:
    """Returns the planted cases of a run with `records` planned records."""
    (subject,) = run.read_scenario().subjects
    return expected(run.manifest("produce").counts[f"announced/{subject.name}/0/0"], step_of(records))


def expected(attempts: int, step: int) -> Counter[Case]:
    """Returns the planted cases of a ledger with `attempts` rows, all of them acknowledged."""
    cases = Counter[Case]()
    for number, sequence in enumerate(range(step, attempts, step), 1):
        cases.update([("LOST", sequence, 1), ("PHANTOM", sequence, 0)] if number % 2 else [("MISPLACED", sequence, 0)])
    return cases


def differences(run: RunDirectory, records: int) -> list[str]:
    """Returns one line for each case that was planted and not found, or found and not planted, and for each broken
    invariant. `records`: the planned number of records of the run."""
    (subject,) = run.read_scenario().subjects
    names = ("kind", "sequence", "attempt", "arm")
    rows = pq.read_table(run.path / "anomalies", columns=list(names)).to_pylist()
    observed = Counter((row["kind"], row["sequence"], row["attempt"]) for row in rows if row["arm"] == subject.name)
    strange = [f"{row['arm']}: {row['kind']}" for row in rows if row["arm"] not in (subject.name, "canary")]
    predicted = expected_in(run, records)
    invariants = pq.read_table(run.path / "counts/invariants.parquet").to_pylist()
    broken = [
        f"invariant {invariant['invariant']} of {invariant['arm']}"
        for invariant in invariants
        if invariant["left"] != invariant["right"]
    ]
    lines = [f"not found: {case}" for case in (predicted - observed)] + [
        f"not planted: {case}" for case in (observed - predicted)
    ]
    return lines + strange + broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
