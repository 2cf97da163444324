"""The counts of effects: counts per partition. This module also counts the cases of the anomalies of effects. These
counts belong in the counts of the log, i.e. in the table PRODUCERS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import Anomaly, also_column, column
from delivery_verifier.model.application import IN_GROUP
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.effect_tables import EFFECT_COUNTS
from delivery_verifier.run_directory.group_log import last_positions
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from spark_jobs.effects import effect_attempts, effect_screen
from spark_jobs.effects.own_effects import with_places
from spark_jobs.matching.match import REFUTED, MatchingInputs
from spark_jobs.matching.screen import Screen, unproven
from spark_jobs.matching.tally import NOBODY, SESSIONS, TallyKey
from spark_jobs.reading.read_topic import COMMITTED
from spark_jobs.schemas import ANOMALIES, EFFECT_TALLY, EFFECTS, arrow

COUNTS = tuple(count.name for count in EFFECT_COUNTS)
KEY_NAMES = ("arm", "producer", "session", "partition")
Row = dict[str, Any]


class Effects(NamedTuple):
    """The results of a comparison. `tally`: EFFECT_TALLY. `anomalies`: the numbers of cases that are added to
    PRODUCERS, by (key of the row, name of the column). `cases`: ANOMALIES. `proven`: the number of effects that the
    screen has proven, which were not matched."""

    tally: pa.Table
    anomalies: Counter[tuple[TallyKey, str]]
    cases: pa.Table
    proven: int


class EffectInputs(NamedTuple):
    """What effects are compared with, and where the results go. `views`: LOG. `ledger`: LEDGER. `offsets`: the
    snapshot. `output`: receives the results. `bound`: the maximum number of cases that are written per arm and kind.
    `together`: as in `MatchingInputs`. `positions`: maps (arm, partition) to the last offset that the arm's consumer
    group has committed; None if no group log of the run has recorded these offsets. `proven`: the result of the screen
    of the log; None if every effect must be matched."""

    views: DataFrame
    ledger: DataFrame
    scenario: Scenario
    offsets: Offsets
    output: StepOutput
    bound: int
    together: bool
    positions: Mapping[tuple[str, int], int] | None = None
    proven: Screen | None = None


def add(
    matching: MatchingInputs,
    views: DataFrame,
    spark: SparkSession,
    run: RunDirectory,
    producers: pa.Table,
    written: dict[tuple[str, str], int],
    proven: Screen | None,
) -> tuple[pa.Table, pa.Table | None]:
    """Compares the effects of `run` with the log. Writes counts/effects, and the cases of anomalies.

    Adds the number of written cases per (arm, kind) to `written`. Returns PRODUCERS and EFFECT_TALLY. The returned
    PRODUCERS are the rows of `producers`, to which the counts of the anomalies of effects are added. If no arm has an
    application, reads and writes nothing, and returns `producers` and None.

    `proven`: the result of the screen of the log. It is not used if the matching has refuted it.
    """
    if not matching.scenario.applied:
        return producers, None
    believed = None if REFUTED in matching.output.counts else proven
    shared = {name: getattr(matching, name) for name in EffectInputs._fields if name in MatchingInputs._fields}
    inputs = EffectInputs(views, **shared, proven=believed, positions=last_positions(run))
    with inputs.output.timed("effects"):
        rows = spark.read.schema(EFFECTS).parquet(str(run.path / "effects"))
        results = compare(inputs, rows.coalesce(1) if inputs.together else rows)
        inputs.output.counts["screen/effects"] = results.proven
        inputs.output.write_table("counts/effects", results.tally)
        inputs.output.write_table("anomalies/effects", results.cases)
        written.update(Counter(zip(results.cases["arm"].to_pylist(), results.cases["kind"].to_pylist(), strict=True)))
    rows_by_key = {tuple(row[name] for name in KEY_NAMES): row for row in producers.to_pylist()}
    for (key, name), count in results.anomalies.items():
        rows_by_key[key][name] += count
    return pa.Table.from_pylist(list(rows_by_key.values()), schema=producers.schema), results.tally


def compare(inputs: EffectInputs, rows: DataFrame) -> Effects:
    """Compares effects with the log. `rows`: EFFECTS. Reads only the arms in `Scenario.applied`."""
    scenario = inputs.scenario
    in_arms = F.col("arm").isin(*scenario.applied)
    view = F.when(F.col("arm").isin(*scenario.transactional), COMMITTED).otherwise("raw")
    lines = inputs.views.where(in_arms & (F.col("view") == (view if scenario.transactional else "raw")))
    screened = _screened(inputs, rows.where(in_arms))
    placed = with_places(rows.where(in_arms), inputs.ledger, scenario, inputs.offsets)
    parts = [
        *effect_attempts.census(placed, inputs.offsets.taken_at_us).toArrow().to_pylist(),
        *effect_attempts.lines_census(lines).toArrow().to_pylist(),
    ]
    places = _places(inputs, parts)
    attempts = effect_attempts.applied_attempts(
        effect_screen.unapplied(placed, screened, inputs.together),
        lines if screened is None else unproven(lines, screened.proven, inputs.together),
        places,
    ).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counted = effect_attempts.counts(attempts).toArrow().to_pylist()
        cases = arrow(ANOMALIES).empty_table()
        if any(row["kind"] for row in counted):
            claims = inputs.ledger.where(in_arms)
            cases = effect_attempts.cases(attempts, claims, inputs.bound).toArrow().cast(cases.schema)
    finally:
        attempts.unpersist()
    counted += screened.counts if screened else []
    return Effects(
        _tally(scenario, [*parts, *counted]),
        _anomalies(scenario, counted),
        cases,
        sum(row["copies"] for row in screened.counts) if screened else 0,
    )


def _screened(inputs: EffectInputs, rows: DataFrame) -> effect_screen.EffectScreen | None:
    """Returns the chunks whose effects need no matching. `rows`: EFFECTS of the arms in `Scenario.applied`.

    Arms that write transactions are left out: the screen of the log compares the ledger with the raw view, but a
    consumer sees the committed view.
    """
    if inputs.proven is None:
        return None
    arms = {row["arm"] for row in inputs.proven.rows} & {*inputs.scenario.applied} - {*inputs.scenario.transactional}
    groups = effect_screen.count(rows.where(F.col("arm").isin(*arms)), inputs.proven.bits) if arms else None
    return None if groups is None else effect_screen.prove(inputs.proven, arms, groups)


def _places(inputs: EffectInputs, parts: Iterable[Row]) -> effect_attempts.Places:
    """Returns what is known of the partitions. Sets the count `drained` in each row of `parts` (see
    `effect_attempts.census`) that is about effects."""
    ends = {(part.arm, part.partition): part.end for part in inputs.offsets.partitions}
    lowest = {}
    for row in parts:
        key = row["arm"], row["partition"]
        end, last = ends.get(key), row.get("last_marker")
        is_applied = end is not None and last is not None and last >= end
        row["drained"] = int(is_applied and _is_committed(inputs, row, end or 0))
        if row.get("lowest") is not None:
            lowest[key] = row["lowest"]
    drained = {(row["arm"], row["partition"]) for row in parts if row["drained"]}
    # Consumers of a transactional arm get the committed view, and an open transaction hides a part of it.
    in_view = {*inputs.scenario.transactional}
    hidden = {
        (part.arm, part.partition)
        for part in inputs.offsets.partitions
        if part.unreadable or (part.held_back and part.arm in in_view)
    }
    return effect_attempts.Places(drained, hidden, lowest)


def _is_committed(inputs: EffectInputs, row: Row, end: int) -> bool:
    """Returns whether the consumer group of the arm has committed all offsets of the partition below `end`. If so, no
    member of the application will be given these records again. `row` names the arm and the partition.

    Returns True without a check in two cases: the consumer group is not the only place where the application keeps its
    offsets, or no group log of the run has recorded the committed offsets.
    """
    arms = (arm for arm in inputs.scenario.loaded if arm.application and arm.application.discipline in IN_GROUP)
    if inputs.positions is None or row["arm"] not in {arm.name for arm in arms}:
        return True
    return inputs.positions.get((row["arm"], row["partition"]), 0) >= end


def _tally(scenario: Scenario, counted: Iterable[Row]) -> pa.Table:
    tally = {(arm, part): Counter[str]() for arm in scenario.applied for part in range(scenario.load.partitions)}
    for row in counted:
        tally.setdefault((row["arm"], row["partition"]), Counter()).update(
            {name: row[name] for name in COUNTS if row.get(name)}
        )
    rows = [
        {"arm": arm, "partition": partition} | {name: counts[name] for name in COUNTS}
        for (arm, partition), counts in sorted(tally.items())
    ]
    return pa.Table.from_pylist(rows, schema=arrow(EFFECT_TALLY))


def _anomalies(scenario: Scenario, counted: Iterable[Row]) -> Counter[tuple[TallyKey, str]]:
    """Counts the cases that belong in PRODUCERS, by (key of the row, name of the column). If no planned producer sent
    the record of a case, the case counts in the row whose columns producer and session are NOBODY."""
    planned = {arm.name: arm.producers for arm in scenario.arms}
    cases: Counter[tuple[TallyKey, str]] = Counter()
    for row in counted:
        if row["kind"] is None:
            continue
        is_planned = row["producer"] < planned[row["arm"]] and row["session"] < SESSIONS
        owner = (row["producer"], row["session"]) if is_planned else (NOBODY, NOBODY)
        key = (row["arm"], *owner, row["partition"])
        cases[key, column(Anomaly(row["kind"]))] += row["attempts"]
        for kind in row["also"]:
            cases[key, also_column(Anomaly(kind))] += row["attempts"]
    return cases
