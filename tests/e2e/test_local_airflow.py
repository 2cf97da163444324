"""Tests of a real local Airflow: access rights, the address on which it listens, the answers to refused requests, the
mail about a red run, and the code that its tasks run."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.airflow import LocalAirflow
from support.patience import PATIENCE_S

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import lifecycle, offered, settings, supervisor
from delivery_verifier.orchestration.client import AirflowError
from delivery_verifier.orchestration.failures import RunFailed
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.orchestration.plugin import current_code

REFUSED_WITHIN_S = 60.0
"""The most seconds from the beginning of a run to its refusal by `plan`, by Airflow's own clock."""
PAGES = [
    "/delivery/",
    f"/delivery/dag/{DAG_ID}/never/",
    "/delivery/dag/other/run/",
    f"/delivery/dag/{DAG_ID}/never/docs/",
    "/delivery/docs/index.html",
    "/delivery/runs/data_docs/index.html",
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
    "path",
    [
        "runs/..%2f.kdv/secrets/fernet_key",
        "runs/%2e%2e/.kdv/secrets/fernet_key",
        "runs/data_docs/..%2f..%2f.kdv/secrets/fernet_key",
        "nothing",
    ],
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


def test_a_run_for_the_verdicts_asset_is_refused_by_the_form_as_well(local_airflow: LocalAirflow) -> None:
    client = local_airflow.client()
    (asset,) = client.get("/assets?name_pattern=kafka_delivery_verdict")["assets"]
    bad = {"conf": {"records": -5, "producer_overrides": "sasl.password=hunter22"}}
    with pytest.raises(AirflowError, match=r"(?s)400.*2 errors:.*records is -5.*has values for sasl.password"):
        client._api("POST", f"/assets/{asset['id']}/materialize", bad)


PAST_THE_FORM = "past-the-form"


@pytest.fixture(scope="module")
def past_the_form(local_airflow: LocalAirflow) -> dict[str, Any]:
    """A run that ended red, as Airflow describes it. It was triggered with bad input, past the form."""
    pasted = "key.serializer=x\nack=1\nlinger.ms=abc\nssl.key.password=hunter22\n"
    conf = {"profile": "own", "producer_config": pasted, "topic_overrides": "min.isr=1"}
    line = ["dags", "trigger", DAG_ID, "--run-id", PAST_THE_FORM, "--conf", json.dumps(conf)]
    with local_airflow.environment():
        environment = settings.environment(local_airflow.port)
        subprocess.run([sys.executable, "-m", "airflow", *line], env=environment, check=True, timeout=PATIENCE_S)
        local_airflow.wait_until_ended(PAST_THE_FORM)
        run: dict[str, Any] = local_airflow.client().get(f"/dags/{DAG_ID}/dagRuns/{PAST_THE_FORM}")
        return run


def test_a_run_past_the_form_is_refused_by_its_first_task_at_once_with_all_errors(
    past_the_form: dict[str, Any], local_airflow: LocalAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = {task.task_id: task for task in local_airflow.client().tasks(DAG_ID, PAST_THE_FORM)}
    plan = tasks["plan"]
    assert (past_the_form["state"], plan.state, tasks["start_cluster"].state) == ("failed", "failed", "upstream_failed")
    for part in ("4 errors:", "has values for ssl.key.password", "ack is no", "linger.ms is 'abc'", "min.isr is no"):
        assert part in past_the_form["note"], part
    begun, at_work, refused = map(
        datetime.fromisoformat, (past_the_form["start_date"], str(plan.start_date), str(plan.end_date))
    )
    with capsys.disabled():
        print(f"\nrefused {refused - begun} after the run began, {refused - at_work} after the task began")
    assert (refused - begun).total_seconds() < REFUSED_WITHIN_S


def test_a_password_past_the_form_is_in_no_log_in_no_page_and_in_no_file_of_a_run(
    past_the_form: dict[str, Any], local_airflow: LocalAirflow
) -> None:
    """Airflow itself has stored it with the fields of the run. That is why the form refuses it."""
    assert "hunter22" in str(past_the_form["conf"]) and "hunter22" not in str(past_the_form["note"])
    files = [*local_airflow.runs.rglob("*"), *(local_airflow.home / ".kdv" / "airflow" / "logs").rglob("*")]
    texts = {file: file.read_bytes() for file in files if file.is_file()}
    assert any(b"ack is no producer property" in text for text in texts.values()), "its log is among them"
    assert [file for file, text in texts.items() if b"hunter22" in text] == []
    pages = ("/delivery/", f"/delivery/dag/{DAG_ID}/{PAST_THE_FORM}/")
    assert not [page for page in pages if "hunter22" in local_airflow.http("admin").get(page).text]
    wait_until(lambda: bool(local_airflow.mail.about(PAST_THE_FORM)), "the mail", PATIENCE_S)
    assert "hunter22" not in "".join(local_airflow.mail.about(PAST_THE_FORM))


def test_an_application_that_is_written_while_airflow_runs_is_offered_and_taken(
    local_airflow: LocalAirflow, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, said = local_airflow.home / "applications", list[str]()
    folder.mkdir()
    (folder / "late.toml").write_text('command = "true"\n')
    begun_s = time.monotonic()
    with local_airflow.environment():
        offered.wait(local_airflow.client(), {"application": "late"}, said.append)
    with capsys.disabled():
        print(f"\noffered after {time.monotonic() - begun_s:.1f} s: {said}")
    with pytest.raises(RunFailed, match=r"scenario\.fail_step is plan"):
        local_airflow.run({"application": "late", "fail_step": "plan"})


def test_airflow_loaded_the_plugin_and_nothing_else_of_the_folder(local_airflow: LocalAirflow) -> None:
    assert local_airflow.client().get("/plugins/importErrors")["total_entries"] == 0
    found = local_airflow.client().get("/plugins?limit=100")["plugins"]
    assert [p["name"] for p in found if "PLUGINS_FOLDER" in p["source"]] == ["delivery_verifier"]


def test_it_listens_on_the_loopback_alone(local_airflow: LocalAirflow) -> None:
    with local_airflow.environment():
        state = supervisor.read_state()
    assert state is not None
    listening = _listening(psutil.Process(state.supervisor.pid))
    assert {address.removeprefix("::ffff:") for address, _ in listening} == {"127.0.0.1"}
    assert ("127.0.0.1", local_airflow.port) in listening


def _listening(parent: psutil.Process) -> set[tuple[str, int]]:
    """Returns the addresses on which the children of a process listen. Looks again if a child ended meanwhile."""
    found: set[tuple[str, int]] = set()

    def looked() -> bool:
        try:
            connections = [one for child in parent.children(recursive=True) for one in child.net_connections("tcp")]
        except psutil.NoSuchProcess:
            return False
        found.update(one.laddr[:2] for one in connections if one.status == psutil.CONN_LISTEN)
        return True

    wait_until(looked, "a look during which no process ends", PATIENCE_S)
    return found


def test_secrets_are_readable_by_their_owner_alone(local_airflow: LocalAirflow) -> None:
    state = local_airflow.home / ".kdv"
    files = [*(state / "secrets").iterdir(), state / "airflow" / "passwords.json"]
    assert len(files) == 5
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_no_setting_of_it_is_in_a_file(local_airflow: LocalAirflow) -> None:
    with local_airflow.environment():
        home = settings.airflow_home()
    assert [line for line in (home / "airflow.cfg").read_text().splitlines() if not line.startswith("#")] == []


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
        lambda: bool(local_airflow.mail.about(red_run)),
        "the mail",
        PATIENCE_S,
        detail=lambda: str(local_airflow.mail.mails),
    )
    (text,) = local_airflow.mail.about(red_run)
    assert text.startswith(f"Delivery run is red: NO VERDICT ({red_run})")
    assert f"http://127.0.0.1:{local_airflow.port}/dags/{DAG_ID}/runs/" in text
    assert "not-to-be-told" not in text


def test_a_task_imports_the_code_of_the_project_anew(red_run: str, local_airflow: LocalAirflow) -> None:
    logs = local_airflow.home / ".kdv" / "airflow" / "logs" / f"dag_id={DAG_ID}"
    (text,) = [file.read_text() for file in logs.glob(f"run_id={red_run}/task_id=plan/*.log")]
    assert "scenario.fail_step is plan" in text and current_code.FORGOTTEN in text
