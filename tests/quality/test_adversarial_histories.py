"""Compares adversaries (tests/support/adversaries.py) with the oracle: where each history is one bucket of the screen,
and where the screen is refuted. In `test_every_planted_anomaly_is_found`, the screen proves parts of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.adversaries import DECEIVING, REFUTING
from support.oracle import judge
from support.planters import History
from support.run_directories import scenario, table, write

from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.tally import COUNTS
from spark_jobs import reconcile as job

PARTITIONS = 5
ONE_BUCKET, REFUTED = 14, 2
"""The bits of a chunk: every history is in one chunk, or in many."""


@pytest.fixture(scope="module", params=[ONE_BUCKET, REFUTED], ids=["one-bucket", "refuted"])
def histories(request: pytest.FixtureRequest) -> list[History]:
    made = []
    for ordinal, plant in enumerate((*DECEIVING, *(REFUTING if request.param == REFUTED else ())), 1):
        made.append(History(plant.__name__, ordinal, partitions=PARTITIONS))
        plant(made[-1])
    return made


@pytest.fixture(scope="module")
def run(histories: list[History], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    is_refuted = len(histories) > len(DECEIVING)
    path: Path = tmp_path_factory.mktemp("adversarial")
    made = scenario([history.arm for history in histories], partitions=PARTITIONS, producers=2)
    attempts = [row for history in histories for row in history.attempts]
    directory = write(path, made, attempts, [row for history in histories for row in history.lines])
    job.reconcile(path, True, spark, bits=REFUTED if is_refuted else ONE_BUCKET)
    counts = directory.manifest("reconcile").counts
    assert ("screen/refuted" in counts) == is_refuted
    assert 0 < counts["screen/dirty"] < counts["screen/buckets"]
    return directory


def test_the_tally_and_the_cases_are_the_oracles(histories: list[History], run: RunDirectory) -> None:
    tally, cases = table(run, "counts/producers.parquet"), table(run, "anomalies")
    for history in histories:
        expected_tally, expected_cases = judge(history.attempts, history.lines, history.seen)
        own = [row for row in tally if row["arm"] == history.arm]
        assert {name: sum(row[name] for row in own) for name in COUNTS} == dict.fromkeys(COUNTS, 0) | dict(
            expected_tally
        ), history.arm
        key = ("producer", "session", "sequence", "attempt")
        found = Counter(
            (row["kind"], tuple(row["also"]), tuple(row[name] for name in key), tuple(row["offsets"]))
            for row in cases
            if row["arm"] == history.arm
        )
        expected = Counter[object]()
        for case, count in expected_cases.items():
            expected[(*case[:3], tuple(offset for offset, _ in case[3]))] += count
        assert found == expected, history.arm


def test_only_the_clean_history_has_no_case(run: RunDirectory, histories: list[History]) -> None:
    arms = {row["arm"] for row in table(run, "anomalies")}
    assert arms == {history.arm for history in histories} - {"nothing_wrong"}
