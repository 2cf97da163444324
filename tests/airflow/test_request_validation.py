"""Tests of the validation of verify_delivery: bad input is refused when a run is triggered, with all errors at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.models.asset import AssetModel
from airflow.sdk import DAG
from airflow.utils.session import create_session
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient
from sqlalchemy import select

from delivery_verifier.orchestration.plugin import request_validation
from delivery_verifier.orchestration.tasks import form

DEFAULTS = {name: param.value for name, param in form.params().items()}
BAD = {
    "profile": "acks_2",
    "records": -5,
    "producer_overrides": "ack=1\nlinger.ms=abc\nlinger.ms.max=1\nretries=3",
    "topic_overrides": "min.isr=2",
}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A client of a small application behind the validation. It answers what it has received. The token `valid` is
    valid."""

    async def user_of(token: str | None) -> object:
        if token not in ("valid", "viewer"):
            raise HTTPException(401)
        return token

    def require_access(_request: Request, user: object) -> None:
        if user == "viewer":
            raise HTTPException(403)

    monkeypatch.setattr(request_validation, "resolve_user_from_token", user_of)
    monkeypatch.setattr(request_validation, "_require_access", require_access)
    app = FastAPI()
    app.add_middleware(request_validation.RequestValidation)

    @app.post("/{path:path}")
    async def echo(path: str, request: Request) -> Any:
        return {"path": f"/{path}", "body": (await request.body()).decode()}

    yield TestClient(app, headers={"Authorization": "Bearer valid"})


def _conf(**changes: object) -> dict[str, object]:
    return {"dag_run_id": "r", "logical_date": None, "conf": {**DEFAULTS, **changes}}


def test_all_errors_of_an_input_are_reported_at_once(client: TestClient) -> None:
    answer = client.post(request_validation.PATH, json=_conf(**BAD))
    assert answer.status_code == 400
    count, *errors = answer.json()["detail"].splitlines()
    assert count == "6 errors:"
    for part in (
        "profile is 'acks_2'",
        "records is -5",
        "ack is no",
        "linger.ms: librdkafka refuses: Invalid value",
        "linger.ms.max",
        "min.isr",
    ):
        assert [error for error in errors if part in error], part


def test_what_does_not_fit_together_is_refused_too(client: TestClient) -> None:
    answer = client.post(
        request_validation.PATH, json=_conf(producer_overrides="enable.idempotence=true\nacks=1", profile="acks_1")
    )
    assert answer.status_code == 400 and "acks" in answer.json()["detail"]


def test_what_no_cluster_allows_that_somebody_else_runs_is_refused_before_any_is_asked(client: TestClient) -> None:
    answer = client.post(request_validation.PATH, json=_conf(cluster="staging", rate=3000))
    lines = answer.json()["detail"].splitlines()
    assert answer.status_code == 400 and lines[0] == "2 errors:"
    assert "limit: more than 2,000 records/s are not sent" in lines[1] and "allowed there: --rate 2000" in lines[1]
    assert "fault: kill, start: only a cluster of the verifier's own can be broken so" in lines[2]
    wrong = client.post(request_validation.PATH, json=_conf(cluster="../staging", beside="a b/c"))
    assert "cluster is '../staging'; allowed: NAME, or airflow:CONN_ID" in wrong.json()["detail"]
    assert "beside is 'b/c'" in wrong.json()["detail"]
    fits = _conf(cluster="airflow:staging", fault="none", beside="r-1\nr-2")
    assert client.post(request_validation.PATH, json=fits).status_code == 200


@pytest.mark.parametrize("conf", [_conf(), {"conf": None}, {"conf": {}}, {"conf": 7}, [], "text"])
def test_what_is_not_refused_here_reaches_airflow_unchanged(client: TestClient, conf: object) -> None:
    answer = client.post(request_validation.PATH, json=conf)
    assert answer.status_code == 200
    assert answer.json()["body"] == client.post("/elsewhere", json=conf).json()["body"] != ""


def test_a_body_that_is_no_json_is_left_to_airflow(client: TestClient) -> None:
    assert client.post(request_validation.PATH, content=b"{").json()["body"] == "{"


def test_what_is_too_large_to_be_looked_at_does_not_reach_airflow(client: TestClient) -> None:
    """It could hold a password."""
    pasted = "#" * request_validation.MOST_BYTES + "\nssl.key.password=hunter22\n"
    answer = client.post(request_validation.PATH, json=_conf(profile="own", producer_config=pasted))
    assert answer.status_code == 400 and answer.json()["detail"].startswith("the request has more than 100,000 bytes")
    largest = _conf(profile="own", written_for="java", producer_config="#" * (request_validation.MOST_BYTES - 2000))
    assert client.post(request_validation.PATH, json=largest).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, {"Authorization": "Basic valid"}])
def test_who_has_not_logged_in_learns_nothing(client: TestClient, headers: dict[str, str]) -> None:
    client.headers.clear()
    assert (
        client.post(request_validation.PATH, json=_conf(**BAD), headers=headers).json()["path"]
        == request_validation.PATH
    )
    client.cookies.set("_token", "valid")
    assert client.post(request_validation.PATH, json=_conf(**BAD)).status_code == 400


def test_another_dag_is_not_looked_at(client: TestClient) -> None:
    assert client.post("/api/v2/dags/another/dagRuns", json=_conf(**BAD)).status_code == 200


def test_a_user_who_may_start_no_run_learns_nothing_from_the_validation(client: TestClient) -> None:
    assert (
        client.post(request_validation.PATH, json=_conf(**BAD), headers={"Authorization": "Bearer viewer"}).status_code
        == 200
    )
    assert client.post(request_validation.PATH, json=_conf(**BAD)).status_code == 400


@pytest.mark.parametrize("field", ["producer_config", "producer_overrides", "topic_overrides"])
def test_a_password_that_was_pasted_is_refused_with_all_other_errors_and_not_quoted(
    client: TestClient, field: str
) -> None:
    pasted = 'ack=all\nsasl.jaas.config=org.x.PlainLoginModule password="hunter22";\nssl.key.password=hunter22'
    answer = client.post(request_validation.PATH, json=_conf(**{field: pasted}, records=-5))
    assert answer.status_code == 400 and "hunter22" not in answer.text
    detail = answer.json()["detail"]
    assert f"{field} has values for sasl.jaas.config, ssl.key.password; no run uses them, and Airflow would" in detail
    assert "records is -5" in detail and "ack is no" in detail


def test_a_whole_file_is_taken(client: TestClient) -> None:
    pasted = "# orders\r\nbootstrap.servers=prod-1:9093\r\nkey.serializer=org.example.X\r\nacks=1\r\nlinger.ms=5\r\n"
    assert client.post(request_validation.PATH, json=_conf(profile="own", producer_config=pasted)).status_code == 200


@pytest.fixture
def asset(monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a request for the asset of the verdicts. The id of the asset is 7."""
    monkeypatch.setattr(request_validation, "_is_of_verdicts", lambda asset_id: asset_id == 7)
    return "/api/v2/assets/7/materialize"


def test_a_run_that_is_started_for_the_verdicts_asset_is_looked_at_too(client: TestClient, asset: str) -> None:
    answer = client.post(asset, json={"conf": {**DEFAULTS, "producer_overrides": "sasl.password=hunter22"}})
    assert answer.status_code == 400 and "sasl.password" in answer.text and "hunter22" not in answer.text
    assert client.post(asset, json={"conf": DEFAULTS}).status_code == client.post(asset).status_code == 200
    assert client.post(asset.replace("7", "8"), json={"conf": {"other": 1}}).status_code == 200


def test_the_verdicts_asset_is_known_by_the_dag_that_produces_it(written_dag: DAG) -> None:
    with create_session(scoped=False) as session:
        (asset_id,) = session.scalars(select(AssetModel.id).where(AssetModel.name == "kafka_delivery_verdict")).all()
    assert request_validation._is_of_verdicts(asset_id) and not request_validation._is_of_verdicts(asset_id + 1)
