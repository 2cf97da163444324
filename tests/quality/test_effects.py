"""Compares one Spark job over many random histories of effects with the oracle. Each history is an arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from support.applications import applied
from support.effect_histories import END, PARTITIONS, calm_history, effect, judge, marker, random_history
from support.run_directories import Row, attempt, line, scenario
from support.seeds import histories as number_of_histories
from support.seeds import in_this_round

from delivery_verifier.model.anomalies import EFFECTS as KINDS
from delivery_verifier.model.anomalies import Anomaly, also_column, column
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.model.unreadable import Unreadable
from spark_jobs.checks import effects_opinion
from spark_jobs.effects import effect_attempts, effect_tally
from spark_jobs.matching import buckets, screen
from spark_jobs.schemas import EFFECTS, LEDGER, LOG, arrow

RANDOM, SEED = number_of_histories(), in_this_round(20_261_122)
CALM = RANDOM * 2 // 5
SCREENED = 400
"""With how many histories, at most, the screen is compared; two sevenths of them are calm."""
History = tuple[list[Row], list[Row], list[Row]]


def of_arms(names: Sequence[str]) -> Scenario:
    return applied(scenario(names, partitions=PARTITIONS, producers=2))


def snapshot(arm: str, partition: int) -> PartitionSnapshot:
    bounds = {"start": 0, "end": END, "live_end": END + 2, "leader": 1, "leader_epoch": 0}
    return PartitionSnapshot(arm=arm, topic="t", partition=partition, **bounds)


def ends(arms: Iterable[str], others: tuple[PartitionSnapshot, ...] = ()) -> Offsets:
    """Returns the snapshot of all partitions of the arms. `others` are partitions whose snapshots differ."""
    covered = {(part.arm, part.partition) for part in others}
    parts = [snapshot(arm, at) for arm in arms for at in range(PARTITIONS) if (arm, at) not in covered]
    return Offsets(bootstrap_servers="", taken_at_us=0, partitions=[*parts, *others])


def compared(
    spark: SparkSession,
    folder: Any,
    histories: dict[str, History],
    others: tuple[PartitionSnapshot, ...] = (),
    positions: dict[tuple[str, int], int] | None = None,
    bits: int | None = None,
) -> effect_tally.Effects:
    """Returns what Spark finds in the histories of arms. `others` are partitions whose snapshots differ. `positions`
    are the offsets that groups have committed last. `bits` is the width of the screen's chunks; None: no screen."""
    frames = []
    for number, (name, schema) in enumerate((("ledger", LEDGER), ("log", LOG), ("effects", EFFECTS))):
        rows = [row for history in histories.values() for row in history[number]]
        (folder / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow(schema)), folder / name / "all.parquet")
        frames.append(spark.read.schema(schema).parquet(str(folder / name)).coalesce(1))
    ledger, log, rows = frames
    offsets = ends(histories, others)
    output: Any = None  # `compare` writes nothing
    counted = None if bits is None else buckets.count(ledger, log, bits)
    assert bits is None or counted is not None
    proven = screen.prove(counted, set()) if counted else None
    scenario_of_all = of_arms(list(histories))
    inputs = effect_tally.EffectInputs(log, ledger, scenario_of_all, offsets, output, 100, True, positions, proven)
    return effect_tally.compare(inputs, rows)


@pytest.fixture(scope="module")
def histories() -> dict[str, History]:
    drawn = {f"h{at}": random_history(f"h{at}", at, SEED + at) for at in range(1, RANDOM + 1)}
    drawn |= {f"c{at}": calm_history(f"c{at}", RANDOM + at, SEED + at) for at in range(1, CALM + 1)}
    for row in drawn["h1"][2]:
        row["member"] = -1  # nobody saw which of several members applied it
    return drawn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ledger/, log/ and effects/ of the histories, after `found`."""
    return tmp_path_factory.mktemp("effects")


@pytest.fixture(scope="module")
def found(histories: dict[str, History], spark: SparkSession, folder: Path) -> effect_tally.Effects:
    return compared(spark, folder, histories)


@pytest.mark.parametrize("bits", [0, 2])
def test_the_screen_changes_nothing_but_the_number_of_matched_effects(
    bits: int, histories: dict[str, History], found: effect_tally.Effects, spark: SparkSession, tmp_path: Path
) -> None:
    calm = min(CALM, SCREENED * 2 // 7)
    arms = [f"h{at}" for at in range(1, min(RANDOM, SCREENED - calm) + 1)] + [f"c{at}" for at in range(1, calm + 1)]
    screened = compared(spark, tmp_path, {arm: histories[arm] for arm in arms}, bits=bits)
    others = histories.keys() - {*arms}
    assert screened.tally.equals(without(found.tally, others))
    assert screened.anomalies == {key: count for key, count in found.anomalies.items() if key[0][0] not in others}
    by_attempt = [("arm", "ascending"), ("producer", "ascending"), ("sequence", "ascending"), ("attempt", "ascending")]
    assert screened.cases.sort_by(by_attempt).equals(without(found.cases, others).sort_by(by_attempt))
    assert found.proven == 0 and screened.proven > calm, "calm histories must have applied chunks"


def without(table: pa.Table, arms: Iterable[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["arm"], pa.array(arms, pa.string()))))


def test_every_kind_of_effects_has_a_detector() -> None:
    assert tuple(effect_attempts.DETECTORS) == KINDS


def test_random_histories_have_exactly_the_cases_of_the_oracle(
    histories: dict[str, History], found: effect_tally.Effects
) -> None:
    written: dict[str, Counter[Any]] = {arm: Counter() for arm in histories}
    for row in found.cases.to_pylist():
        case = row["kind"], "OVERTAKEN" in row["also"], row["producer"], row["sequence"], row["attempt"]
        written[row["arm"]][case] += 1
    expected = {arm: judge(lines, landed)[0] for arm, (_, lines, landed) in histories.items()}
    assert written == expected
    kinds = Counter(kind for cases in expected.values() for kind, *_ in cases)
    assert min(kinds[kind] for kind in KINDS) > RANDOM * 3 // 10, f"the dice must throw every kind: {kinds}"
    assert sum(hidden for cases in expected.values() for _, hidden, *_ in cases) > RANDOM // 10


def test_a_case_names_a_member_only_if_somebody_saw_which(found: effect_tally.Effects) -> None:
    details = dict.fromkeys(("h1", "h2"), "")
    for row in found.cases.to_pylist():
        if row["arm"] in details:
            details[row["arm"]] += row["detail"] + "\n"
    assert "by a member in incarnation" in details["h1"] and "by member" not in details["h1"]
    assert "by member 0 in incarnation" in details["h2"] and "by a member" not in details["h2"]


def test_duckdb_counts_as_many_cases_as_the_oracle(
    histories: dict[str, History], found: effect_tally.Effects, folder: Path
) -> None:
    given = effects_opinion.parameters(folder, of_arms(list(histories)), ends(histories))
    counted = {arm: tuple(counts) for arm, *counts in duckdb.execute(effects_opinion.QUERY, given).fetchall()}
    expected = {}
    for arm, (_, lines, landed) in histories.items():
        cases = judge(lines, landed)[0]
        totals = Counter(Anomaly(kind) for kind, *_ in cases.elements())
        totals[Anomaly.OVERTAKEN] += sum(hidden for _, hidden, *_ in cases.elements())
        expected[arm] = tuple(totals[kind] for kind in effects_opinion.COLUMNS)
    assert counted == expected | {"canary": (0, 0, 0, 0)}


def test_their_tally_are_those_of_the_oracle(histories: dict[str, History], found: effect_tally.Effects) -> None:
    sums: dict[str, Counter[str]] = {arm: Counter() for arm in histories}
    for row in found.tally.to_pylist():
        if row["arm"] in sums:
            sums[row["arm"]].update({name: row[name] for name in effect_tally.COUNTS})
    assert {arm: +tally for arm, tally in sums.items()} == {
        arm: judge(lines, landed)[1] for arm, (_, lines, landed) in histories.items()
    }


def test_the_tally_of_the_log_get_as_many_cases_as_were_found(
    histories: dict[str, History], found: effect_tally.Effects
) -> None:
    booked = Counter[tuple[str, str]]()
    for ((arm, producer, _, _), name), count in found.anomalies.items():
        assert producer in (-1, 0, 1), "what no planned producer sent belongs to nobody"
        booked[arm, name] += count
    expected = Counter[tuple[str, str]]()
    for arm, (_, lines, landed) in histories.items():
        for (kind, hidden, *_), count in judge(lines, landed)[0].items():
            expected[arm, column(Anomaly(kind))] += count
            expected[arm, also_column(Anomaly.OVERTAKEN)] += count * hidden
    assert booked == +expected


@pytest.mark.parametrize(("offset", "drained"), [(0, 1), (None, 0)])
def test_a_marker_at_offset_0_drains_a_partition_without_records(
    offset: int | None, drained: int, spark: SparkSession, tmp_path: Any
) -> None:
    effect_of_marker = [] if offset is None else [effect("a", marker("a", 1, 0, offset), 1)]
    record = line("a", 1, 0, 0, partition=1)
    history = [attempt("a", 0, partition=1)], [record], [effect("a", record, 0), *effect_of_marker]
    empty = replace(snapshot("a", 0), end=0)
    tally = compared(spark, tmp_path, {"a": history}, (empty,)).tally.to_pylist()
    assert [row["drained"] for row in tally if (row["arm"], row["partition"]) == ("a", 0)] == [drained]


def test_nothing_is_skipped_before_the_group_has_committed_the_whole_partition(
    spark: SparkSession, tmp_path: Any
) -> None:
    committed = {"behind": END - 1, "whole": END}
    histories = {
        arm: ([attempt(arm, 0)], [line(arm, 0, 0, 0)], [effect(arm, marker(arm, 0, 0), 1)]) for arm in committed
    }
    positions = {(arm, 0): position for arm, position in committed.items()}
    found = compared(spark, tmp_path, histories, positions=positions)
    assert [(row["arm"], row["kind"]) for row in found.cases.to_pylist()] == [("whole", "SKIPPED")]
    tally = {row["arm"]: (row["drained"], row["pending"]) for row in found.tally.to_pylist() if row["partition"] == 0}
    assert (tally["behind"], tally["whole"]) == ((0, 1), (1, 0))


def test_what_may_stand_at_an_unreadable_offset_is_neither_a_ghost_nor_applied_again(
    histories: dict[str, History], spark: SparkSession, tmp_path: Any
) -> None:
    few = {arm: histories[arm] for arm in list(histories)[:40]}
    damage = (Unreadable(first=1, end=2, shown_until=1, detail="checksum"),)
    hidden = tuple(replace(snapshot(arm, 0), unreadable=damage) for arm in few)
    cases = compared(spark, tmp_path, few, hidden).cases.to_pylist()
    assert not [row for row in cases if row["partition"] == 0 and row["kind"] in ("GHOST", "REAPPLIED")]
    assert {"GHOST", "REAPPLIED"} <= {row["kind"] for row in cases if row["partition"] == 1}
