"""The note of a DAG run in the Airflow UI. It has few lines: the verdict and what to change, or the reason why there is
no verdict."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowTaskTimeout

from delivery_verifier.host import folders
from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.orchestration.client import Client
from delivery_verifier.orchestration.failures import failure_of
from delivery_verifier.orchestration.names import MARK
from delivery_verifier.reporting.words import clean
from delivery_verifier.run_directory.judgeable import how_to_judge
from delivery_verifier.run_directory.run_directory import RunDirectory

_log = logging.getLogger(__name__)
AGAIN = "**NO VERDICT** yet: tasks of this run were cleared, and run again."
"""The note of a run that a user has cleared. It replaces the note of the try before."""
AIRFLOWS_OWN = "Task failed with exception"
"""The line with which Airflow begins the log of an error. It says nothing about the error."""


def withdraw(context: Context) -> None:
    """Replaces the note of an earlier try by AGAIN, if the calling task was cleared. `context` is the task's context.

    Airflow repeats no task by itself, because the tasks have no retries. So a second try means that a user has cleared
    the task.
    """
    if context["ti"].try_number > 1:
        attach(context, AGAIN)


def attach(context: Context, text: str) -> None:
    """Replaces the note of the DAG run by `text`. If this fails, logs the error and raises nothing."""
    _attach(context, lambda _: text)


def attach_verdict(run: Path, context: Context) -> None:
    """Copies the verdict from the run directory `run` into the note of the DAG run. `context` is that of a task.

    Does nothing if `run` has no verdict, or if this Airflow is not the local Airflow that `kdv up` starts. Reason: this
    function has no credentials for any other Airflow. The note is only a convenience. So if the note cannot be written,
    the function logs the error and raises nothing.
    """
    if (run / "conclude.json").is_file():
        from delivery_verifier.reporting.brief import note_text  # it imports more than the DAG's file may

        # Without the manifest of conclude, verdict.json may come from an earlier try, and does not count.
        _attach(context, lambda _: note_text(RunDirectory(run).verdict(), run.parent))


@contextmanager
def of_failure(context: Context) -> Iterator[None]:
    """If the block raises an error, writes into the note of the DAG run why the run has no verdict. Then raises the
    error again. If the evidence of the run is complete, note and log say how to judge the run.

    The block is the work of the task conclude. If an earlier task has failed, the note quotes the log of this task.
    SystemExit does not count as an error here: it ends a run that has a verdict.
    """
    try:
        yield
    except (Exception, AirflowTaskTimeout) as error:
        message = f"{type(error).__name__}: {error}"
        run_id = str(context["run_id"])
        remedy = how_to_judge(folders.runs_dir() / folders.run_directory_name(run_id))
        if remedy:
            _log.error(remedy)

        def text(client: Client) -> str:
            why = (
                _why(client, context["ti"].dag_id, run_id) or f"**NO VERDICT**: step `{GATE}` failed.{_quoted(message)}"
            )
            first, _, rest = why.partition("\n")
            return f"{first}\n\n{remedy}\n{rest}".rstrip() if remedy else why

        _attach(context, text)
        raise


def _attach(context: Context, text: Callable[[Client], str]) -> None:
    """Replaces the note of the DAG run by the result of `text`. If this fails, logs the error and raises nothing."""
    if MARK not in os.environ:
        return
    try:
        client = _client()
        client.note(context["ti"].dag_id, str(context["run_id"]), text(client))
    except Exception as error:  # the note is a convenience, and must not change the state of the task
        _log.warning("the run's note could not be written: %s", error)


def _client() -> Client:
    passwords = json.loads(Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]).read_text())
    return Client(os.environ["AIRFLOW__API__BASE_URL"], "admin", passwords["admin"])


def _why(client: Client, dag_id: str, run_id: str) -> str:
    """Returns the text of the note: why the run has no verdict.

    * If a task before the gate failed, the note is about the first of these tasks.
    * If all tasks before the gate have succeeded, the text is empty.
    * Otherwise the note says that the run was ended too early.
    """
    before = [task for task in client.tasks(dag_id, run_id) if task.task_id in BEFORE_GATE]
    failure = failure_of([task for task in before if task.state == "failed"], partial(client.log_tail, dag_id, run_id))
    if failure is not None:
        log = [line for line in failure.log if line != AIRFLOWS_OWN]
        return f"**NO VERDICT**: step `{failure.task_id}` failed.{_quoted(chr(10).join(log))}"
    if all(task.state == "success" for task in before):
        return ""
    return "**NO VERDICT**: the run was ended before all of its steps were done."


def _quoted(text: str) -> str:
    """Returns `text` as a block of Markdown in which nothing counts as markup."""
    return f"\n\n```\n{clean(text).replace('```', chr(39) * 3)}\n```" if text else ""
