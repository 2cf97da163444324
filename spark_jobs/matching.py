"""Matching: ledger and log brought together, record by record; only what the screen has not proven to agree."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.scenario import Scenario
from delivery_verifier.store.run_directory import StepOutput
from spark_jobs import anomalies, attempts, books, committed, laws, screen
from spark_jobs.schemas import ANOMALIES, arrow

FEW = 100_000
"""So many corrupted lines are sent to every task, rather than the ledger to them."""


class Found(NamedTuple):
    """What the matching starts from."""

    ledger: DataFrame
    log: DataFrame
    visible: DataFrame
    ledger_census: pa.Table
    log_census: pa.Table
    scenario: Scenario
    output: StepOutput
    bound: int
    together: bool
    """All of it is one task's."""


def match(found: Found, proven: screen.Screen | None) -> tuple[pa.Table, dict[tuple[str, str], int]]:
    """Brings ledger and log together once, for two queries: the books, and the cases that were written.

    Only what the screen has not proven; everything, if what is found there refutes the screen.
    """
    kept: list[DataFrame] = []
    try:
        subjects = _subjects(found, proven, kept)
        counted = books.signatures(subjects, found.scenario).toArrow().to_pylist()
        if proven is None or not any(row["astray"] for row in counted):
            counted += proven.signatures if proven else []
            producers = books.producers(counted, found.ledger_census, found.scenario)
            return producers, _write_anomalies(subjects, producers, found.output, found.bound)
    finally:
        for frame in kept:
            frame.unpersist()
    found.output.counts["screen/refuted"] = 1
    return match(found, None)


def _subjects(found: Found, proven: screen.Screen | None, kept: list[DataFrame]) -> DataFrame:
    """SUBJECTS of what the screen has not proven; adds to `kept` what is persisted for them."""
    ledger, log = found.ledger, found.log
    owned = unattributed = aliens = None
    corrupted, foreign = _by_arm(found.log_census, "corrupted"), _by_arm(found.log_census, "foreign")
    if corrupted:
        few = sum(corrupted.values()) <= FEW
        kept.append(
            attempts.attribute(ledger, log, list(corrupted), few, found.together).persist(StorageLevel.MEMORY_AND_DISK)
        )
        owned, unattributed = attempts.owned_copies(kept[0]), attempts.unowned(kept[0])
    if foreign:
        aliens = attempts.foreign(log.where(F.col("arm").isin(*foreign)))
    claims, lines = (screen.unproven(side, proven, found.together) for side in (ledger, attempts.believable(log)))
    resends = _any(found.ledger_census, "attempt")
    matched = attempts.attempts(claims, lines, owned, resends, found.together)
    matched = _with_views(matched, found, corrupted, kept)
    kept.append(anomalies.subjects(matched, aliens, unattributed).persist(StorageLevel.MEMORY_AND_DISK))
    return kept[-1]


def _with_views(matched: DataFrame, found: Found, corrupted: dict[str, int], kept: list[DataFrame]) -> DataFrame:
    """`matched` with what the committed view shows of it. Nothing strange, and no transactions at all, cost no join."""
    arms = found.scenario.transactional
    if not arms:
        return matched
    few, damaged = sum(corrupted.values()) <= FEW, [arm for arm in corrupted if arm in arms]
    strange = committed.strange(found.ledger, found.visible, arms, damaged, few).persist(StorageLevel.MEMORY_AND_DISK)
    kept.append(strange)
    return committed.judged(matched, strange) if strange.count() else matched


def _by_arm(log_census: pa.Table, name: str) -> dict[str, int]:
    """The arms that have such lines, and how many."""
    counts: Counter[str] = Counter()
    for row in log_census.to_pylist():
        counts[row["arm"]] += row[name]
    return dict(+counts)


def _write_anomalies(
    found: DataFrame, producers: pa.Table, output: StepOutput, bound: int
) -> dict[tuple[str, str], int]:
    """Writes the cases and counts what was really written; no query where the books have none."""
    rows = arrow(ANOMALIES).empty_table()
    if any(row["cases"] for row in laws.cases(producers, {}, bound).to_pylist()):
        rows = anomalies.cases(found, bound).toArrow().cast(rows.schema)
    file = output.write_table("anomalies/cases", rows)
    written = pq.read_table(file, columns=["arm", "kind"])
    counts = written.group_by(["arm", "kind"]).aggregate([([], "count_all")]).to_pylist()
    return {(row["arm"], row["kind"]): row["count_all"] for row in counts}


def _any(table: pa.Table, name: str) -> bool:
    return any(value for value in table[name].to_pylist())
