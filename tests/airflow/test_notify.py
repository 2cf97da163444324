"""Tests of the messages about a red run: their recipients, their content, and what they must not contain.

`tests/e2e/test_local_airflow.py` has a real red run whose mail arrives.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from structlog.testing import capture_logs
from support.mail import sink
from support.run_builder import judged, planned, unjudged
from support.web_sink import WebSink, web_sink

from delivery_verifier.host import folders
from delivery_verifier.local_airflow import settings
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.steps import GATE
from delivery_verifier.orchestration import notifiers
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.orchestration.tasks import channels, message, notify


class Instance:
    """A stand-in for Airflow's task instance: `conclude` has the state `state`, and its last try gave `verdict` when
    the run had been cleared `number` times."""

    dag_id = DAG_ID

    def __init__(self, verdict: str = "VIOLATED", green: bool = False, state: str = "failed", number: int = 0) -> None:
        self.stored: dict[str, object] = {"verdict": {"verdict": verdict, "green": green}, "try": number}
        self.state = state

    def xcom_pull(self, *, task_ids: str, key: str) -> object:
        assert task_ids == GATE
        return self.stored.get(key)

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str]]:
        assert (dag_id, task_ids) == (DAG_ID, [GATE])
        return {run_id: {GATE: self.state} for run_id in run_ids}


def context(instance: Instance | None = None, cleared: int = 0) -> Any:
    """The context with which Airflow calls a callback about the run RUN_ID, which was cleared `cleared` times."""
    return {"run_id": RUN_ID, "ti": instance or Instance(), "dag_run": SimpleNamespace(clear_number=cleared)}


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
        callback(context())
    (mail,) = server.mails
    assert "one@example.org" in mail["To"]
    assert "two@example.org" in mail["To"]
    (text,) = server.about(RUN_ID)
    assert "{{ conn.smtp_default.password }} &lt;b&gt;3&lt;/b&gt; lost." in text
    assert "not-to-be-told" not in text


SECRET = "not-to-be-told"
SENTENCE = "VIOLATED: {{ conn.smtp_default.password }} <!channel> *3* lost."


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebSink]:
    """A web server, to which both connections lead. The run RUN_ID is red."""
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    judged(tmp_path, folders.run_directory_name(RUN_ID), "VIOLATED", lost=3, sentence=SENTENCE)
    with web_sink() as server:
        where = {"host": "127.0.0.1", "port": server.port, "password": SECRET}
        slack = {**where, "conn_type": "slackwebhook", "schema": "http", "password": f"T000/B000/{SECRET}"}
        slack |= {"host": f"127.0.0.1:{server.port}/services"}
        web = {**where, "conn_type": "http", "login": "kdv", "host": f"http://127.0.0.1:{server.port}/hook"}
        monkeypatch.setenv("AIRFLOW_CONN_TO_SLACK", json.dumps({k: v for k, v in slack.items() if k != "port"}))
        monkeypatch.setenv("AIRFLOW_CONN_TO_SERVER", json.dumps({k: v for k, v in web.items() if k != "port"}))
        yield server


def test_slack_is_told_over_its_connection_and_takes_nothing_a_run_says_for_markup(
    server: WebSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip(notifiers.SLACK.module)
    monkeypatch.setenv(notifiers.SLACK.variable, "to_slack")
    (callback,) = notify.on_red()
    with caplog.at_level(logging.INFO):
        callback(context())
    (request,) = server.received
    assert request.path == f"/services/T000/B000/{SECRET}"
    verdict, sentence, run, *_, url = json.loads(request.body)["text"].split("\n")
    assert (verdict, run) == ("*VIOLATED*", f"Run {RUN_ID}")
    assert sentence == "VIOLATED: {{ conn.smtp_default.password }} &lt;!channel&gt; ∗3∗ lost."
    assert f"/dags/{DAG_ID}/runs/" in url
    assert SECRET not in request.body + caplog.text


def test_a_server_is_reported_in_json(
    server: WebSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip(notifiers.WEBHOOK.module)
    monkeypatch.setenv(notifiers.WEBHOOK.variable, "to_server")
    (callback,) = notify.on_red()
    with caplog.at_level(logging.INFO):
        callback(context())
    (request,) = server.received
    said = json.loads(request.body)
    assert (request.path, said["verdict"], said["run_id"], said["dag_id"]) == ("/hook", "VIOLATED", RUN_ID, DAG_ID)
    assert said["subject"] == f"Delivery run is red: VIOLATED ({RUN_ID})" and said["url"].startswith("http")
    assert SENTENCE in said["text"].split("\n")
    assert SECRET not in request.body + caplog.text


@pytest.mark.parametrize("status", [404, None], ids=["refused", "no server"])
@pytest.mark.parametrize(("channel", "name"), [(notifiers.SLACK, "to_slack"), (notifiers.WEBHOOK, "to_server")])
def test_an_address_is_in_no_error_and_in_no_log(
    server: WebSink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    channel: notifiers.Channel,
    name: str,
    status: int | None,
) -> None:
    pytest.importorskip(channel.module)
    monkeypatch.setenv(channel.variable, name)
    secret_path = f"/hook/{SECRET}"
    web = {"conn_type": "http", "host": f"http://127.0.0.1:{server.port}{secret_path}"}
    monkeypatch.setenv("AIRFLOW_CONN_TO_SERVER", json.dumps(web))
    server.status = status or 200
    if status is None:
        server.shutdown()
        server.server_close()
    (callback,) = notify.on_red()
    with caplog.at_level(logging.INFO), capture_logs() as logged:
        with pytest.raises(StepFailed, match=f"over the connection {name} was not") as error:
            callback(context())
    said = "".join(traceback.format_exception(error.value)) + caplog.text + str(logged)
    assert SECRET not in said and (status is None or str(status) in said or "Not Found" in said)


@pytest.mark.parametrize("channel", [notifiers.SLACK, notifiers.WEBHOOK])
def test_a_channel_without_its_package_is_refused_at_once_with_the_remedy(
    channel: notifiers.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifiers, "_is_installed", lambda module: False)
    notifiers.check()
    monkeypatch.setenv(channel.variable, "to_somebody")
    for is_there in (notifiers.check, notify.on_red, lambda: settings.environment(8080)):
        with pytest.raises(BadInput, match=f"pip install {channel.package}"):
            is_there()


@pytest.mark.parametrize("module", ["airflow.providers.nowhere.notifications", "nowhere.notifications", "airflow.no"])
def test_a_package_that_is_not_there_is_noticed(module: str) -> None:
    assert not notifiers._is_installed(module) and notifiers._is_installed("airflow.providers.smtp.notifications.smtp")


@pytest.mark.parametrize("channel", [notifiers.SLACK, notifiers.WEBHOOK])
def test_an_address_in_place_of_a_connection_is_refused_and_not_repeated(
    channel: notifiers.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifiers, "_is_installed", lambda module: True)
    monkeypatch.setenv(channel.variable, f"https://hooks.example.org/{SECRET}")
    with pytest.raises(BadInput, match=channel.variable) as refusal:
        notifiers.check()
    assert SECRET not in str(refusal.value)


def test_a_word_of_a_run_is_no_markup_in_slack() -> None:
    content = message.Message("s", ["VIOLATED", "<!here> *b* _i_ ~s~ `c` & \x1b[1m"], DAG_ID, "r", "http://x/r")
    text = channels.slack_text(content)
    assert text == "*VIOLATED*\n&lt;!here&gt; ∗b∗ ˍiˍ ∼s∼ ˋcˋ &amp; \N{REPLACEMENT CHARACTER}[1m\nhttp://x/r"


NEVER_BEGUN = Instance()
NEVER_BEGUN.stored = {}
UNKNOWN = Instance()
UNKNOWN.xcom_pull = lambda **_: (_ for _ in ()).throw(OSError("no answer"))  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param(context(NEVER_BEGUN, 1), "of an earlier try", id="conclude gave no verdict"),
        pytest.param(context(Instance(), 1), "of an earlier try", id="conclude did not begin again"),
        pytest.param(context(Instance(state="not run")), "of an earlier try", id="conclude waits to run again"),
        pytest.param(context(Instance(state="success")), "of an earlier try", id="marked by hand"),
        pytest.param(context(Instance("HELD", green=True, state="success")), "of an earlier try", id="another verdict"),
        pytest.param({"run_id": RUN_ID}, "of an earlier try", id="no task failed"),
        pytest.param(context(UNKNOWN), "Airflow does not say whether", id="no answer"),
    ],
)
def test_a_message_never_quotes_the_verdict_of_an_earlier_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, why: str
) -> None:
    """A user has cleared a red run. It is red again, and its directory still has the verdict of the try before."""
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    judged(tmp_path, folders.run_directory_name(RUN_ID), "VIOLATED", lost=3, sentence=SENTENCE)
    told = message.of_run(given)
    assert (told.verdict, told.subject) == ("NO VERDICT", f"Delivery run is red: NO VERDICT ({RUN_ID})")
    assert why in told.lines[1]
    whole = f"{told.as_json()} {channels.slack_text(told)} {notify.html_text(told)}"
    assert "VIOLATED" not in whole and "lost" not in whole


def test_a_message_quotes_the_verdict_of_a_cleared_run_that_was_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    judged(tmp_path, folders.run_directory_name(RUN_ID), "VIOLATED", lost=3, sentence=SENTENCE)
    told = message.of_run(context(Instance(number=2), 2))
    assert told.verdict == "VIOLATED" and SENTENCE in told.lines


def test_a_red_run_with_a_green_verdict_of_this_try_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    judged(tmp_path, folders.run_directory_name(RUN_ID), "HELD")
    told = message.of_run(context(Instance("HELD", green=True, state="success")))
    assert told.verdict == "NO VERDICT" and "its verdict was HELD, but a step failed" in told.lines[1]


def test_a_message_about_a_run_without_a_verdict_says_how_to_judge_it_if_its_evidence_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    run = planned(tmp_path, folders.run_directory_name(RUN_ID))
    assert not any("kdv reconcile" in line for line in message.of_run(context(NEVER_BEGUN)).lines)
    unjudged(tmp_path, run.path.name)
    assert any(line.endswith(f"kdv reconcile {run.path.name}") for line in message.of_run(context(NEVER_BEGUN)).lines)
