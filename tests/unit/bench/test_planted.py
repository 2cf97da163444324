"""Tests of the anomalies that bench/kit/planted.py writes into a ledger, and of how it compares them with those
found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.kit import planted
from delivery_verifier.run_directory import ledger
from delivery_verifier.run_directory.run_directory import RunDirectory

RUN = RunDirectory(Path(__file__).resolve().parents[3] / "tests/data/runs/held")


@pytest.fixture
def program() -> ModuleType:
    """The module bench/kit/planted.py."""
    return planted


def rows_of(count: int) -> pa.Table:
    rows = [
        dict.fromkeys(ledger.SCHEMA.names) | {"sequence": at, "attempt": 0, "offset": 10 * at} for at in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=ledger.SCHEMA)


def test_every_tenth_row_is_wrong_and_nothing_else(program: ModuleType) -> None:
    plain = rows_of(55)
    # the ledger is written in parts: what is planted must not depend on where a part begins
    altered = pa.concat_tables([program.planted(plain.slice(0, 17), 10), program.planted(plain.slice(17), 10)])
    assert altered.schema == ledger.SCHEMA
    wrong = {10: (1, 100), 20: (0, 201), 30: (1, 300), 40: (0, 401), 50: (1, 500)}
    for row, before in zip(altered.to_pylist(), plain.to_pylist(), strict=True):
        attempt, offset = wrong.get(before["sequence"], (0, before["offset"]))
        assert row == before | {"attempt": attempt, "offset": offset}
    assert program.expected(55, 10) == Counter(
        {(kind, at, number): 1 for at in (10, 30, 50) for kind, number in (("LOST", 1), ("PHANTOM", 0))}
        | {("MISPLACED", at, 0): 1 for at in (20, 40)}
    )


class Found(RunDirectory):
    """A stored run whose cases are those of a test."""

    def __init__(self, folder: Path, cases: list[tuple[str, int, int]], left: int) -> None:
        super().__init__(folder)
        self.scenario, self.produced = RUN.read_scenario(), RUN.manifest("produce")
        (subject,) = self.scenario.subjects
        rows: list[dict[str, Any]] = [
            {"arm": subject.name, "kind": kind, "sequence": sequence, "attempt": attempt}
            for kind, sequence, attempt in cases
        ]
        for name in ("anomalies", "counts"):
            (folder / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / "anomalies" / "cases.parquet")
        invariant = {"invariant": "ledger_complete", "arm": subject.name, "left": left, "right": 0}
        pq.write_table(pa.Table.from_pylist([invariant]), folder / "counts" / "invariants.parquet")

    def read_scenario(self) -> Any:
        return self.scenario

    def manifest(self, step: str) -> Any:
        return self.produced


def test_each_difference_is_named(program: ModuleType, tmp_path: Path) -> None:
    (subject,) = RUN.read_scenario().subjects
    records = RUN.manifest("produce").counts[f"announced/{subject.name}/0/0"]
    wanted = list(program.expected_in(RUN, records))
    assert len(wanted) > 400
    assert program.differences(Found(tmp_path / "same", wanted, 0), records) == []
    assert program.differences(Found(tmp_path / "less", wanted[1:], 0), records) == [f"not found: {wanted[0]}"]
    more = [*wanted, ("LOST", 7, 0)]
    assert program.differences(Found(tmp_path / "more", more, 0), records) == ["not planted: ('LOST', 7, 0)"]
    assert program.differences(Found(tmp_path / "invariant", wanted, 1), records) == [
        f"invariant ledger_complete of {subject.name}"
    ]
