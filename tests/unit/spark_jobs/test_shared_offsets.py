"""Tests of the count of shared offsets: of random ledgers, it is that of a plain count of acknowledgements."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.run_directories import attempt, line, scenario, write

from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.store import ledger
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.shared_offsets import MOST, MOST_ACKS, SHARED, read_shared_offsets
from delivery_verifier.store.tables import SHARED_OFFSETS
from spark_jobs.checks import shared_offsets
from spark_jobs.reading.write_log import read_offsets_of

Row = dict[str, Any]
ARMS = ("one", "two")


def a_run(folder: Path, attempts: list[Row]) -> RunDirectory:
    """Returns a run up to read_topic: the log of each arm has the offsets 0 to 9 of partition 0."""
    lines = [line(arm, number, offset, offset) for number, arm in enumerate(ARMS, 1) for offset in range(10)]
    return write(folder, scenario(list(ARMS)), attempts, lines)


def counted(run: RunDirectory) -> dict[str, int]:
    """Writes the shared offsets as the step reconcile does. Returns the number of each arm."""
    with run.writing("reconcile") as output:
        shared_offsets.write(run.read_scenario(), read_offsets_of(run), output)
    counts = run.manifest("reconcile").counts
    return {name.removeprefix(SHARED): count for name, count in counts.items() if name.startswith(SHARED)}


def test_an_offset_that_two_attempts_were_told_is_counted_and_listed_with_both(tmp_path: Path) -> None:
    attempts = [attempt("one", at, offset=at) for at in range(10)]
    assert counted(a_run(tmp_path / "sound", attempts))["one"] == 0
    again = attempt("one", 10, offset=3)
    run = a_run(tmp_path / "shared", [*attempts, again, attempt("two", 0, offset=3)])
    assert counted(run) == {"one": 1, "two": 0, "canary": 0}
    found = read_shared_offsets(run, [*ARMS, "canary"])["one"]
    assert (found.total, [*found.listed]) == (1, [(0, 3)])
    assert [(row["sequence"], row["sent_at"], row["settled_at"]) for row in found.listed[0, 3]] == [
        (row["sequence"], row["sent_at"], row["settled_at"]) for row in (attempts[3], again)
    ]


@pytest.mark.parametrize(
    "exempt",
    [
        {"offset": None},
        {"offset": 3, "partition": 1},
        {"offset": 3, "outcome": "INDETERMINATE"},
    ],
)
def test_what_is_no_acknowledgement_of_this_offset_and_partition_is_exempt(tmp_path: Path, exempt: Row) -> None:
    attempts = [attempt("one", at, offset=at) for at in range(10)]
    assert counted(a_run(tmp_path, [*attempts, attempt("one", 10, **exempt)]))["one"] == 0


@pytest.mark.parametrize("bits", [shared_offsets.MOST_BITS, 0])
@pytest.mark.parametrize("seed", range(20))
def test_random_ledgers_have_as_many_shared_offsets_as_a_plain_count_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, bits: int
) -> None:
    monkeypatch.setattr(shared_offsets, "MOST_BITS", bits)
    rng = random.Random(seed)
    starts = {("one", 0): (rng.choice((0, 1 << 40)), 40), ("one", 1): (0, 0), ("two", 0): (7, 3)}
    rows, told = [], defaultdict[tuple[str, int, int], list[int]](list)
    for number in range(rng.randrange(1, 120)):
        arm, partition = rng.choice([*starts, ("two", 1)])  # no snapshot names the last one
        start, width = starts.get((arm, partition), (0, 0))
        offset = start + rng.randrange(-2, width + 4) if rng.random() < 0.9 else None
        outcome = rng.choice(("ACKED", "ACKED", "ACKED", "INDETERMINATE"))
        rows.append(attempt(arm, number, outcome, partition=partition, offset=offset))
        if outcome == "ACKED" and offset is not None:
            told[arm, partition, offset].append(number)
    (tmp_path / "ledger").mkdir()
    for arm in ARMS:
        table = pa.Table.from_pylist([row for row in rows if row["arm"] == arm], schema=ledger.SCHEMA)
        pq.write_table(table, tmp_path / "ledger" / f"it's {arm}.parquet")
    offsets = Offsets(
        bootstrap_servers="",
        taken_at_us=1,
        partitions=[
            PartitionSnapshot(
                arm=arm, topic="t", partition=at, start=start, end=start + width, live_end=start + width, leader=1,
                leader_epoch=0,
            )
            for (arm, at), (start, width) in starts.items()
        ],
    )  # fmt: skip
    run = a_run(tmp_path / "run", [])
    with run.writing("reconcile") as output:
        counts, listed = shared_offsets.find(f"{tmp_path}/ledger/*.parquet", offsets, output)
    expected = {place: numbers for place, numbers in told.items() if len(numbers) > 1}
    assert counts == {arm: n for arm in ARMS if (n := sum(place[0] == arm for place in expected))}
    found = defaultdict[tuple[str, int, int], list[int]](list)
    for row in listed.to_pylist():
        found[row["arm"], row["partition"], row["offset"]].append(row["sequence"])
    assert found == expected


def test_at_most_a_stated_number_of_shared_offsets_is_listed_and_all_are_counted(tmp_path: Path) -> None:
    count = MOST + 7
    run = a_run(tmp_path / "few", [attempt("one", at, offset=20 + at % count) for at in range(2 * count)])
    assert counted(run)["one"] == count
    many = a_run(tmp_path / "many", [attempt("one", at, offset=3) for at in range(MOST_ACKS + 9)])
    assert counted(many)["one"] == 1
    (acks,) = read_shared_offsets(many, ["one"])["one"].listed.values()
    assert [ack["sequence"] for ack in acks] == [*range(MOST_ACKS)]
    assert len(read_shared_offsets(run, ["one"])["one"].listed) == MOST


def test_a_run_whose_list_or_count_is_missing_is_refused_and_an_older_run_has_neither(tmp_path: Path) -> None:
    run = a_run(tmp_path, [attempt("one", at, offset=at // 2) for at in range(4)])
    with run.writing("reconcile"):
        pass
    assert read_shared_offsets(run, ARMS) == {}
    counted(run)
    assert read_shared_offsets(run, ARMS)["one"].total == 2
    with pytest.raises(IncompleteRun, match="does not say how many shared offsets three has"):
        read_shared_offsets(run, [*ARMS, "three"])
    file = run.path / SHARED_OFFSETS.file
    pq.write_table(pq.read_table(file).slice(2), file)
    with pytest.raises(IncompleteRun, match="lists 1 of 2 shared offsets of one; it must list 2"):
        read_shared_offsets(run, ARMS)
    file.unlink()
    with pytest.raises(IncompleteRun, match="is missing, though"):
        read_shared_offsets(run, ARMS)
