"""Tests of the mail about a red run: its recipients, its content, and what it must not contain.

`tests/e2e/test_local_airflow.py` has a real red run whose mail arrives.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from support.mail import sink
from support.runs_for_overview import judged

from delivery_verifier.host import folders
from delivery_verifier.orchestration.local.settings import DAG_ID
from delivery_verifier.orchestration.tasks import notify

DAGS = Path(__file__).resolve().parents[2] / "dags"
RUN_ID = "manual__2026-01-01T00:00:00+00:00"


def test_by_default_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(notify.VARIABLE, raising=False)
    assert notify.on_red() == []
    assert not DagBag(dag_folder=str(DAGS)).dags[DAG_ID].on_failure_callback


def test_the_mail_is_sent_over_the_connection_and_takes_nothing_a_run_says_for_a_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    judged(
        tmp_path,
        folders.run_directory_name(RUN_ID),
        "VIOLATED",
        lost=3,
        sentence="VIOLATED: {{ conn.smtp_default.password }} <b>3</b> lost.",
    )
    with sink() as server:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", server.connection)
        monkeypatch.setenv(notify.VARIABLE, "one@example.org, two@example.org")
        (callback,) = notify.on_red()
        callback({"run_id": RUN_ID})
    (mail,) = server.mails
    assert "one@example.org" in mail["To"]
    assert "two@example.org" in mail["To"]
    (text,) = server.about(RUN_ID)
    assert "{{ conn.smtp_default.password }} &lt;b&gt;3&lt;/b&gt; lost." in text
    assert "not-to-be-told" not in text
