"""A small client of Airflow's REST API. It triggers a run, follows the run, and finds out why a task failed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import httpx
from msgspec import Struct

from delivery_verifier.host.http_clients import client_of
from delivery_verifier.model.errors import VerifierError

ENDED = ("success", "failed")
"""The states of a DAG run that has ended."""
FAILED_TASK = ("failed", "upstream_failed")
"""The states of a task that failed, or that did not run because a task before it failed."""
FINISHED_TASK = (*FAILED_TASK, "success", "skipped", "removed")
"""The states of a task that will not run again, unless a user clears it."""


class AirflowError(VerifierError, RuntimeError):
    """The error of a request that Airflow refused, or that did not reach Airflow. The message gives the reason."""


class AirflowLacks(AirflowError):
    """Airflow does not have what was asked for, e.g. the DAG of an old run."""


class AirflowSilent(AirflowError):
    """The error of a request that Airflow did not answer, or could not carry out because its database was busy.

    Airflow does not answer if the host is too busy, or if Airflow has ended. Airflow may have carried out the request
    all the same.
    """


class Task(Struct, frozen=True):
    """A task instance of a run. `state` is None before the task is scheduled.

    `map_index` is -1 if the task is not mapped. `try_number` is 0 before the first try. `start_date` is None
    before the task has started. `end_date` is None before the task has ended. Both dates are ISO texts.
    """

    task_id: str
    state: str | None
    try_number: int = 0
    start_date: str | None = None
    end_date: str | None = None
    map_index: int = -1


class Client:
    """A client of Airflow's REST API, logged in as one user.

    `url` is the address of Airflow. Every method that sends a request raises AirflowError if Airflow refuses the
    request, and AirflowSilent if Airflow does not answer within `timeout_s` seconds.
    """

    def __init__(self, url: str, user: str, password: str, timeout_s: float = 20.0) -> None:
        self.url = url
        self._credentials = {"username": user, "password": password}
        self._http = client_of(url, timeout=timeout_s)
        self._token: str | None = None

    def health(self) -> dict[str, str | None]:
        """Returns the status of each component of Airflow, by name: `healthy` or another word. Needs no login.

        First sends a request to the API that tasks use. Airflow builds this API at the first request, which takes
        seconds, and the first task would have to wait for that.
        """
        self._send("GET", "/execution/health", token=None)
        answer = self._send("GET", "/api/v2/monitor/health", token=None)
        return {name: part.get("status") for name, part in answer.items()}

    def dag(self, dag_id: str) -> dict[str, Any]:
        """Returns the details of the DAG, in the form of Airflow's REST API."""
        details: dict[str, Any] = self.get(f"/dags/{dag_id}")
        return details

    def import_errors(self, since_s: float = 0.0) -> dict[str, str]:
        """Returns the stack trace of each DAG file that Airflow could not import when it last read the file, by file
        name. Leaves out errors from before `since_s`, in seconds since the epoch."""
        errors = self.get("/importErrors?limit=100")["import_errors"]
        return {
            error["filename"]: error["stack_trace"]
            for error in errors
            if datetime.fromisoformat(error["timestamp"]).timestamp() >= since_s
        }

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, object]) -> None:
        """Starts a run. `conf` holds the values of the form's fields, by name.

        Airflow checks these values against the form. If Airflow refuses a value, the AirflowError names the field.
        """
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}
        self._api("POST", f"/dags/{dag_id}/dagRuns", body)

    def run_ids(self, dag_id: str) -> list[str]:
        """Returns the ids of the DAG's ten newest runs, newest first."""
        return [str(run["dag_run_id"]) for run in self.get(f"/dags/{dag_id}/dagRuns?order_by=-id&limit=10")["dag_runs"]]

    def unfinished_runs(self) -> list[tuple[str, str]]:
        """Returns (DAG id, run id) of the oldest 100 runs of any DAG that are queued or running."""
        runs = self.get("/dags/~/dagRuns?state=queued&state=running&order_by=id&limit=100")["dag_runs"]
        return [(str(run["dag_id"]), str(run["dag_run_id"])) for run in runs]

    def owners(self, dag_id: str) -> dict[str, str]:
        """Returns the owner of each run of the DAG, by run id, as the text `<pid>:<start time>`.

        The owner of a run is the process for which the run was started. The result leaves out runs that have ended, and
        runs that have no owner, for example because a user triggered them in the UI.
        """
        runs = self.get(f"/dags/{dag_id}/dagRuns?state=queued&state=running&limit=100")["dag_runs"]
        return {str(run["dag_run_id"]): str(run["conf"]["owner"]) for run in runs if (run["conf"] or {}).get("owner")}

    def state(self, dag_id: str, run_id: str) -> str:
        """Returns the state of the run: queued, running, success or failed."""
        return str(self.get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def end_run(self, dag_id: str, run_id: str) -> None:
        """Marks a run as failed. Airflow then ends the tasks of the run, but still runs the run's teardown tasks."""
        self._api("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", {"state": "failed"})

    def fail_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Marks one task of a run as failed. The task may be a teardown task. `end_run` does not mark teardown
        tasks."""
        self._api("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}", {"new_state": "failed"})

    def note(self, dag_id: str, run_id: str, text: str) -> None:
        """Attaches a note to a run. The text is cut after 1000 characters, because Airflow keeps no more."""
        self._api("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", {"note": text[:1000]})

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        """Returns the run's task instances in the order of their start. Tasks that have not started come last."""
        instances = self.get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=500")["task_instances"]
        tasks = [Task(**{field: instance[field] for field in Task.__struct_fields__}) for instance in instances]
        return sorted(tasks, key=lambda task: task.start_date or "~")

    def log_tail(self, dag_id: str, run_id: str, task: Task, lines: int = 12) -> list[str]:
        """Returns the last lines of a task's log, at most `lines` lines. Some lines are left out (see
        `last_log_lines`)."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task.task_id}/logs/{max(task.try_number, 1)}"
        content = self.get(f"{path}?full_content=true")["content"]
        return last_log_lines(content, lines)

    def get(self, path: str) -> Any:
        """Returns Airflow's answer to a GET of `path`. `path` is relative to /api/v2."""
        return self._api("GET", path)

    def _api(self, method: str, path: str, body: object = None) -> Any:
        """Returns Airflow's answer to a request of the REST API. The first call logs in."""
        if self._token is None:
            self._token = self._send("POST", "/auth/token", self._credentials, token=None)["access_token"]
        return self._send(method, f"/api/v2{path}", body, token=self._token)

    def _send(self, method: str, path: str, body: object = None, *, token: str | None) -> Any:
        """Sends a request, and returns the JSON of Airflow's answer. If `token` is None, the request is sent without a
        login.

        Raises AirflowSilent if Airflow does not answer or its database is busy. Raises AirflowError if Airflow refuses
        the request, or if the answer is not JSON.
        """
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        try:
            answer = self._http.request(method, path, json=body, headers=headers)
        except httpx.HTTPError as error:
            raise AirflowSilent(f"Airflow at {self.url} does not answer: {type(error).__name__}: {error}") from None
        # The database of the local Airflow is SQLite, which admits one writer at a time.
        if answer.status_code >= 500 and "Database error" in answer.text:
            raise AirflowSilent(f"Airflow's database was busy at {method} {path}: {_reason(answer)}")
        if answer.is_error:
            kind = AirflowLacks if answer.status_code == httpx.codes.NOT_FOUND else AirflowError
            raise kind(f"Airflow refused {method} {path} with {answer.status_code}: {_reason(answer)}")
        try:
            return answer.json()
        except json.JSONDecodeError:
            raise AirflowError(f"{self.url}{path} answered no JSON: is another program on this port?") from None


def ui_url(url: str, dag_id: str, run_id: str) -> str:
    """Returns the address of the run's page in the Airflow UI. `url` may be any address of this Airflow. The result has
    the scheme, host and port of `url`."""
    return str(httpx.URL(url).copy_with(path=f"/dags/{dag_id}/runs/{run_id}"))


def last_log_lines(events: Sequence[object], lines: int) -> list[str]:
    """Returns the last lines of a log, at most `lines` lines. `events` are the log's events from the REST API.

    If the log has an error, the result leaves out all lines before the first error. It always leaves out lines that
    begin with `::`. Such lines are no messages: Airflow uses them to mark groups of lines.
    """
    errors = [index for index, event in enumerate(events) if _is_error(event)]
    texts = [line for event in events[min(errors, default=0) :] for line in _lines(event)]
    return [line for line in texts if not line.startswith("::")][-lines:]


def _reason(answer: httpx.Response) -> str:
    """Returns the reason why Airflow refused a request. If the answer gives no reason, returns the beginning of the
    answer."""
    try:
        return str(answer.json()["detail"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return answer.text[:300]


def _is_error(event: object) -> bool:
    return isinstance(event, dict) and event.get("level") in ("error", "critical")


def _lines(event: object) -> list[str]:
    """Returns the lines of one log event: its text, then the type and the message of each of its exceptions."""
    if not isinstance(event, dict):
        return [str(event)]
    errors = [f"{e.get('exc_type')}: {e.get('exc_value')}" for e in event.get("error_detail") or []]
    return [*str(event.get("event", "")).splitlines(), *errors]
