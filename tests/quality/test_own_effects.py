"""Reconciles runs whose subject has a user application: what its lines say, and what lines cut short and a marker that
nobody applied become."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from support.run_directories import START_US, attempt, canary_lines, line, scenario, table, write

from delivery_verifier import canary
from delivery_verifier.applications.incarnations import IncarnationEnd, write_end
from delivery_verifier.applications.own.sink import OwnEffects
from delivery_verifier.applications.sink import SinkInputs
from delivery_verifier.model import record
from delivery_verifier.model.application import Application
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from delivery_verifier.settlement.applications import seal_incarnation
from delivery_verifier.settlement.canary_effects import apply_canary
from spark_jobs import reconcile as job

RECORDS, SIZE, ROUNDS = 40, 100, 2
START = START_US - 1000
"""When the first incarnation ended, in µs since the epoch: before the snapshot of the run directory was taken."""


def own_scenario() -> Scenario:
    plain = scenario(["a"], partitions=2)
    own = Application(name="sink", summary="", discipline="own", consumer={})
    arms = tuple(replace(arm, application=own) if arm.role == "subject" else arm for arm in plain.arms)
    return replace(plain, arms=arms)


def value(made: Scenario, sequence: int, attempt_number: int = 0, producer: int = 0) -> bytes:
    return record.encode(made.run_token, 1, producer, 0, sequence, attempt_number, sequence, SIZE)


def lines_of(made: Scenario, sequences: list[int], markers: tuple[int, ...] = ()) -> bytes:
    """Returns the lines of an application. `markers` are the partitions whose last marker is applied, beside the
    earlier ones of both."""
    values = [value(made, sequence) for sequence in sequences]
    if markers:
        values += [value(made, 0, partition, record.MARKER_PRODUCER) for partition in range(2)]
    values += [value(made, ROUNDS - 1, partition, record.MARKER_PRODUCER) for partition in markers]
    return b"".join(b'{"value":"%s"}\n' % each for each in values)


def reconciled(path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *incarnations: bytes) -> RunDirectory:
    """Returns a run that was reconciled. `incarnations` are the texts that the incarnations of the member have printed.

    Record 7 stands in the log twice. Record 39 is not in the log.
    """
    monkeypatch.setenv("KDV_APPLICATIONS", str(path.parent))
    (path.parent / "sink.toml").write_text('command = "true"')
    made = own_scenario()
    layout = canary.lay_out(made)
    rows, offsets = canary_lines(made, layout)
    attempts = [attempt("a", number, offset=number, partition=0) for number in range(RECORDS - 1)]
    attempts += [attempt("a", RECORDS - 1, "INDETERMINATE", partition=0)]
    attempts += [
        attempt("canary", 0) | {name: row[name] for name in row if name not in ("sent_at", "settled_at")}
        for row in canary.ledger_table(made, layout, offsets).to_pylist()
    ]
    rows += [line("a", 1, number, number) for number in range(RECORDS - 1)] + [line("a", 1, RECORDS - 1, 7)]

    def effects(snapshot: Offsets, output: StepOutput) -> None:
        apply_canary(made, layout, offsets, snapshot, path.parent / "canary", {}, output)
        folder = path.parent / "sink" / "0"
        for number, text in enumerate(incarnations):
            (folder / str(number)).mkdir(parents=True)
            (folder / str(number) / "stdout").write_bytes(text)
            end = IncarnationEnd(applied=0, exit_code=0, killed=not number, ended_us=START + number)
            write_end(folder / str(number), end)
        inputs = SinkInputs(made.arm("a"), folder.parent, 10, made.run_token, {}, payload_bytes=SIZE)
        for incarnation in OwnEffects().read(inputs):
            seal_incarnation(incarnation, "a", output)
        output.counts |= {"incarnations/a": len(incarnations), "killed/a": 1, "kill_orders/a": 1}

    run = write(path, made, attempts, rows, effects=effects)
    job.reconcile(path, True, spark)
    return run


def totals(run: RunDirectory) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name in ("counts/producers.parquet", "counts/effects.parquet"):
        for row in table(run, name):
            if row["arm"] == "a":
                counts.update({key: row[key] for key in row if isinstance(row[key], int) and key != "partition"})
    return counts


def broken(run: RunDirectory) -> set[str]:
    return {row["invariant"] for row in table(run, "counts/invariants.parquet") if row["left"] != row["right"]}


def subset_of(counts: Counter[str], *names: str) -> dict[str, int]:
    return {name: counts[name] for name in names}


def test_lines_of_two_incarnations_become_effects_and_the_canary_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = own_scenario()
    first = lines_of(made, [*range(20), 7])
    second = lines_of(made, [*range(16, 30), *range(31, 40)], markers=(0, 1))
    run = reconciled(tmp_path / "run", spark, monkeypatch, first, second)
    assert broken(run) == set()
    counts = totals(run)
    names = ("skipped", "reapplied", "ghost", "overtaken", "carried", "drained", "unparsed", "markers", "pending")
    assert subset_of(counts, *names) == {
        "skipped": 1,  # 30
        "reapplied": 4,  # 16 to 19
        "ghost": 1,  # 39
        "overtaken": 0,
        "carried": 1,  # 7, which stands in the log twice
        "drained": 2,
        "unparsed": 0,
        "markers": 4,
        "pending": 0,
    }
    cases: Any = {row["sequence"]: row for row in table(run, "anomalies/effects.parquet") if row["arm"] == "a"}
    assert cases[16]["detail"] == (
        "in the log at 0:16; applied by member 0 in incarnation 0, by member 0 in incarnation 1"
    )
    assert sorted(cases) == [16, 17, 18, 19, 30, 39]
    expected = canary.expected_counts(made)
    planted = Counter[str]()
    for row in table(run, "counts/producers.parquet"):
        planted.update(
            {name: count for name, count in row.items() if row["arm"] == "canary" and isinstance(count, int)}
        )
    for name in ("skipped", "reapplied", "ghost", "overtaken", "also_overtaken"):
        assert planted[name] == expected[name] > 0


def test_lines_cut_short_and_a_marker_nobody_applied_skip_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = own_scenario()
    cut = b"".join(text[:60] + b"\n" for text in lines_of(made, list(range(20))).splitlines())
    run = reconciled(tmp_path / "run", spark, monkeypatch, cut, lines_of(made, list(range(20, 39)), markers=(1,)))
    counts = totals(run)
    assert broken(run) == set()
    names = ("skipped", "pending", "unparsed", "drained", "markers")
    assert subset_of(counts, *names) == {"skipped": 0, "pending": 20, "unparsed": 20, "drained": 1, "markers": 3}
    assert counts["in_time"] == 19, "neither a line cut short nor a marker is work that was done in time"
