"""Tests of the web pages that serve the reports: the files that they serve, and the files that they must refuse.
tests/e2e/test_local_airflow.py tests access control."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.models.dagrun import DagRun
from delivery_plugin import DeliveryPlugin
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session
from support.catalogue_runs import catalogue, item
from support.live_runs import flowing, reconciling
from support.run_builder import judged, planned, unjudged

from delivery_verifier.cluster import lease
from delivery_verifier.host import folders
from delivery_verifier.model import catalogue_run
from delivery_verifier.model.history import now_us
from delivery_verifier.model.live import LiveSpark
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.orchestration.plugin import airflow_runs, dag_runs, unreported
from delivery_verifier.orchestration.plugin import app as reports
from delivery_verifier.orchestration.plugin.dag_runs import State, Step
from delivery_verifier.progress import estimates
from delivery_verifier.reporting.matrix import page
from delivery_verifier.reporting.overview.unfinished import AirflowRun
from delivery_verifier.run_directory import catalogue_runs

RUN_ID = "manual__2026-01-01T00:00:00+00:00"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs" / "data_docs").mkdir(parents=True)
    (tmp_path / "runs" / "data_docs" / "index.html").write_text("the docs")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "runs"


KNOWN: dict[str, State] = {}
IN_AIRFLOW: dict[str, AirflowRun] = {}
READS_LOGS = True


@pytest.fixture
def client(runs: Path) -> Iterator[TestClient]:
    """A client of the pages without access control. Tests set in KNOWN what Airflow knows of a run."""
    for dependency in (*reports.app.router.dependencies, reports._MAY_READ_LOGS):
        reports.app.dependency_overrides[dependency.dependency] = lambda: None  # type: ignore[index]
    reports.app.dependency_overrides[dag_runs.state] = lambda: KNOWN.get(RUN_ID)
    reports.app.dependency_overrides[reports._reads_logs] = lambda: READS_LOGS
    reports.app.dependency_overrides[reports._reads_runs] = lambda: True
    reports.app.dependency_overrides[airflow_runs.newest] = lambda: IN_AIRFLOW
    yield TestClient(reports.app)
    reports.app.dependency_overrides.clear()
    KNOWN.clear()
    IN_AIRFLOW.clear()


def _finished(runs: Path, run_id: str = RUN_ID, sentence: str = "Nothing was lost.") -> Path:
    return judged(runs, folders.run_directory_name(run_id), sentence=sentence).path


def _known(state: str, **steps: str | None) -> None:
    KNOWN[RUN_ID] = State(
        state, [Step(name, at, [f"what {name} said"] * (at == "failed")) for name, at in steps.items()]
    )


def test_the_tab_of_a_run_leads_to_its_report(client: TestClient, runs: Path) -> None:
    _finished(runs)
    assert client.get(f"/dag/{DAG_ID}/{RUN_ID}/").text == "the report"


def _tab(client: TestClient) -> str:
    answer = client.get(f"/dag/{DAG_ID}/{RUN_ID}/")
    assert answer.status_code == 200
    return answer.text


def test_the_tab_of_a_run_at_work_names_the_phase_and_looks_again(client: TestClient) -> None:
    _known("running", plan="success", produce="running", inject_fault="running", settle=None)
    assert "<h1>Sending the load</h1>" in _tab(client)
    assert f'http-equiv="refresh" content="{unreported.LOOKS_AGAIN_S}"' in _tab(client)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the host's lock, which nobody holds."""
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    return tmp_path / "lock"


@pytest.mark.usefixtures("host")
def test_while_spark_works_the_tab_says_what_it_does(client: TestClient, runs: Path, tmp_path: Path) -> None:
    run = planned(runs, folders.run_directory_name(RUN_ID))
    file = reconciling(run, tmp_path / "w", LiveSpark("query", 5, 41, 64))
    _known("running", settle="running")
    assert "Spark:" not in _tab(client), "a file that a killed task left behind"
    _known("running", settle="success", reconcile="running")
    assert "<p>Spark: query 5, 41 of 64 tasks</p>" in _tab(client)
    file.write_text("{")
    assert "<h1>Spark reads the topics</h1>" in _tab(client) and "Spark:" not in _tab(client)


@pytest.mark.usefixtures("host")
def test_the_tab_of_a_run_at_work_shows_records_rate_fault_and_the_time_left(
    client: TestClient, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_us = now_us()  # the rate is that of the last seconds, and a busy host may take longer to render the page
    for module in ("support.live_runs", "delivery_verifier.progress.live", "delivery_verifier.progress.phases"):
        monkeypatch.setattr(f"{module}.now_us", lambda: at_us)
    flowing(runs, folders.run_directory_name(RUN_ID), tmp_path / "w")
    for name, seconds in (("earlier", 10), ("earlier-2", 20), ("earlier-3", 15)):
        earlier = _finished(runs, name)
        times = {"step": "reconcile", "started_at_us": 0, "finished_at_us": seconds * 1_000_000}
        (earlier / "reconcile.json").write_text(json.dumps(times))
    steps = [Step("plan", "success", [], 2.0), Step("start_cluster", "success", [], 9.0)]
    steps += [Step("create_topics", "success", [], 3.0), Step("produce", "running", [], 9.0)]
    KNOWN[RUN_ID] = State("running", [*steps, Step("inject_fault", "running", [], 9.0), Step("settle", None)])
    text = " ".join(re.sub(r"<(?!title)[^>]*>", " ", _tab(client)).split())
    assert "reports per second" in text and "safe 900 1,000" in text
    assert (
        re.search(r"Load under the fault kill_leader: kill \(broker 1\) \d+ s ago", text)
        and "Fault kill_leader : 4.0 s kill (broker 1)" in text
    )
    load = planned(runs, "as-planned").read_scenario().load
    usual_s = {**estimates.DEFAULTS_S, "reconcile": 15.0, "conclude": 0.0}  # the runs beside it have these two
    left_s = load.duration_s + load.recovery_s - 9 + sum(usual_s.values())
    assert f"23 s so far, about {left_s:.0f} s left (from 3 earlier runs on this host)" in text
    assert "produce 9 s" in text and '<polyline class="line-0" points="' in _tab(client)


def test_the_tab_of_a_run_that_waits_says_first_who_uses_the_host(client: TestClient, host: Path) -> None:
    _known("queued")
    assert "This host is in use" not in _tab(client)
    with lease.acquire_host("kdv-of-another"):
        assert re.search(r"<p>This host is in use: kdv-of-another \(pid \d+", _tab(client))
    assert "This host is in use" not in _tab(client)


def test_the_tab_of_a_failed_run_says_which_step_failed_and_why_and_rests(client: TestClient) -> None:
    _known("failed", plan="success", settle="failed", reconcile="upstream_failed")
    text = _tab(client)
    assert "Step settle failed" in text
    assert "what settle said" in text
    assert "what reconcile said" not in text
    assert f"/dags/{DAG_ID}/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00/tasks/settle" in text
    assert "refresh" not in text


def test_while_a_failed_run_still_cleans_up_its_tab_looks_again(client: TestClient) -> None:
    _known("running", settle="failed", stop_cluster="running")
    assert "Step settle failed" in _tab(client)
    assert "refresh" in _tab(client)


@pytest.mark.parametrize(
    ("state", "steps", "told"),
    [
        ("queued", {}, "Waiting to begin"),
        ("running", {"plan": "success"}, "Next: starting the cluster"),
        ("failed", {"plan": "success", "settle": "skipped"}, "The run was ended"),
        ("failed", {"plan": "success", "settle": "skipped", "conclude": "failed"}, "The run was ended"),
        ("failed", {"plan": "success", "settle": "failed", "conclude": "failed"}, "Step settle failed"),
        (
            "failed",
            {"plan": "success", "settle": "skipped", "conclude": "failed", "publish_verdict": "skipped"},
            "The run was ended",
        ),
        ("failed", {"validate": "success", "conclude": "failed", "publish_verdict": "skipped"}, "Step conclude failed"),
        ("success", {"plan": "success"}, "The report is gone"),
    ],
)
def test_the_tab_tells_every_other_state_and_rests_when_the_run_has_ended(
    client: TestClient, state: str, steps: dict[str, str], told: str
) -> None:
    _known(state, **steps)
    assert told in _tab(client)
    assert ("refresh" in _tab(client)) == (state in ("queued", "running"))


def test_the_tab_of_a_run_that_ended_without_a_verdict_says_how_to_judge_it(client: TestClient, runs: Path) -> None:
    unjudged(runs, folders.run_directory_name(RUN_ID))
    for state, is_said in (("running", False), ("failed", True)):
        _known(state, validate="failed", conclude="failed")
        assert (f"kdv reconcile {folders.run_directory_name(RUN_ID)}" in _tab(client)) == is_said


def test_the_tab_of_a_judged_run_whose_report_could_not_be_written_says_its_verdict(
    client: TestClient, runs: Path
) -> None:
    run = judged(runs, folders.run_directory_name(RUN_ID), "VIOLATED", lost=3)
    verdict = run.verdict()
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
        output.notes["not_written/report.html"] = "OSError: no space left"
    (run.path / "report.html").unlink()
    _known("failed", conclude="failed")
    text = _tab(client)
    assert "VIOLATED, without a report" in text and "3 lost." in text and "no space left" in text
    assert "nothing is known" not in text


def test_the_tab_of_a_run_that_airflow_does_not_know_is_a_page_that_rests(client: TestClient) -> None:
    assert "no such run" in _tab(client)
    assert "refresh" not in _tab(client)


def test_what_a_failed_step_said_never_becomes_markup(client: TestClient) -> None:
    KNOWN[RUN_ID] = State("failed", [Step("settle", "failed", ["<script>alert(1)</script>"])])
    assert "<script>alert" not in _tab(client)


def test_the_data_docs_tab_leads_to_the_runs_place_in_the_list(client: TestClient, runs: Path) -> None:
    page = f"/dag/{DAG_ID}/{RUN_ID}/docs/"
    assert "no Data Docs" in client.get(page).text
    run = planned(runs, folders.run_directory_name(RUN_ID)).path
    (run / "validate.json").write_text("{}")
    answer = client.get(page, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (
        307,
        f"../../../../runs/data_docs/index.html#{run.name}",
    )


def test_a_run_of_another_dag_never_shows_our_report_though_it_has_the_same_id(client: TestClient, runs: Path) -> None:
    _finished(runs)
    page = client.get(f"/dag/other_dag/{RUN_ID}/")
    assert "the report" not in page.text
    assert "This DAG has no delivery report" in page.text


def test_data_docs_are_served(client: TestClient) -> None:
    assert client.get("/docs/").text == client.get("/docs/index.html").text == "the docs"
    assert client.get("/runs/data_docs/index.html").text == "the docs"


def test_the_list_is_filtered_by_what_the_address_asks_for(client: TestClient, runs: Path) -> None:
    judged(runs, "one", "VIOLATED", lost=3, profile="acks_1")
    judged(runs, "two")
    page = client.get("/?verdict=VIOLATED&profile=acks_1&fault=&text=").text
    assert "runs/one/" in page
    assert "runs/two/" not in page
    assert client.get(f"/?text={'x' * 201}").status_code == 422


def test_the_list_shows_each_run_with_its_verdict_and_escapes_what_it_says(client: TestClient, runs: Path) -> None:
    _finished(runs, sentence="<script>alert(1)</script>")
    planned(runs, "half")
    page = client.get("/").text
    assert "HELD" in page
    assert "NO VERDICT" in page
    assert "<script>alert" not in page


def test_the_list_shows_the_runs_that_only_airflow_knows(client: TestClient, runs: Path) -> None:
    page, begun_at = "../dags/verify_delivery/runs/bad", datetime(2026, 11, 22, tzinfo=UTC)
    IN_AIRFLOW["bad"] = AirflowRun(name="bad", page=page, state="failed", begun_at=begun_at)
    text = client.get("/").text
    assert "failed before it was planned" in text and f'href="{page}" target="_top"' in text


def test_the_newest_dag_runs_are_read_from_airflows_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'airflow.db'}")
    DagRun.__table__.create(engine)
    begun_at = datetime(2026, 11, 22, 6, tzinfo=UTC)
    rows = [(DAG_ID, RUN_ID, "running"), (DAG_ID, "done", "success"), ("other", "foreign", "running")]
    with Session(engine) as session:
        for number, (dag_id, run_id, state) in enumerate(rows):
            values = {"id": number, "dag_id": dag_id, "run_id": run_id, "state": state, "run_type": "manual"}
            filled = {"run_after": begun_at, "updated_at": begun_at, "log_template_id": 1, "clear_number": 0}
            session.execute(insert(DagRun.__table__).values(**values, **filled))
        session.commit()
    monkeypatch.setattr(airflow_runs, "create_session", lambda scoped: Session(engine))
    known = airflow_runs.newest()
    assert [(run.name, run.state, run.begun_at) for run in known.values()] == [
        ("done", "success", begun_at),
        (folders.run_directory_name(RUN_ID), "running", begun_at),
    ]
    quoted = "manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    assert known[folders.run_directory_name(RUN_ID)].page == f"../dags/{DAG_ID}/runs/{quoted}"
    monkeypatch.setattr(airflow_runs, "LISTED", 1)
    assert list(airflow_runs.newest()) == ["done"]
    assert airflow_runs.sentinels() == {}


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..%2fsecret.txt",
        "/runs/%2e%2e/secret.txt",
        "/docs/..%2f..%2fsecret.txt",
        "/runs//etc/passwd",
        "/runs/nothing.html",
        "/docs/%00",
        "/runs/.staging/x",
    ],
)
def test_whatever_is_outside_hidden_or_missing_is_404(client: TestClient, runs: Path, path: str) -> None:
    (runs / ".staging").mkdir()
    (runs / ".staging" / "x").write_text("half-written")
    assert client.get(path).status_code == 404


def test_a_link_that_leads_outside_is_404(client: TestClient, runs: Path) -> None:
    (runs / "link.txt").symlink_to(runs.parent / "secret.txt")
    assert client.get("/runs/link.txt").status_code == 404


@pytest.mark.parametrize("path", ["/", "/docs/index.html", "/runs/nothing.html"])
def test_every_answer_refuses_foreign_frames_and_guessing_of_types(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == "frame-ancestors 'self'"
    assert headers["x-content-type-options"] == "nosniff"


def _catalogues(runs: Path) -> None:
    for number, name in enumerate(["older", "newer"]):
        found = catalogue(item("a", "as expected"), id=name, started_at=f"2026-11-2{number}T02:00:00+00:00")
        catalogue_runs.write(found)
        page.write(found)


def test_the_matrix_is_that_of_the_newest_catalogue_run_and_lists_all(client: TestClient, runs: Path) -> None:
    assert "No catalogue run yet" in client.get("/matrix/").text
    _catalogues(runs)
    text = client.get("/matrix/").text
    assert (
        "matrix of catalogue run newer" in text
        and 'href="?run=older"' in text
        and 'href="../runs/c-a-1/report.html"' in text
    )
    assert "matrix of catalogue run older" in client.get("/matrix/?run=older").text
    assert client.get("/matrix/?run=../../secret.txt").status_code == 404
    assert client.get("/matrix/").headers["content-security-policy"] == "frame-ancestors 'self'"


def test_the_tab_of_a_catalogue_run_leads_to_its_matrix(client: TestClient, runs: Path) -> None:
    _catalogues(runs)
    assert "matrix of catalogue run older" in client.get(f"/dag/{CATALOGUE_DAG_ID}/older/").text
    assert "a matrix once their plan is made" in client.get(f"/dag/{CATALOGUE_DAG_ID}/never/").text


def test_the_stored_page_of_a_catalogue_run_is_served_too_and_nothing_hidden(client: TestClient, runs: Path) -> None:
    _catalogues(runs)
    (runs / "catalogues" / "older" / ".catalogue.json.1.partial").write_text("{}")
    assert "matrix of catalogue run older" in client.get("/runs/catalogues/older/matrix.html").text
    assert client.get("/runs/catalogues/older/.catalogue.json.1.partial").status_code == 404
    assert client.get("/runs/catalogues/..%2f..%2fsecret.txt").status_code == 404


@pytest.fixture
def logs_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the pages treat the user as one who may not read the logs of tasks."""
    monkeypatch.setattr(sys.modules[__name__], "READS_LOGS", False)


def _failed_catalogue() -> str:
    """Writes a catalogue run in which one run failed. Returns the error of the failed run."""
    found = catalogue(item("a", "failed"), item("b", "as expected"))
    catalogue_runs.write(found)
    page.write(found)
    return found.items[0].attempts[0].error


def test_the_matrix_tells_what_a_failed_run_said(client: TestClient, runs: Path) -> None:
    said = _failed_catalogue()
    assert said in client.get("/matrix/").text and said in client.get("/runs/catalogues/c/catalogue.json").text


@pytest.mark.usefixtures("logs_withheld")
def test_what_a_failed_run_said_is_told_to_nobody_who_may_not_read_logs(client: TestClient, runs: Path) -> None:
    said = _failed_catalogue()
    text = client.get("/matrix/").text
    assert said not in text and catalogue_run.UNTOLD in text
    for path in ("catalogues/c/catalogue.json", "catalogues/c/matrix.html", "x/..%2fcatalogues/c/catalogue.json"):
        answer = client.get(f"/runs/{path}")
        assert answer.status_code in (403, 404) and said not in answer.text
    (runs / "x").mkdir()
    assert client.get("/runs/x/..%2fcatalogues/c/catalogue.json").status_code == 403


def test_a_report_whose_judgement_is_void_is_not_shown(client: TestClient, runs: Path) -> None:
    run = _finished(runs)
    assert client.get(f"/runs/{run.name}/report.html").text == "the report"
    (run / "conclude.json").unlink()
    text = client.get(f"/runs/{run.name}/report.html").text
    assert "This report is void" in text and "the report" not in text.replace("delivery report", "")


def test_each_page_and_tab_has_an_icon_for_each_theme_and_a_name_that_the_navigation_shows_whole(
    client: TestClient,
) -> None:
    icons = [view[key] for view in DeliveryPlugin.external_views for key in ("icon", "icon_dark_mode")]
    assert len({client.get(path.removeprefix("delivery")).text for path in icons}) == len(icons) == 10
    for path in icons:
        assert client.get(path.removeprefix("delivery")).headers["content-type"].startswith("image/svg")
    # Airflow's navigation has room for about ten characters.
    assert all(len(view["name"]) <= 10 for view in DeliveryPlugin.external_views if view["destination"] == "nav")
