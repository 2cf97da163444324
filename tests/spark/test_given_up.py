"""Tests of the counts of what was given up: attempts that are neither reported nor in the log, by partition and
error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.run_directories import attempt, line, scenario, write

from delivery_verifier.run_directory.given_up import GIVEN_UP, GivenUpCount, read_given_up
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.reconcile import reconcile

TIMED_OUT, REFUSED = "_MSG_TIMED_OUT", "NOT_ENOUGH_REPLICAS"


@pytest.fixture(scope="module")
def counted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    attempts = [
        *(attempt("one", at, offset=at) for at in range(4)),  # what the screen proves is not given up
        attempt("one", 4, "INDETERMINATE", error=TIMED_OUT),
        attempt("one", 5, "INDETERMINATE", error=TIMED_OUT, transaction="0", transaction_outcome="ABORTED"),
        attempt("one", 6, "INDETERMINATE", error=TIMED_OUT),  # it timed out, and is there all the same
        attempt("one", 7, "INDETERMINATE", settled_at=None, made_by="recovery"),
        attempt("one", 8, "INDETERMINATE", error=REFUSED, partition=1, partition_sequence=0),
        attempt("one", 9, "FAILED", error="MSG_SIZE_TOO_LARGE", partition=1, partition_sequence=1),
        attempt("one", 10, "FAILED", error="_QUEUE_FULL"),  # in the log: a PHANTOM
        attempt("one", 11),  # LOST, and so not given up
        attempt("again", 0, "INDETERMINATE", error=TIMED_OUT),  # sent again, and there
        attempt("again", 0, attempt=1, partition_sequence=2, offset=0),
        attempt("again", 1, "INDETERMINATE", error=TIMED_OUT),  # sent again in vain
        attempt("again", 1, "INDETERMINATE", error=REFUSED, attempt=1, partition_sequence=3),
    ]
    there = [line("one", 1, offset, at) for offset, at in enumerate((0, 1, 2, 3, 6, 10))]
    there.append(line("again", 2, 0, 0, attempt=1, partition_sequence=2))
    made = scenario(["one", "again", "idle"])
    run = write(tmp_path_factory.mktemp("given-up"), made, attempts, there)
    reconcile(run.path, True, spark)
    return run


def test_an_attempt_is_given_up_if_it_is_neither_reported_nor_in_the_log(counted: RunDirectory) -> None:
    assert read_given_up(counted)["one"] == [
        GivenUpCount(0, TIMED_OUT, 2),
        GivenUpCount(0, "", 1),
        GivenUpCount(1, "MSG_SIZE_TOO_LARGE", 1),
        GivenUpCount(1, REFUSED, 1),
    ]


def test_what_the_application_sent_again_with_success_was_not_given_up(counted: RunDirectory) -> None:
    assert read_given_up(counted)["again"] == [GivenUpCount(0, REFUSED, 1), GivenUpCount(0, TIMED_OUT, 1)]


def test_an_arm_that_gave_up_nothing_says_so(counted: RunDirectory) -> None:
    found = read_given_up(counted)
    assert (found["idle"], found["canary"]) == ([], [])
    totals = {name: count for name, count in counted.manifest("reconcile").counts.items() if name.count("/") == 1}
    assert {name: count for name, count in totals.items() if name.startswith(GIVEN_UP)} == {
        "given_up/one": 5,
        "given_up/again": 2,
        "given_up/idle": 0,
        "given_up/canary": 0,
    }


def test_every_record_matched_by_itself_gives_the_same(
    counted: RunDirectory, spark: SparkSession, tmp_path: Path
) -> None:
    before = read_given_up(counted)
    reconcile(counted.path, True, spark, exhaustive=True)
    assert read_given_up(counted) == before
