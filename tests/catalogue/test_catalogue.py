"""Tests of `kdv catalogue --direct`: all scenarios run in one process, and one page shows all results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from pyspark.sql import SparkSession
from support import alternatives, pictures
from support.browser import CHROMIUM, browser  # noqa: F401  (a fixture)
from support.smoke_scenarios import DIRECTLY, assert_recounted, expect_unavailable

from delivery_verifier.catalogue import token
from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.command_line import main as cli
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.host import folders, variables
from delivery_verifier.maintenance import retention
from delivery_verifier.model.catalogue_run import CatalogueRun
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.suite import directly

BREAKS = "acks_1.frozen_followers"
Run = Callable[..., tuple[int, CatalogueRun]]


@pytest.fixture(scope="module")
def kdv_catalogue(kafka_spark: SparkSession, host_folder: Path) -> Run:
    """A function that runs `kdv catalogue --direct` with the given arguments, in the Spark session of the tests. It
    returns the exit code and the record of the catalogue run."""
    own = directly.runner

    def run(*arguments: str) -> tuple[int, CatalogueRun]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(directly, "runner", lambda watch, **more: own(watch, kafka_spark, **more))  # spares a JVM
            code = cli.main(["catalogue", "--direct", *arguments])
        return code, catalogue_runs.newest(1)[0]

    return run


@pytest.fixture(scope="module")
def smoke(kdv_catalogue: Run, host_folder: Path) -> tuple[int, CatalogueRun]:
    """The exit code and the record of a catalogue run with the smoke scenarios, but for the one that goes through
    Airflow. The cluster of the next scenario boots while the last scenario is judged."""
    told = ("--out", str(host_folder / "matrix.html"), "--results", str(host_folder))
    return kdv_catalogue(*DIRECTLY, *told, *expect_unavailable(DIRECTLY))


def test_the_smoke_catalogue_is_green_each_arm_ended_as_predicted(smoke: tuple[int, CatalogueRun]) -> None:
    code, found = smoke
    states = {item.name: item.state for item in found.items}
    assert {*states} == {*DIRECTLY} and len(DIRECTLY) >= 9
    assert set(states.values()) <= {"as expected", "unavailable"}, states
    assert (code, found.green, bool(found.ended_at)) == (0, True, True)


def test_a_scenario_that_breaks_its_weak_arm_says_by_how_much(smoke: tuple[int, CatalogueRun]) -> None:
    (item,) = [item for item in smoke[1].items if item.name == BREAKS]
    arms = {arm.arm: arm for arm in item.attempts[-1].arms}
    assert (arms["acks_1"].verdict, arms["acks_1"].counts["lost"]) == ("VIOLATED", 100)
    assert (arms["safe"].verdict, arms["safe"].counts["lost"]) == ("HELD", 0)
    assert arms["safe"].latency_ms_p99 and arms["safe"].records_per_s and item.attempts[-1].seconds > 0


def test_a_recount_without_spark_comes_to_the_same_tally(smoke: tuple[int, CatalogueRun]) -> None:
    for item in (item for item in smoke[1].items if item.state != "unavailable"):
        assert_recounted(RunDirectory(catalogue_runs.folder().parent / item.attempts[-1].run), item.name)


def test_every_suggested_alternative_that_an_arm_of_the_same_run_tries_has_held(
    smoke: tuple[int, CatalogueRun],
) -> None:
    for item in (item for item in smoke[1].items if item.state != "unavailable"):
        run = RunDirectory(catalogue_runs.folder().parent / item.attempts[-1].run)
        alternatives.assert_tried_and_held(run, read_verdict(run.path))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
def test_the_picture_of_the_matrix_shows_what_a_catalogue_of_this_checkout_shows(
    smoke: tuple[int, CatalogueRun],
    host_folder: Path,
    browser: Browser,  # noqa: F811
) -> None:
    if lacking := [item.name for item in smoke[1].items if item.state == "unavailable"]:
        pytest.skip(f"the picture shows scenarios that are unavailable on this host: {', '.join(lacking)}")
    pictures.check(pictures.take_matrix(browser, host_folder / "matrix.html"))


def test_its_page_leads_to_the_reports_of_its_runs(smoke: tuple[int, CatalogueRun], host_folder: Path) -> None:
    html = (host_folder / "matrix.html").read_text()
    for item in smoke[1].items:
        for run in (attempt.run for attempt in item.attempts[-1:]):
            assert f'href="../../{run}/report.html"' in html
            assert (catalogue_runs.folder().parent / run / "report.html").is_file()
    assert BREAKS in next(host_folder.glob("catalogue-*.md")).read_text()


def test_nothing_is_left_and_its_runs_are_kept_with_it(smoke: tuple[int, CatalogueRun]) -> None:
    assert lease.lock_owner() is None
    assert all((workspace / workspaces.KEPT).exists() for workspace in workspaces.all_workspaces())
    (one,) = [one for one in retention.catalogues(catalogue_runs.folder().parent) if one.path.name == smoke[1].id]
    assert {run.name for run in one.runs} == {attempt.run for item in smoke[1].items for attempt in item.attempts}


def test_the_data_of_the_newest_violations_are_kept(smoke: tuple[int, CatalogueRun]) -> None:
    attempts = [attempt for item in smoke[1].items for attempt in item.attempts]
    broken = [
        one.run for one in attempts if any((arm.role, arm.verdict) == ("subject", "VIOLATED") for arm in one.arms)
    ]
    assert len(broken) >= 2, "the next one's sweep must have had the chance to take them"
    # An attempt that is repeated comes after those of other scenarios.
    broken.sort(key=lambda run: RunDirectory(folders.runs_dir() / run).manifest("conclude").finished_at_us)
    assert {token(run) for run in broken[-variables.workspaces_to_keep() :]} <= {
        one.name for one in workspaces.all_workspaces()
    }
