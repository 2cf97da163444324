"""Tests that alternatives hold where no leader changes. In one run, three arms break their claims. The arms beside them
have what the report suggests."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support.alternatives import SIDE_BY_SIDE, assert_tried_and_held

from delivery_verifier import catalogue
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.host import folders
from delivery_verifier.pipeline import direct
from delivery_verifier.run_directory.run_directory import RunDirectory


@pytest.fixture(scope="module")
def side_by_side(kafka_spark: SparkSession) -> RunDirectory:
    """The run of SIDE_BY_SIDE. If a disturbance that nobody planned leaves it INCONCLUSIVE, it runs once more."""
    for name in (SIDE_BY_SIDE.name, f"{SIDE_BY_SIDE.name}-again"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(catalogue.SCENARIOS, SIDE_BY_SIDE.name, SIDE_BY_SIDE)
            verdict = direct.run({"scenario": SIDE_BY_SIDE.name}, name, lambda progress: None, kafka_spark)
        if verdict.exit_code != 2:
            break
    assert verdict.green, verdict.sentence
    return RunDirectory(folders.runs_dir() / name)


def test_settings_that_are_weak_elsewhere_hold_where_no_leader_changes(side_by_side: RunDirectory) -> None:
    trials = assert_tried_and_held(side_by_side, read_verdict(side_by_side.path))
    tried = {(trial.change, trial.claim) for trial in trials}
    assert tried == {
        *(("acks=1", "at_least_once"), ("acks=all", "at_least_once")),
        *(("max.in.flight.requests.per.connection=1", "ordered"), ("retries=0", "ordered")),
        *(("acks=0", "at_most_once"), ("retries=0", "at_most_once")),
    }
