"""Tests of the counts (tables of counts): they are read under the names that the reconciliation uses, and a missing
table is never read as an empty table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.evidence import RUN, evidence_of, the_rows

from delivery_verifier.canary import expected_counts
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.run_directory.tally import TABLES, Tally, total_column, with_totals


def test_a_total_is_the_cases_of_a_kind_and_those_hidden_under_a_higher_one() -> None:
    rows = pa.table({"reordered": [1, 2], "also_reordered": [3, None], "lost": [4, 5]})
    totals = with_totals(rows)
    assert totals[total_column(Anomaly.REORDERED)].to_pylist() == [4, None]
    assert totals[total_column(Anomaly.LOST)].to_pylist() == [4, 5]
    assert total_column(Anomaly.RESENT) not in totals.column_names


def test_late_attempts_are_in_the_total_of_reorderings_only_where_they_convict_and_never_pass_for_zero() -> None:
    rows = pa.table({"reordered": [1, 2], "also_reordered": [3, 0], "resolved_late": [5, None], "lost": [0, 0]})
    assert with_totals(rows, late_convicts=True)[total_column(Anomaly.REORDERED)].to_pylist() == [9, None]
    assert with_totals(rows)[total_column(Anomaly.REORDERED)].to_pylist() == [4, 2]
    without = with_totals(rows.drop_columns(["resolved_late"]), late_convicts=True)
    assert total_column(Anomaly.REORDERED) not in without.column_names


def test_a_folder_without_tally_is_read_as_problems_and_not_as_zeros(tmp_path: Path) -> None:
    tally = Tally.read(tmp_path, applied=True)
    assert len(tally.problems) == len(TABLES)
    assert len(Tally.read(tmp_path).problems) == len(TABLES) - 1, "no application, no counts of effects"
    assert {name for name, _ in tally.problems} == {"table_missing"}


def test_a_file_that_is_no_parquet_raises(tmp_path: Path) -> None:
    (tmp_path / "counts").mkdir()
    (tmp_path / "counts" / "invariants.parquet").write_bytes(b"half")
    with pytest.raises(pa.ArrowInvalid):
        Tally.read(tmp_path)


def test_healthy_tally_have_no_problem_and_exact_totals() -> None:
    tally = evidence_of(RUN).tally
    assert tally.problems == []
    assert tally.totals("canary") == expected_counts(RUN)
    assert tally.totals("idempotent")["acked"] == sum(
        row["acked"] for row in the_rows(RUN)["counts/producers.parquet"] if row["arm"] == "idempotent"
    )


@pytest.mark.parametrize("wrong", ["", b"", [], float("nan")], ids=["text", "bytes", "list", "nan"])
def test_what_is_no_number_does_not_pass_for_zero(wrong: object) -> None:
    tables = dict(evidence_of(RUN).tally.tables)
    rows = [row | {"lost": wrong} for row in tables["counts/producers.parquet"].to_pylist()]
    tally = Tally.from_tables(tables | {"counts/producers.parquet": pa.Table.from_pylist(rows)})
    with pytest.raises((TypeError, ValueError)):
        tally.totals("idempotent")
