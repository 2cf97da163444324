"""A real local Airflow for tests. Each test session has one Airflow, in its own home, which ends with the session."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from delivery_verifier.host import processes
from delivery_verifier.host.http_clients import client_of
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import access, lifecycle, settings
from delivery_verifier.local_airflow.run import patiently, run_through_airflow
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.orchestration.client import ENDED, Client
from delivery_verifier.orchestration.names import DAG_ID
from support.mail import Sink, sink
from support.patience import LOOK_EVERY_S, PATIENCE_S


class LocalAirflow:
    """A local Airflow in its own KDV_HOME, on its own port. `progress`: the states of the steps of the last run.
    `said`: what the live line (`terminal`) and the tab (`tab`) said during the run that `support.watched` watched."""

    mail: Sink
    said: dict[str, list[Any]]

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, free_ports(1)[0]
        self.progress: list[StepProgress] = []

    @property
    def runs(self) -> Path:
        """The folder of this Airflow's runs."""
        return self.home / "runs"

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Makes this process use the home and the port of this Airflow inside the block."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KDV_HOME", str(self.home))
            patch.setenv("KDV_PORT", str(self.port))
            patch.delenv("KDV_RUNS", raising=False)
            yield

    def up(self) -> lifecycle.Status:
        """Brings up this Airflow and returns its status. Airflow ends with the process that runs the tests, even if
        that process is killed."""
        with self.environment():
            return lifecycle.up(owner=processes.myself())

    def down(self) -> None:
        """Stops this Airflow. Raises AirflowError if any process is left."""
        with self.environment():
            lifecycle.down()

    def client(self, user: str = "admin") -> Client:
        """Returns the REST client of a user."""
        with self.environment():
            return access.client_of(settings.base_url(self.port), user)

    def wait_until_ended(self, run_id: str, dag_id: str = DAG_ID, deadline_s: float = PATIENCE_S) -> None:
        """Waits until the run of `dag_id` has ended, green or red. Raises DeadlinePassed with the states of its tasks
        after `deadline_s` seconds."""
        client = self.client()

        def ended() -> bool:
            return patiently(lambda: client.state(dag_id, run_id)) in ENDED

        def states() -> str:
            return str({task.task_id: task.state for task in patiently(lambda: client.tasks(dag_id, run_id))})

        with self.environment():  # `patiently` asks again only while this Airflow lives
            wait_until(ended, f"run {run_id} to end", deadline_s, LOOK_EVERY_S, detail=states)

    def verdict_events(self, run_id: str) -> list[dict[str, Any]]:
        """Returns what the events of the verdict's asset say that the run emitted."""
        path = f"/assets/events?source_dag_id={DAG_ID}&source_run_id={quote(run_id, safe='')}"
        return [event["extra"] for event in self.client().get(path)["asset_events"]]

    def http(self, user: str | None) -> httpx.Client:
        """Returns a plain HTTP client that sends the user's token. If `user` is None, the client is anonymous."""
        client = client_of(f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S)
        if user:
            with self.environment():
                credentials = {"username": user, "password": settings.ensure_passwords()[user]}
            token = client.post("/auth/token", json=credentials).json()["access_token"]
            client.headers["Authorization"] = f"Bearer {token}"
        return client

    def run(self, conf: dict[str, object], run_id: str | None = None) -> Path:
        """Runs verify_delivery with `conf` and returns the run directory. Records the steps' states in `progress`."""
        self.progress.clear()
        with self.environment():
            return run_through_airflow(conf, run_id or f"test-{uuid.uuid4().hex[:8]}", self.progress.append)


@pytest.fixture(scope="session")
def local_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    """A local Airflow that is up and ready. `mail` keeps its mails on red runs. Takes about 20 s, once per session."""
    airflow = LocalAirflow(tmp_path_factory.mktemp("airflow") / "home")
    with sink() as airflow.mail, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", airflow.mail.connection)
        patch.setenv("KDV_NOTIFY_EMAIL", "whoever@localhost")
        try:
            airflow.up()
            patch.undo()
            yield airflow
        finally:
            airflow.down()
