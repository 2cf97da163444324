"""The catalogue as a user has it: from a terminal, in one process, with one page for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delivery_verifier import cli, retention
from delivery_verifier.catalogue_run import directly, record
from delivery_verifier.catalogue_run.record import CatalogueRun
from delivery_verifier.cluster import lease, workspaces

BREAKS = "acks_1.frozen_followers"
Run = Callable[..., tuple[int, CatalogueRun]]


@pytest.fixture(scope="module")
def kdv_catalogue(kafka_spark: SparkSession, e2e_host: Path) -> Run:
    """`kdv catalogue --direct` with the given arguments, and the session of the tests: its exit code and its record."""
    own = directly.runner

    def run(*arguments: str) -> tuple[int, CatalogueRun]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(directly, "runner", lambda watch: own(watch, kafka_spark))  # spares a JVM
            code = cli.main(["catalogue", "--direct", *arguments])
        return code, record.newest(1)[0]

    return run


@pytest.fixture(scope="module")
def twice(kdv_catalogue: Run, e2e_host: Path) -> tuple[int, CatalogueRun]:
    """One scenario in two rounds: the second one's cluster boots while the first is judged."""
    return kdv_catalogue(BREAKS, "--repeat", "2", "--out", str(e2e_host / "matrix.html"), "--results", str(e2e_host))


def test_it_is_green_where_each_arm_ended_as_predicted_also_the_one_that_lost(twice: tuple[int, CatalogueRun]) -> None:
    code, found = twice
    assert (code, found.green, bool(found.ended_at)) == (0, True, True)
    assert [item.state for item in found.items] == ["as expected"] * 2
    for item in found.items:
        arms = {arm.arm: arm for arm in item.attempts[-1].arms}
        assert (arms["acks_1"].verdict, arms["acks_1"].counts["lost"]) == ("VIOLATED", 100)
        assert (arms["safe"].verdict, arms["safe"].counts["lost"]) == ("HELD", 0)
        assert arms["safe"].latency_ms_p99 and arms["safe"].records_per_s and item.attempts[-1].seconds > 0


def test_its_page_leads_to_the_reports_of_its_runs(twice: tuple[int, CatalogueRun], e2e_host: Path) -> None:
    html = (e2e_host / "matrix.html").read_text()
    for item in twice[1].items:
        run = item.attempts[-1].run
        assert f'href="../../{run}/report.html"' in html
        assert (record.folder().parent / run / "report.html").is_file()
    assert "VIOLATED 2×" in next(e2e_host.glob("catalogue-*.md")).read_text()


def test_nothing_is_left_and_its_runs_are_kept_with_it(twice: tuple[int, CatalogueRun]) -> None:
    assert lease.holder() is None
    assert all((workspace / workspaces.KEPT).exists() for workspace in workspaces.every())
    (one,) = [one for one in retention.catalogues(record.folder().parent) if one.path.name == twice[1].id]
    assert {run.name for run in one.runs} == {item.attempts[-1].run for item in twice[1].items}
