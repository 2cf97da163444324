"""Tests of the pages of sentinels in Airflow: the history, the tab of a run without a report, and what is left out of
the page of all runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.run_builder import judged
from support.sentinels import BEGUN_US, CLUSTER, MINUTE_US, WHY, result

from delivery_verifier.model.sentinel import State
from delivery_verifier.orchestration.names import DAG_ID, SENTINEL_DAG_ID
from delivery_verifier.orchestration.plugin import airflow_runs, app, dag_runs
from delivery_verifier.orchestration.plugin.dag_runs import State as AirflowState
from delivery_verifier.orchestration.plugin.dag_runs import Step
from delivery_verifier.reporting.overview.unfinished import AirflowRun
from delivery_verifier.reporting.sentinel.page import UNTOLD
from delivery_verifier.run_directory import sentinel_history

READS = {"logs": True, "runs": True}
IN_AIRFLOW: dict[str, AirflowRun] = {}
KNOWN: dict[str, AirflowState] = {}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def client(runs: Path) -> Iterator[TestClient]:
    """A client of the pages, without access control but READS."""
    given = app.app.dependency_overrides
    for dependency in (*app.app.router.dependencies, app._MAY_READ_LOGS):
        given[dependency.dependency] = lambda: None  # type: ignore[index]
    given |= {
        app._reads_logs: lambda: READS["logs"],
        app._reads_runs: lambda: READS["runs"],
        airflow_runs.newest: lambda: IN_AIRFLOW,
        airflow_runs.sentinels: lambda: IN_AIRFLOW,
        dag_runs.state: lambda: next(iter(KNOWN.values()), None),
    }
    yield TestClient(app.app)
    given.clear()
    IN_AIRFLOW.clear()
    KNOWN.clear()
    READS.update(logs=True, runs=True)


def in_airflow(minute: int, state: str, run: str = "", is_sentinel: bool = True) -> None:
    run = run or f"scheduled__{minute:05}"
    IN_AIRFLOW[run] = AirflowRun(
        name=run,
        page=f"../dags/x/runs/{run}",
        state=state,  # type: ignore[arg-type]
        begun_at=datetime.fromtimestamp((BEGUN_US + minute * MINUTE_US) / 1e6, UTC),
        run_id=run,
        is_sentinel=is_sentinel,
    )


def added(*states: State) -> None:
    for minute, state in enumerate(states):
        sentinel_history.add(result(state, minute))


def test_the_history_of_every_cluster_stands_on_one_page(client: TestClient) -> None:
    assert "No result yet" in client.get("/sentinel/").text
    added("HELD", "NO VERDICT", "SKIPPED")
    sentinel_history.add(result("VIOLATED", cluster="airflow:prod"))
    text = client.get("/sentinel/").text
    assert text.index("Cluster airflow:prod") < text.index(f"Cluster {CLUSTER}")
    assert WHY["NO VERDICT"] in text and WHY["SKIPPED"] in text


def test_a_run_that_left_no_result_is_named_and_one_that_goes_on_is_not(client: TestClient) -> None:
    added("HELD", "HELD")
    in_airflow(0, "success")
    in_airflow(-60, "failed")  # older than all results
    in_airflow(2, "failed", "lost")
    in_airflow(3, "running", "under-way")
    text = client.get("/sentinel/").text
    assert "1 run of the DAG left no result" in text and f"../../dags/{SENTINEL_DAG_ID}/runs/lost" in text
    assert "under-way" not in text
    READS["runs"] = False
    assert "left no result" not in client.get("/sentinel/").text


def test_who_may_not_read_logs_learns_no_reason_of_a_failure(client: TestClient, runs: Path) -> None:
    added("NO VERDICT")
    READS["logs"] = False
    text = client.get("/sentinel/").text
    assert WHY["NO VERDICT"] not in text and UNTOLD in text
    (file,) = runs.glob("sentinels/*/*.jsonl")
    assert client.get(f"/runs/{file.relative_to(runs)}").status_code == 403
    READS["logs"] = True
    assert client.get(f"/runs/{file.relative_to(runs)}").status_code == 200


@pytest.mark.parametrize(
    ("state", "headline"),
    [("SKIPPED", "The run was skipped"), ("NO VERDICT", "The run failed"), ("HELD", "The report is gone")],
)
def test_the_tab_of_a_run_without_a_report_says_what_became_of_it(
    client: TestClient, state: State, headline: str
) -> None:
    added(state)
    KNOWN["it"] = AirflowState("success", [Step("plan", "skipped"), Step("conclude", "skipped")])
    text = client.get(f"/dag/{SENTINEL_DAG_ID}/scheduled__00000/").text
    assert headline in text and WHY[state] in text and "HELD</span>" not in text


def test_the_tab_of_a_run_with_a_report_shows_it(client: TestClient, runs: Path) -> None:
    added("HELD")
    judged(runs, "scheduled__00000")
    assert client.get(f"/dag/{SENTINEL_DAG_ID}/scheduled__00000/").text == "the report"


def test_the_page_of_all_runs_leaves_out_what_only_the_history_knows(client: TestClient, runs: Path) -> None:
    judged(runs, "kept")
    for minute, (state, run) in enumerate([("success", "kept"), ("success", "skipped-1"), ("running", "at-work")]):
        in_airflow(minute, state, run)
    in_airflow(9, "failed", "of-a-user", is_sentinel=False)
    text = client.get("/").text
    assert all(run in text for run in ("kept", "at-work", "of-a-user")) and "skipped-1" not in text


def test_the_runs_of_sentinels_hide_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(airflow_runs, "_newest", lambda dag_ids: asked.append(dag_ids) or {})
    assert airflow_runs.newest() == {}
    assert asked == [[DAG_ID, "audit_delivery"], [SENTINEL_DAG_ID]]
