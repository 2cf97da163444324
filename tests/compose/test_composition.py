"""Tests of docker-compose.yml on a real engine, in the order in which a user goes: up, verify, down.

A run takes a minute, so each shows as much as it can: a catalogue run, also what VIOLATED is. With embedded brokers,
only what differs is tried: the services become healthy, and a run is HELD.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from composition import PROJECT, Composition
from playwright.sync_api import Browser
from support.browser import CHROMIUM, Visitor, browser, check_look, shots  # noqa: F401  (two are fixtures)
from support.patience import PATIENCE_S

from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID

SCENARIO = "acks_1.frozen_followers"
ACKS_1: dict[str, object] = {"profile": "acks_1", "claim": "at_least_once", "fault": "pause_leader", "records": 20_000}
pytestmark = pytest.mark.timeout(1800)


WITH_DOCKER = pytest.mark.parametrize("started", ["docker"], indirect=True)
"""Marks what is the same wherever brokers run, or what embedded brokers do not have."""


@pytest.fixture(scope="module", params=["docker", "embedded"])
def started(request: pytest.FixtureRequest, composition: Composition) -> Composition:
    """The composition in one of its two ways, up and healthy. The second takes the image that the first has built."""
    composition.way = request.param
    composition.up(f"CLUSTER={request.param}", *([f"KDV_IMAGE={PROJECT}:local"] if request.param == "embedded" else []))
    return composition


def subjects(composition: Composition, run_id: str) -> dict[str, str]:
    """The verdict of each subject arm of a run."""
    return {arm.arm: arm.verdict for arm in composition.verdict(run_id).arms if arm.role == "subject"}


def test_every_service_becomes_healthy(started: Composition) -> None:
    states = started.states()
    assert states.pop("airflow-init") == "exited 0"
    assert set(states.values()) == {"healthy"}, states
    assert ("kafka-1" in states) == ("fault-gateway" in states) == (started.way == "docker")


@WITH_DOCKER
def test_nothing_of_ours_runs_as_root(started: Composition) -> None:
    for service in ("airflow-scheduler", "airflow-api-server", "spark-worker", "spark-master"):
        assert started.compose("exec", "-T", service, "id", "-u").strip() == "50000", service


@WITH_DOCKER
def test_only_the_tasks_reach_the_fault_gateway(started: Composition) -> None:
    address = started.address("fault-gateway", "gateway")
    others = ("kafka-1", "controller", "spark-worker", "airflow-api-server")
    with ThreadPoolExecutor() as pool:  # an attempt that is in vain takes seconds
        reached = dict(zip(others, pool.map(lambda service: started.connects(service, address, 8700), others)))
    assert reached == dict.fromkeys(others, False)
    assert started.connects("airflow-scheduler", address, 8700)


def test_a_safe_producer_holds_when_the_leader_is_killed_and_sparks_worker_reconciles(started: Composition) -> None:
    run_id = f"safe-{started.way}"
    before = {application["id"] for application in started.spark_applications()}
    options = f"--profile safe --fault kill_leader --records 10000 --run-id {run_id}"
    result = started.make("compose-verify", f"OPTIONS={options}")
    assert "HELD (as expected)" in result.stdout
    assert started.verdict(run_id).verdict == "HELD"
    scenario = json.loads(started.file(f"{run_id}/scenario.json"))
    assert scenario["cluster"].get("backend", "embedded") == started.way
    own = [application for application in started.spark_applications() if application["id"] not in before]
    assert [application["state"] for application in own] == ["FINISHED"]
    assert own[0]["cores"] >= 1


@WITH_DOCKER
def test_a_run_that_is_violated_is_red_and_only_its_gate_has_failed(started: Composition) -> None:
    run_id = "acks-1-docker"
    assert started.run(DAG_ID, run_id, ACKS_1) == "failed"
    assert set(subjects(started, run_id).values()) == {"VIOLATED"}
    assert {task.task_id for task in started.client().tasks(DAG_ID, run_id) if task.state == "failed"} == {"conclude"}


@WITH_DOCKER
def test_a_scenario_of_the_catalogue_loses_as_predicted_and_its_control_does_not(started: Composition) -> None:
    run_id = "catalogue-docker"
    assert started.run(CATALOGUE_DAG_ID, run_id, {"names": [SCENARIO]}) == "success"
    [item] = started.catalogue(run_id).items
    arms = {arm.arm: (arm.verdict, arm.counts["lost"]) for arm in item.attempts[-1].arms}
    assert arms == {"acks_1": ("VIOLATED", 100), "safe": ("HELD", 0)}


@WITH_DOCKER
def test_the_report_is_a_page_of_the_composed_airflow(started: Composition) -> None:
    import httpx

    client = started.client()
    client.dag(DAG_ID)
    headers = {"Authorization": f"Bearer {client._token}"}
    page = f"http://127.0.0.1:{started.port}/delivery/runs/safe-docker/report.html"
    answer = httpx.get(page, headers=headers, timeout=PATIENCE_S, trust_env=False)
    assert (answer.status_code, "HELD" in answer.text) == (200, True), page
    assert httpx.get(page, timeout=PATIENCE_S, trust_env=False).status_code in (401, 403)


@WITH_DOCKER
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
def test_every_page_is_read_in_the_composed_airflow(
    started: Composition,
    browser: Browser,  # noqa: F811
    shots: Path,  # noqa: F811
) -> None:
    """Nothing else runs beside this test. Chromium gives up its requests whenever a container comes or goes, because
    the host's network changes then."""
    admin = Visitor(browser, started, shots).enter("admin", started.password)
    held, violated = (f"/dags/{DAG_ID}/runs/{name}-docker/plugin" for name in ("safe", "acks-1"))
    pages = {
        "composed-held": (f"{held}/delivery-report", "acknowledged records"),
        "composed-violated": (f"{violated}/delivery-report", "VIOLATED|lost"),
        "composed-docs": (f"{held}/data-docs", "Data Docs"),
        "composed-runs": ("/plugin/delivery", "Delivery"),
        "composed-matrix": ("/plugin/delivery-matrix", "."),
    }
    for name, (path, heading) in pages.items():
        check_look(admin.frame(path, heading), "light")
        admin.shoot(name)
    assert (admin.strangers, admin.errors) == ([], [])


@WITH_DOCKER
def test_the_docker_backend_keeps_the_contract_inside_the_container_of_the_tasks(started: Composition) -> None:
    assert " passed" in started.pytest_inside("compose/test_docker_backend.py")


def test_down_leaves_the_named_volumes_and_with_volumes_nothing(composition: Composition) -> None:
    composition.down(volumes=False)
    assert composition.left("container") == composition.left("network") == set()
    assert composition.anonymous_volumes() == set()
    assert {"kafka-1", "kafka-2", "kafka-3", "controller", "postgres", "runs", "logs"} == composition.left("volume")
    composition.down(volumes=True)
    assert composition.left("container") == composition.left("network") == composition.left("volume") == set()
