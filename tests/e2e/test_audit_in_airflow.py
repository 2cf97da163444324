"""Tests of an audit through Airflow: from the form to the report, once held and once violated, on a real broker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from support.airflow import LocalAirflow
from support.foreign_ledgers import HEADER, ForeignApplication, as_json_lines
from support.new_topics import create_topics
from support.one_broker import one_broker
from support.patience import LOOK_EVERY_S, PATIENCE_S

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow.run import patiently
from delivery_verifier.orchestration.client import ENDED
from delivery_verifier.orchestration.names import AUDIT_DAG_ID
from delivery_verifier.store.run_directory import RunDirectory

TOPIC, RECORDS = "orders", 200
HELD, VIOLATED, REFUSED = "audit-held", "audit-violated", "audit-refused"


@pytest.fixture(scope="module")
def ended(local_airflow: LocalAirflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The states of three audits: of a sound ledger, of one with a claim that no record has, and of no file."""
    folder = tmp_path_factory.mktemp("ledgers")
    with tempfile.TemporaryDirectory(prefix="kdv-t-") as workspace, one_broker(Path(workspace) / "w") as servers:
        create_topics({"bootstrap.servers": servers}, NewTopic(TOPIC, 2, 1), may_be_fenced=True)
        application = ForeignApplication(servers, TOPIC)
        application.write_many([f"order-{number}" for number in range(RECORDS)])
        as_json_lines(folder / "sound.jsonl", application.rows, complete=True)
        application.claim("never-written", 0, 3)
        as_json_lines(folder / "lost.jsonl", application.rows, complete=True)
        known: dict[str, Any] = {"topic": TOPIC, "cluster": servers, "identity": f"header:{HEADER}"}
        known["producer_config"] = "acks=all\nenable.idempotence=true\n"
        files = {HELD: "sound.jsonl", VIOLATED: "lost.jsonl", REFUSED: "missing.jsonl"}
        with local_airflow.environment():
            client = local_airflow.client()
            for run_id, file in files.items():
                client.trigger(AUDIT_DAG_ID, run_id, {**known, "ledger": str(folder / file)})

            def states() -> dict[str, str]:
                return {name: patiently(lambda name=name: client.state(AUDIT_DAG_ID, name)) for name in files}

            wait_until(
                lambda: set(states().values()) <= set(ENDED),
                "the audits to end",
                PATIENCE_S,
                LOOK_EVERY_S,
                detail=lambda: str(states()),
            )
            yield states()


def test_an_audit_is_green_if_it_is_held_and_red_if_not(ended: dict[str, str], local_airflow: LocalAirflow) -> None:
    assert ended == {HELD: "success", VIOLATED: "failed", REFUSED: "failed"}
    verdicts = {run_id: RunDirectory(local_airflow.runs / run_id).verdict() for run_id in (HELD, VIOLATED)}
    assert {run_id: verdict.verdict for run_id, verdict in verdicts.items()} == {HELD: "HELD", VIOLATED: "VIOLATED"}
    assert f"{RECORDS:,} acknowledged" in verdicts[HELD].sentence


def test_a_form_that_names_no_file_says_so_in_the_log_of_plan(
    ended: dict[str, str], local_airflow: LocalAirflow
) -> None:
    client = local_airflow.client()
    (plan,) = [task for task in client.tasks(AUDIT_DAG_ID, REFUSED) if task.task_id == "plan"]
    assert any("there is no such file" in line for line in client.log_tail(AUDIT_DAG_ID, REFUSED, plan, 40))
    assert not (local_airflow.runs / REFUSED).exists()


def test_the_tab_shows_the_report_and_the_overview_lists_every_audit(
    ended: dict[str, str], local_airflow: LocalAirflow
) -> None:
    http = local_airflow.http("viewer")
    tab = http.get(f"/delivery/dag/{AUDIT_DAG_ID}/{VIOLATED}/", follow_redirects=True).raise_for_status()
    assert "of the claims in lost.jsonl" in tab.text
    overview = http.get("/delivery/").raise_for_status().text
    assert all(run_id in overview for run_id in ended)
    assert f"dags/{AUDIT_DAG_ID}/runs/{REFUSED}" in overview
