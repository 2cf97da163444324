"""Tests that each invariant becomes unbalanced exactly if the data that it watches are broken. Each kind of damage is
an arm of one Spark job."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from support.run_directories import Row, attempt, line, scenario, table, write
from support.stored_data import relink

from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.run_directory.ledger import MISCOUNTED, outcomes_key
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from spark_jobs.matching.tally import planned_keys
from spark_jobs.reconcile import reconcile

RECORDS = 6
BROKEN: dict[str, set[str]] = {
    "healthy": set(),
    "ledger-row-dropped": {"ledger_complete", "outcomes_agree"},
    "ledger-row-twice": {"ledger_complete", "outcomes_sum", "reported_sum", "outcomes_agree", "second_opinion"},
    "log-row-dropped": {"offsets_accounted", "view_rows"},
    "log-row-invented": {"offsets_accounted", "view_rows"},
    "partition-cut": {"partitions_complete"},
    "partition-with-lines-cut": {"partitions_complete", "log_sum"},
    "announced-more": {"ledger_complete"},
    "counted-less-at-exit": {"ledger_complete"},
    "killed": set(),
    "acked-sealed-as-indeterminate": {"outcomes_agree"},
    "acked-sealed-as-never-reported": {"outcomes_agree"},
    "acked-sealed-as-sent": {"outcomes_agree"},
    "lost-sealed-as-failed": {"outcomes_agree"},
    "open-sealed-as-acked": {"outcomes_agree"},
    "open-at-the-end": set(),
    "outcomes-uncounted": {"outcomes_agree"},
    "killed-and-miscounted": {"outcomes_agree"},
    "recount-unknown": {"outcomes_agree"},
    "started-late": {"start_zero", "offsets_accounted"},
    "log-moved": {"log_moved"},
    "read-less": {"view_rows"},
    "unplanned-producer": {"partitions_complete", "ledger_complete", "outcomes_agree"},
    "marker-inside": set(),
    "transactions": set(),
    "transactions-and-a-control-record": set(),
    "transactions-control-record-uncounted": {"offsets_accounted", "view_rows"},
    "transactions-some-aborted": set(),
    "transactions-committed-row-dropped": {"view_rows"},
    "transactions-committed-view-cut": {"view_rows"},
    "transactions-committed-row-another": {"views_agree"},
    "transactions-committed-row-nowhere-else": {"views_agree"},
    "transactions-row-outside": {"ledger_complete"},
    "transactions-one-uncounted": {"ledger_complete"},
    "transactions-in-two-minds": {"ledger_complete"},
    "named-a-transaction": {"ledger_complete"},
}
"""For each kind of damage, the invariants that it must unbalance. All other invariants, and all other arms, must stay
balanced."""
NEVER_BY_DATA = {"anomaly_rows"}
"""The invariants that no damage of the data unbalances, but only an error of the job. test_tally_and_cases.py tests
these invariants."""


NONE_COUNTED = (Outcome.SENT, Outcome.FAILED, Outcome.INDETERMINATE, MISCOUNTED)
OPEN = {"outcome": "INDETERMINATE", "offset": None, "settled_at": None, "made_by": "recovery"}
SEALED_AS: dict[str, Row] = {
    "acked-sealed-as-indeterminate": {"outcome": "INDETERMINATE", "offset": None, "error": "_MSG_TIMED_OUT"},
    "acked-sealed-as-never-reported": OPEN,
    "acked-sealed-as-sent": {"outcome": "SENT", "offset": None},
    "lost-sealed-as-failed": {"outcome": "FAILED", "offset": None},
    "open-at-the-end": OPEN,
}
"""What the ledger says of the last record of an arm. Its producer counted one ACKED report more or, if it was open at
the end, none."""
TRANSACTIONAL = {arm for arm in BROKEN if arm.startswith("transactions")}


def _rows(arm: str, ordinal: int) -> tuple[list[Row], list[Row]]:
    claims = [attempt(arm, n, offset=n) for n in range(RECORDS)]
    lines = [line(arm, ordinal, n, n) for n in range(RECORDS)]
    if arm in TRANSACTIONAL:
        claims = [row | {"transaction": "0", "transaction_outcome": "COMMITTED"} for row in claims]
        lines += [row | {"view": "committed"} for row in lines]
    return claims, lines


def _break(arm: str, ordinal: int, claims: list[Row], lines: list[Row]) -> None:
    """Damages the ledger rows and log rows of an arm, as the name of the arm says. `directory` and `_snapshot` damage
    counts and offsets."""
    if arm == "ledger-row-dropped":
        claims.pop()
    elif arm == "ledger-row-twice":
        claims.append(claims[0])
    elif arm == "log-row-dropped":
        lines.pop()
    elif arm == "log-row-invented":
        lines.append(lines[-1])
    elif arm in SEALED_AS:
        claims[-1] = claims[-1] | SEALED_AS[arm]
        if arm == "lost-sealed-as-failed":
            lines.pop()
    elif arm == "unplanned-producer":
        claims.append(attempt(arm, 0, producer=5, offset=RECORDS))
        lines.append(line(arm, ordinal, RECORDS, 0, producer=5))
    elif arm == "marker-inside":
        lines.append(line(arm, ordinal, RECORDS, 0, producer=9999))
    elif arm in ("transactions-some-aborted", "transactions-committed-row-dropped", "transactions-committed-view-cut"):
        lines.pop()
    elif arm == "transactions-committed-row-another":
        lines[-1] = lines[-1] | {"sequence": 0}
    elif arm == "transactions-committed-row-nowhere-else":
        lines[-1] = lines[-1] | {"offset": RECORDS + 7}
    elif arm == "transactions-row-outside":
        claims[-1] = claims[-1] | {"transaction": None, "transaction_outcome": None}
    elif arm == "transactions-in-two-minds":
        claims[-1] = claims[-1] | {"transaction_outcome": "ABORTED"}
    elif arm == "named-a-transaction":
        claims[-1] = claims[-1] | {"transaction": "0", "transaction_outcome": "COMMITTED"}


def _snapshot(parts: list[PartitionSnapshot]) -> list[PartitionSnapshot]:
    ends = {"log-row-dropped": RECORDS, "log-row-invented": RECORDS}
    ends |= dict.fromkeys(("transactions-and-a-control-record", "transactions-control-record-uncounted"), RECORDS + 1)
    kept = [
        msgspec.structs.replace(
            part,
            start=1 if part.arm == "started-late" and not part.partition else part.start,
            end=ends.get(part.arm, part.end) if not part.partition else part.end,
            aborted_records=0 if part.arm == "transactions-committed-view-cut" else part.aborted_records,
            control_records=int(part.arm == "transactions-and-a-control-record" and not part.partition),
        )
        for part in parts
        if (part.arm, part.partition) not in {("partition-cut", 1), ("partition-with-lines-cut", 0)}
    ]
    return kept


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    made = scenario(list(BROKEN), transactional=TRANSACTIONAL)
    claims, lines = [], []
    for arm in made.subjects:
        its_claims, its_lines = _rows(arm.name, arm.ordinal)
        _break(arm.name, arm.ordinal, its_claims, its_lines)
        claims += its_claims
        lines += its_lines
    whole = {f"{what}/{arm}/0/0": RECORDS for arm in BROKEN for what in ("announced", "attempted")}
    whole |= {outcomes_key(Outcome.ACKED, f"{arm}/0/0"): RECORDS for arm in BROKEN}
    whole |= {outcomes_key(outcome, f"{arm}/0/0"): 0 for arm in BROKEN for outcome in NONE_COUNTED}
    broken = {
        outcomes_key(Outcome.ACKED, "open-at-the-end/0/0"): RECORDS - 1,
        outcomes_key(Outcome.ACKED, "open-sealed-as-acked/0/0"): RECORDS - 1,
        outcomes_key(Outcome.ACKED, "outcomes-uncounted/0/0"): -1,
        outcomes_key(MISCOUNTED, "killed-and-miscounted/0/0"): 2,
        outcomes_key(MISCOUNTED, "recount-unknown/0/0"): -1,
        "announced/announced-more/0/0": RECORDS + 1,
        "attempted/counted-less-at-exit/0/0": RECORDS - 1,
        "attempted/killed/0/0": -1,
        "transactions_begun/transactions-one-uncounted/0/0": 2,
        "transactions_begun/transactions-in-two-minds/0/0": 1,
        "transactions_committed/transactions-in-two-minds/0/0": 1,
        "transactions_aborted/transactions-in-two-minds/0/0": 0,
    }
    read = {
        "read/log-row-dropped": RECORDS,
        "read/log-row-invented": RECORDS,
        "read/read-less": RECORDS - 1,
        "tail/log-moved/0": 1,
        "read_committed/transactions-committed-row-dropped": RECORDS,
    }
    path = tmp_path_factory.mktemp("invariants")
    return write(path, made, claims, lines, announced=whole | broken, counts=read, snapshot=_snapshot)


@pytest.fixture(scope="module")
def invariants(directory: RunDirectory, spark: SparkSession) -> list[Row]:
    reconcile(directory.path, True, spark)
    return table(directory, "counts/invariants.parquet")


def test_each_breakage_unbalances_its_own_invariants_and_no_other(invariants: list[Row]) -> None:
    unbalanced: dict[str, set[str]] = defaultdict(set)
    for row in invariants:
        if row["left"] != row["right"]:
            unbalanced[row["arm"]].add(row["invariant"])
    assert {arm: unbalanced[arm] for arm in BROKEN} == BROKEN
    assert not unbalanced["canary"]


def test_every_invariant_is_shown_to_fail_somewhere(invariants: list[Row]) -> None:
    assert {row["invariant"] for row in invariants} == {
        invariant for broken in BROKEN.values() for invariant in broken
    } | NEVER_BY_DATA


def test_every_planned_row_is_in_the_tally_even_of_an_idle_arm(directory: RunDirectory, invariants: list[Row]) -> None:
    found = {
        (row["arm"], row["producer"], row["session"], row["partition"]): row
        for row in table(directory, "counts/producers.parquet")
    }
    assert set(planned_keys(directory.read_scenario())) <= set(found)
    assert all(value is not None for row in found.values() for value in row.values())
    assert {row["attempted"] for place, row in found.items() if place[0] == "canary"} == {0}


def test_a_run_that_lacks_what_its_producers_counted_has_broken_the_invariant(
    tmp_path: Path, spark: SparkSession
) -> None:
    run = write(tmp_path, scenario(["one"]), [attempt("one", 0, offset=0)], [line("one", 1, 0, 0)])
    for step in ("produce", "settle"):
        file = tmp_path / f"{step}.json"
        manifest = json.loads(file.read_bytes())
        manifest["counts"] = {name: n for name, n in manifest["counts"].items() if not name.startswith("outcomes_")}
        file.write_text(json.dumps(manifest))
    relink(run)
    reconcile(run.path, True, spark)
    rows = [row for row in table(run, "counts/invariants.parquet") if row["invariant"] == "outcomes_agree"]
    assert {(row["arm"], row["right"]) for row in rows if row["right"]} == {("one", -1), ("canary", -1)}
    assert all(row["left"] != row["right"] for row in rows)


def test_a_marker_among_the_data_is_no_phantom(directory: RunDirectory, invariants: list[Row]) -> None:
    parts = {(row["arm"], row["partition"]): row for row in table(directory, "counts/partitions.parquet")}
    assert (parts["marker-inside", 0]["data_records"], parts["marker-inside", 0]["control_records"]) == (
        RECORDS,
        1,
    )
    assert not [row for row in table(directory, "anomalies") if row["arm"] == "marker-inside"]


def test_a_log_that_was_altered_after_the_read_is_refused(directory: RunDirectory, spark: SparkSession) -> None:
    file = next((directory.path / "log").glob("*.parquet"))
    before = file.read_bytes()
    file.write_bytes(before + b"x")
    try:
        with pytest.raises(IncompleteRun, match="SHA-256"):
            reconcile(directory.path, True, spark)
    finally:
        file.write_bytes(before)


def test_from_log_needs_a_log(tmp_path: Path, spark: SparkSession) -> None:
    run = write(tmp_path, scenario(["one"]), [], [])
    (tmp_path / "read_topic.json").unlink()
    with pytest.raises(IncompleteRun, match="read_topic"):
        reconcile(run.path, True, spark)


def test_a_scenario_that_asks_for_it_fails_at_the_entry(tmp_path: Path, spark: SparkSession) -> None:
    asked: Any = msgspec.structs.replace(scenario(["one"]), fail_step="reconcile")
    write(tmp_path, asked, [], [])
    with pytest.raises(RuntimeError, match="fail_step"):
        reconcile(tmp_path, True, spark)
