"""Tests of the second opinion (spark_jobs.checks.second_opinion) on hand-made ledgers and logs: what DuckDB counts,
what breaks the invariant, and what bounds the memory.

tests/quality/test_every_planted_anomaly_is_found.py compares a thousand histories, and
tests/quality/test_second_opinion.py shows what a broken invariant does to a verdict.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.architecture import imported
from support.run_directories import ILLEGIBLE, OF_FOREIGN_WRITER, Row, attempt, line, scenario, write

from delivery_verifier.model.snapshot import read_offsets
from delivery_verifier.run_directory import tally
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.checks import second_opinion
from spark_jobs.checks.second_opinion import COUNTS, count, opinion, opinion_invariants

ROOT = Path(__file__).resolve().parents[3]
RECORDS = 6


def _sides(arm: str, ordinal: int) -> tuple[list[Row], list[Row]]:
    """Returns six acknowledged attempts and their records, with the one thing that the name of the arm says."""
    claims = [attempt(arm, n, offset=n) for n in range(RECORDS)]
    lines = [line(arm, ordinal, n, n) for n in range(RECORDS)]
    if arm == "lost":
        lines.pop()
    elif arm == "sent-and-lost":
        claims[5] |= {"outcome": "SENT", "offset": None}
        lines.pop()
    elif arm == "duplicated":
        lines += [line(arm, ordinal, RECORDS, 2), line(arm, ordinal, RECORDS + 1, 2)]
    elif arm == "in-another-partition":
        lines += [line(arm, ordinal, 0, n, partition=1) for n in (2, 3)]
    elif arm == "in-another-partition-alone":
        claims[2] |= {"outcome": "INDETERMINATE", "offset": None}
        for n in (2, 3):
            lines[n] |= {"partition": 1}
    elif arm == "failed-in-another-partition":
        claims[2] |= {"outcome": "FAILED", "offset": None}
        lines[2] |= {"partition": 1}
    elif arm == "indeterminate-twice":
        claims[2] |= {"outcome": "INDETERMINATE", "offset": None}
        lines.append(line(arm, ordinal, RECORDS, 2))
    elif arm == "indeterminate-and-absent":
        claims[2] |= {"outcome": "INDETERMINATE", "offset": None}
        del lines[2]
    elif arm == "failed-and-there-twice":
        claims[2] |= {"outcome": "FAILED", "offset": None}
        lines.append(line(arm, ordinal, RECORDS, 2))
    elif arm == "never-sent":
        lines += [line(arm, ordinal, RECORDS, 90), line(arm, ordinal, RECORDS + 1, 90)]
    elif arm == "another-attempt":
        lines[2] |= {"attempt": 1}
    elif arm == "of-another-run":
        lines[2] |= {"header_run": "otherrun", "foreign": True}
    elif arm == "of-another-arm":
        lines[2] |= {"header_arm": 0, "foreign": True}
    elif arm == "of-no-arm":
        lines[2] |= {"header_arm": 99, "foreign": True}
    elif arm == "marker":
        lines.append(line(arm, ordinal, RECORDS, 0, producer=9999))
    elif arm == "committed-view":
        lines += [row | {"view": "committed"} for row in lines]
    elif arm == "damaged":
        lines[2] |= {"crc_ok": False}
    elif arm == "illegible":
        lines[2] |= ILLEGIBLE
    elif arm == "foreign_writer":
        lines.append(line(arm, ordinal, RECORDS, 0) | OF_FOREIGN_WRITER)
    return claims, lines


#       damaged, reported, found, lost, extra copies, misrouted
EXPECTED = {
    "healthy": (0, 6, 6, 0, 0, 0),
    "lost": (0, 6, 5, 1, 0, 0),
    "sent-and-lost": (0, 6, 5, 1, 0, 0),
    "duplicated": (0, 6, 6, 0, 2, 0),
    "in-another-partition": (0, 6, 6, 0, 2, 2),
    "in-another-partition-alone": (0, 5, 5, 0, 0, 2),
    "failed-in-another-partition": (0, 5, 5, 0, 0, 0),
    "indeterminate-twice": (0, 5, 5, 0, 1, 0),
    "indeterminate-and-absent": (0, 5, 5, 0, 0, 0),
    "failed-and-there-twice": (0, 5, 5, 0, 0, 0),
    "never-sent": (0, 6, 6, 0, 0, 0),
    "another-attempt": (0, 6, 5, 1, 0, 0),
    "of-another-run": (0, 6, 5, 1, 0, 0),
    "of-another-arm": (0, 6, 5, 1, 0, 1),
    "of-no-arm": (0, 6, 5, 1, 0, 0),
    "marker": (0, 6, 6, 0, 0, 0),
    "committed-view": (0, 6, 6, 0, 0, 0),
    "damaged": (1, 6, 5, 1, 0, 0),
    "illegible": (1, 6, 5, 1, 0, 0),
    "foreign_writer": (1, 6, 6, 0, 0, 0),
    "canary": (0, 0, 0, 0, 0, 0),
}
"""What DuckDB must count per arm. Of arms with damaged records, only the first number is compared with the counts."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The run of all arms, in a folder whose name would mean something to DuckDB."""
    names = [name for name in EXPECTED if name != "canary"]
    sides = [_sides(name, ordinal) for ordinal, name in enumerate(names, 1)]
    claims, lines = ([row for side in sides for row in side[at]] for at in (0, 1))
    return write(tmp_path_factory.mktemp("arm=other[1]*") / "run", scenario(names), claims, lines)


def _counted(run: RunDirectory, tmp_path: Path) -> second_opinion.Opinion:
    return count(run.path, run.read_scenario(), tmp_path)


def _tally(counted: second_opinion.Opinion, **change: int) -> tuple[pa.Table, pa.Table]:
    """Returns tables of Spark that agree with DuckDB, in two rows per arm. `change` is added to columns of `lost`."""
    rows = [{"arm": arm} | {name: counts[name] - 1 for name in COUNTS} for arm, counts in counted.items()]
    rows += [{"arm": arm} | dict.fromkeys(COUNTS, 1) for arm in counted]
    lines = [{"arm": arm, "corrupted": counts["damaged"]} for arm, counts in counted.items()]
    for name, by in change.items():
        next(row for row in (*rows, *lines) if row["arm"] == "lost" and name in row)[name] += by
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(lines)


def test_duckdb_counts_what_is_there_and_what_is_not(run: RunDirectory, tmp_path: Path) -> None:
    assert {arm: tuple(counts.values()) for arm, counts in _counted(run, tmp_path).items()} == EXPECTED


def test_an_arm_with_damaged_records_has_only_the_equation_of_their_number(run: RunDirectory, tmp_path: Path) -> None:
    counted = _counted(run, tmp_path)
    equations = list(opinion_invariants(counted, *_tally(counted)))
    for arm, (damaged, *_) in EXPECTED.items():
        assert sum(invariant.arm == arm for invariant in equations) == (1 if damaged else 1 + len(COUNTS)), arm
    assert all(invariant.left == invariant.right for invariant in equations)


@pytest.mark.parametrize("name", [*COUNTS, "corrupted"])
@pytest.mark.parametrize("by", [-1, 1])
def test_one_count_of_the_tally_that_was_altered_breaks_the_invariant(
    run: RunDirectory, tmp_path: Path, name: str, by: int
) -> None:
    counted = _counted(run, tmp_path)
    (broken,) = [
        invariant
        for invariant in opinion_invariants(counted, *_tally(counted, **{name: by}))
        if invariant.left != invariant.right
    ]
    assert (broken.invariant, broken.arm, broken.partition, broken.right - broken.left) == (
        "second_opinion",
        "lost",
        -1,
        by,
    )


def test_memory_and_threads_are_bounded_and_the_temporary_folder_is_removed(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, used = duckdb.connect, dict[str, Any]()

    def spied(**options: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(**options)
        for name in ("memory_limit", "threads", "temp_directory", "autoinstall_known_extensions"):
            used[name] = connection.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]
        assert Path(used["temp_directory"]).is_dir()
        return connection

    monkeypatch.setattr(duckdb, "connect", spied)
    _counted(run, tmp_path)
    assert (used["memory_limit"], used["threads"]) == ("953.6 MiB", 2), "10^9 bytes"
    assert used["autoinstall_known_extensions"] is False, "nothing is fetched from the net"
    assert Path(used["temp_directory"]).parent == tmp_path and not list(tmp_path.iterdir())


def test_a_count_that_does_not_fit_ends_the_step_without_a_result(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(second_opinion._SETTINGS, "memory_limit", "64KB")
    with pytest.raises(duckdb.OutOfMemoryException):
        with run.writing("reconcile") as output:
            opinion(run.read_scenario(), read_offsets((run.path / "offsets.json").read_bytes()), output)
    assert not (run.path / "reconcile.json").exists() and not list(run.path.glob(".*"))


@pytest.mark.parametrize("spare", [0, -1])
def test_only_a_run_up_to_the_stated_size_has_a_second_opinion(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    offsets = read_offsets((run.path / "offsets.json").read_bytes())
    monkeypatch.setattr(tally, "SECOND_OPINION_RECORDS", offsets.records + spare)
    with pytest.raises(InterruptedError), run.writing("reconcile") as output:
        counted = opinion(run.read_scenario(), offsets, output)
        assert (counted is None) == ("second_opinion_ms" not in output.counts) == (spare < 0)
        raise InterruptedError("nothing shall be published")


def test_the_second_opinion_shares_no_code_with_the_matching() -> None:
    """Of the rooms that it uses, none reads ledger/ or log/. `spark_jobs.checks.invariant` declares tuples only."""
    files = [ROOT / "spark_jobs/checks" / name for name in ("second_opinion.py", "effects_opinion.py")]
    names = {name for file in files for _, name in imported(file, types_too=False)}
    own = {name.rsplit(".", 1)[0] for name in names if name.startswith(("spark_jobs", "delivery_verifier", "pyspark"))}
    assert own == {
        "delivery_verifier.model.anomalies",
        "delivery_verifier.model.record",
        "delivery_verifier.model.scenario",
        "delivery_verifier.model.snapshot",
        "delivery_verifier.run_directory.tally",
        "delivery_verifier.run_directory.run_directory",
        "spark_jobs.checks.effects_opinion",
        "spark_jobs.checks.invariant",
    }
