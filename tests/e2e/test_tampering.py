"""Tests that judge copies of one good run again. A copy that nobody touched is judged as the original. A copy that was
damaged ends INCONCLUSIVE, with a doubt that names the damage.

`quality/test_tampering.py` damages a stored run in many more ways.
"""

from __future__ import annotations

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.browser import PLAIN
from support.stored_runs import arm, copy_of, doubts, judge_again, reseal

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.store.ledger import LOAD_BEGAN
from delivery_verifier.store.run_directory import RunDirectory

SUBJECT = PLAIN["profile"]


@pytest.fixture(scope="module")
def good(plain_run_directly: RunDirectory) -> RunDirectory:
    """A run that ended HELD and green."""
    return plain_run_directly


def test_no_silence_of_a_run_began_before_its_load(good: RunDirectory) -> None:
    began_us = good.manifest("produce").counts[LOAD_BEGAN]
    found = pq.read_table(good.path / "books/gaps.parquet")["gap_start_us"].to_pylist()
    assert good.manifest("produce").started_at_us < began_us <= min(found)


@pytest.fixture
def copy(good: RunDirectory, request: pytest.FixtureRequest) -> RunDirectory:
    return copy_of(good, f"copy-{abs(hash(request.node.name)):x}"[:40])


def test_a_copy_that_nobody_touched_is_judged_as_the_original(copy: RunDirectory, kafka_spark: SparkSession) -> None:
    before = (copy.path / "verdict.json").read_bytes()
    assert judge_again(copy, kafka_spark, report=True).exit_code == 0
    assert (copy.path / "verdict.json").read_bytes() == before


def test_a_record_behind_the_snapshot_is_a_doubt_and_the_page_names_it(
    copy: RunDirectory, kafka_spark: SparkSession
) -> None:
    """The manifest says that one record was found behind the snapshot."""
    reseal(copy, "read_topic", {f"tail/{SUBJECT}/0": 1})
    verdict = judge_again(copy, kafka_spark, report=True)
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("INCONCLUSIVE", False, 2)
    assert arm(verdict, SUBJECT).verdict == "INCONCLUSIVE"
    assert ("checker", "log_moved") in doubts(verdict, SUBJECT)
    assert {doubt.name for item in verdict.arms for doubt in item.doubts} == {"log_moved"}
    page = (copy.path / "report.html").read_text()
    assert "<b>log moved</b>" in page and "INCONCLUSIVE" in page
    assert msgspec.json.decode((copy.path / "verdict.json").read_bytes(), type=RunVerdict) == verdict
