"""Tests of the catalogue through Airflow, with one scenario. It is a run of the DAG verify_delivery, and a gate behind
it gives the result. tests/airflow/test_catalogue_dag.py tests how scenarios follow one another."""

from __future__ import annotations

import pytest
from support.airflow import LocalAirflow
from support.smoke_scenarios import THROUGH_AIRFLOW, assert_recounted

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.command_line import main as cli
from delivery_verifier.model.catalogue_run import CatalogueRun
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.run_directory.run_directory import RunDirectory


@pytest.fixture(scope="module")
def ended(local_airflow: LocalAirflow) -> tuple[int, CatalogueRun]:
    """The exit code and the record of `kdv catalogue` through the Airflow of the tests."""
    with local_airflow.environment():
        code = cli.main(["catalogue", THROUGH_AIRFLOW])
        return code, catalogue_runs.newest(1)[0]


def test_the_scenario_ends_in_airflow_as_predicted(ended: tuple[int, CatalogueRun]) -> None:
    code, catalogue = ended
    assert {one.name: one.state for one in catalogue.items} == {THROUGH_AIRFLOW: "as expected"}
    assert (code, catalogue.green, bool(catalogue.ended_at)) == (0, True, True)


def test_it_is_a_run_of_verify_delivery_with_a_report_of_its_own(
    ended: tuple[int, CatalogueRun], local_airflow: LocalAirflow
) -> None:
    attempt = ended[1].items[0].attempts[-1]
    assert {arm.verdict for arm in attempt.arms if arm.role != "canary"} >= {"VIOLATED", "HELD"}
    assert (local_airflow.runs / attempt.run / "report.html").is_file()
    assert_recounted(RunDirectory(local_airflow.runs / attempt.run), THROUGH_AIRFLOW)
    with local_airflow.environment():
        assert local_airflow.client().state(DAG_ID, attempt.run) == "success"


def test_the_catalogue_run_is_green_in_airflow_and_its_page_names_the_scenario(
    ended: tuple[int, CatalogueRun], local_airflow: LocalAirflow
) -> None:
    assert local_airflow.client().state(CATALOGUE_DAG_ID, ended[1].id) == "success"
    page = local_airflow.http("viewer").get("/delivery/matrix/").raise_for_status().text
    assert THROUGH_AIRFLOW in page


def test_nothing_of_it_is_left(ended: tuple[int, CatalogueRun], local_airflow: LocalAirflow) -> None:
    with local_airflow.environment():
        assert lease.lock_owner() is None
        assert all((workspace / workspaces.KEPT).exists() for workspace in workspaces.all_workspaces())
        for kept in workspaces.all_workspaces():  # of what was VIOLATED; the tests of crashes want to find nothing
            workspaces.remove(kept)
