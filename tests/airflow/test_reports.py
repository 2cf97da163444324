"""The reports' pages: what they serve, and what they never do. (Access control: test_local_airflow.py.)"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from delivery_verifier import home
from delivery_verifier.orchestration import reports
from delivery_verifier.orchestration.settings import DAG_ID

RUN_ID = "manual__2026-01-01T00:00:00+00:00"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs" / "data_docs").mkdir(parents=True)
    (tmp_path / "runs" / "data_docs" / "index.html").write_text("the docs")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "runs"


@pytest.fixture
def client(runs: Path) -> Iterator[TestClient]:
    for dependency in reports.app.router.dependencies:
        reports.app.dependency_overrides[dependency.dependency] = lambda: None  # type: ignore[index]
    yield TestClient(reports.app)
    reports.app.dependency_overrides.clear()


def _finished(runs: Path, run_id: str = RUN_ID, sentence: str = "Nothing was lost.") -> Path:
    run = runs / home.run_directory_name(run_id)
    run.mkdir()
    (run / "scenario.json").write_text("{}")
    (run / "report.html").write_text("the report")
    verdict = {"run_id": run.name, "scenario": "s", "verdict": "HELD", "green": True, "sentence": sentence}
    (run / "verdict.json").write_text(json.dumps({**verdict, "limits": [], "arms": []}))
    return run


def test_the_tab_of_a_run_leads_to_its_report(client: TestClient, runs: Path) -> None:
    _finished(runs)
    assert client.get(f"/dag/{DAG_ID}/{RUN_ID}/").text == "the report"


def test_the_tab_of_an_unfinished_run_says_what_is_done_and_looks_again(client: TestClient, runs: Path) -> None:
    run = runs / home.run_directory_name(RUN_ID)
    run.mkdir()
    (run / "plan.json").write_text("{}")
    page = client.get(f"/dag/{DAG_ID}/{RUN_ID}/")
    assert page.status_code == 200
    assert "Steps finished: plan." in page.text
    assert 'http-equiv="refresh"' in page.text


def test_the_tab_of_a_run_without_directory_is_a_page_not_an_error(client: TestClient) -> None:
    page = client.get(f"/dag/{DAG_ID}/never-planned/")
    assert (page.status_code, "not been planned" in page.text) == (200, True)


def test_a_run_of_another_dag_never_shows_our_report_though_it_has_the_same_id(client: TestClient, runs: Path) -> None:
    _finished(runs)
    page = client.get(f"/dag/other_dag/{RUN_ID}/")
    assert "the report" not in page.text
    assert "this DAG has none" in page.text


def test_data_docs_are_served(client: TestClient) -> None:
    assert client.get("/docs/").text == client.get("/docs/index.html").text == "the docs"
    assert client.get("/runs/data_docs/index.html").text == "the docs"


def test_the_list_shows_each_run_with_its_verdict_and_escapes_what_it_says(client: TestClient, runs: Path) -> None:
    _finished(runs, sentence="<script>alert(1)</script>")
    (runs / "half").mkdir()
    (runs / "half" / "scenario.json").write_text("{}")
    page = client.get("/").text
    assert "HELD" in page
    assert "no verdict" in page
    assert "<script>alert" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..%2fsecret.txt", "/runs/%2e%2e/secret.txt", "/docs/..%2f..%2fsecret.txt", "/runs//etc/passwd",
        "/runs/nothing.html", "/docs/%00", "/runs/.staging/x",
    ],
)  # fmt: skip
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
