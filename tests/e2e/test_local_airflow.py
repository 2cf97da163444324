"""Tests of a real local Airflow: access rights, the address on which it listens, the answers to refused requests, the
mail about a red run, and the libraries that its scheduler has imported."""

from __future__ import annotations

import stat
from pathlib import Path

import psutil
import pytest
from support.airflow import LocalAirflow

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.orchestration.local import lifecycle, supervisor
from delivery_verifier.orchestration.local.client import AirflowError
from delivery_verifier.orchestration.local.settings import DAG_ID

PAGES = [
    "/delivery/",
    f"/delivery/dag/{DAG_ID}/never/",
    "/delivery/dag/other/run/",
    f"/delivery/dag/{DAG_ID}/never/docs/",
    "/delivery/docs/index.html",
    "/delivery/icon/light.svg",
    "/delivery/matrix/",
    "/delivery/icon/report-dark.svg",
]


@pytest.fixture(scope="module", autouse=True)
def docs(local_airflow: LocalAirflow) -> None:
    folder = local_airflow.runs / "data_docs"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "index.html").exists():
        (folder / "index.html").write_text("the docs")


@pytest.mark.parametrize("page", [*PAGES, "/delivery/nothing", "/delivery/runs/..%2f.kdv/secrets/fernet_key"])
def test_without_credentials_every_page_is_401(local_airflow: LocalAirflow, page: str) -> None:
    assert local_airflow.http(None).get(page).status_code == 401


@pytest.mark.parametrize("user", ["viewer", "admin"])
@pytest.mark.parametrize("page", PAGES)
def test_a_viewer_may_read_the_reports(local_airflow: LocalAirflow, user: str, page: str) -> None:
    answer = local_airflow.http(user).get(page)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == "frame-ancestors 'self'"


@pytest.mark.parametrize(
    "path", ["runs/..%2f.kdv/secrets/fernet_key", "runs/%2e%2e/.kdv/secrets/fernet_key", "nothing"]
)
def test_what_is_no_report_is_404(local_airflow: LocalAirflow, path: str) -> None:
    assert (local_airflow.home / ".kdv" / "secrets" / "fernet_key").is_file()
    assert local_airflow.http("admin").get(f"/delivery/{path}").status_code == 404


def test_a_viewer_may_not_start_a_run(local_airflow: LocalAirflow) -> None:
    with pytest.raises(AirflowError, match="403"):
        local_airflow.client("viewer").trigger(DAG_ID, "by-a-viewer", {})


def test_a_field_that_does_not_exist_as_such_is_refused_by_the_form(local_airflow: LocalAirflow) -> None:
    bad = {"profile": "acks_2", "producer_overrides": "ack=1"}
    with pytest.raises(AirflowError, match=r"(?s)400.*2 errors:.*acks_2.*ack is no producer property"):
        local_airflow.client().trigger(DAG_ID, "bad-profile", bad)


def test_airflow_loaded_the_plugin_and_nothing_else_of_the_folder(local_airflow: LocalAirflow) -> None:
    assert local_airflow.client().get("/plugins/importErrors")["total_entries"] == 0
    found = local_airflow.client().get("/plugins?limit=100")["plugins"]
    assert [p["name"] for p in found if "PLUGINS_FOLDER" in p["source"]] == ["delivery_verifier"]


def test_it_listens_on_the_loopback_alone(local_airflow: LocalAirflow) -> None:
    with local_airflow.environment():
        state = supervisor.read_state()
    assert state is not None
    tree = psutil.Process(state.supervisor.pid).children(recursive=True)
    listening = {c.laddr[:2] for p in tree for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert {address.removeprefix("::ffff:") for address, _ in listening} == {"127.0.0.1"}
    assert ("127.0.0.1", local_airflow.port) in listening


def test_secrets_are_readable_by_their_owner_alone(local_airflow: LocalAirflow) -> None:
    state = local_airflow.home / ".kdv"
    files = [*(state / "secrets").iterdir(), state / "airflow" / "passwords.json"]
    assert len(files) == 5
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_bringing_it_up_again_finds_it(local_airflow: LocalAirflow) -> None:
    with local_airflow.environment():
        before = lifecycle.status()
        assert lifecycle.up() == before
        assert before.ready


def test_asking_for_another_port_while_it_runs_is_refused(local_airflow: LocalAirflow) -> None:
    with local_airflow.environment(), pytest.raises(AirflowError, match=f"runs on port {local_airflow.port} already"):
        lifecycle.up(local_airflow.port + 1)


def test_a_taken_port_is_refused_by_name_with_the_remedy(local_airflow: LocalAirflow, tmp_path: Path) -> None:
    second = LocalAirflow(tmp_path)
    second.port = local_airflow.port
    with pytest.raises(AirflowError, match=rf"port {second.port} is taken.*--port or KDV_PORT"):
        second.up()


def test_the_tab_of_a_run_that_failed_quotes_the_log_of_its_task(red_run: str, local_airflow: LocalAirflow) -> None:
    tab = local_airflow.http("viewer").get(f"/delivery/dag/{DAG_ID}/{red_run}/").text
    assert "Step plan failed" in tab
    assert "StepFailed: scenario.fail_step is plan" in tab
    assert "refresh" not in tab
    run = local_airflow.client().get(f"/dags/{DAG_ID}/dagRuns/{red_run}")
    assert run["note"].startswith("**NO VERDICT**: step `plan` failed.") and "scenario.fail_step is plan" in run["note"]


def test_a_run_that_fails_is_told_to_whom_the_variable_names(red_run: str, local_airflow: LocalAirflow) -> None:
    wait_until(
        lambda: bool(local_airflow.mail.about(red_run)), "the mail", 60, detail=lambda: str(local_airflow.mail.mails)
    )
    (text,) = local_airflow.mail.about(red_run)
    assert text.startswith(f"Delivery run is red: NO VERDICT ({red_run})")
    assert f"http://127.0.0.1:{local_airflow.port}/dags/{DAG_ID}/runs/" in text
    assert "not-to-be-told" not in text


def test_the_scheduler_has_the_libraries_of_the_tasks_and_the_triggerer_has_not(local_airflow: LocalAirflow) -> None:
    with local_airflow.environment():
        state = supervisor.read_state()
    assert state is not None

    def mapped(name: str) -> bool:
        return "/pandas/" in Path(f"/proc/{state.children[name].pid}/maps").read_text()

    assert mapped("scheduler") and not mapped("triggerer")
