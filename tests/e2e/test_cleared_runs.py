"""Tests of a run that a user clears: no message about it, and no note, quotes a verdict of an earlier try."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from support.airflow import LocalAirflow
from support.patience import PATIENCE_S
from support.stored_data import stored_run

from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow.run import patiently
from delivery_verifier.model.steps import BEFORE_GATE
from delivery_verifier.orchestration.failures import RunFailed
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.run_directory.run_directory import RunDirectory

RUN_ID = "cleared:twice"
PATH = f"/dags/{DAG_ID}/dagRuns/{RUN_ID}"


class Cleared:
    """A DAG run in the local Airflow with a stored run as its directory. Only its last steps, from `validate` on, do
    their work. They need no cluster."""

    def __init__(self, airflow: LocalAirflow) -> None:
        self.airflow, self.client = airflow, airflow.client()
        with pytest.raises(RunFailed, match=r"scenario\.fail_step is plan"):
            airflow.run({"fail_step": "plan"}, RUN_ID)
        self._next_mail(1)
        stored = stored_run("violated", airflow.runs)
        self.run = RunDirectory(stored.path.rename(airflow.runs / folders.run_directory_name(RUN_ID)))
        planned = {"key": "return_value", "value": str(self.run.path)}
        self._ask("POST", f"{PATH}/taskInstances/plan/xcomEntries", planned)
        self._mark_done(*BEFORE_GATE[: BEFORE_GATE.index("validate")], "stop_cluster")

    def clear(self, task: str, mails: int) -> tuple[str, str]:
        """Clears the task and those behind it. Returns the note of the run and the newest mail about it, when the run
        has ended and there are `mails` of them."""
        what = {"dag_run_id": RUN_ID, "task_ids": [task], "include_downstream": True, "only_failed": False}
        self._ask("POST", f"/dags/{DAG_ID}/clearTaskInstances", {**what, "reset_dag_runs": True, "dry_run": False})
        self.airflow.wait_until_ended(RUN_ID)
        return str(self._ask("GET", PATH)["note"]), self._next_mail(mails)

    def _mark_done(self, *tasks: str) -> None:
        """Gives the tasks the state success in Airflow's database. If a user did so, Airflow would run the others."""
        file = self.airflow.home / ".kdv" / "airflow" / "airflow.db"
        query = "UPDATE task_instance SET state = 'success' WHERE run_id = ? AND task_id = ?"
        with closing(sqlite3.connect(file, timeout=60)) as database, database:
            database.executemany(query, [(RUN_ID, task) for task in tasks])

    def _next_mail(self, number: int) -> str:
        mail = self.airflow.mail
        wait_until(lambda: len(mail.about(RUN_ID)) >= number, "the mail", PATIENCE_S, detail=lambda: str(mail.mails))
        return mail.about(RUN_ID)[number - 1]

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        with self.airflow.environment():  # `patiently` asks again only while this Airflow lives
            answer: dict[str, object] = patiently(lambda: self.client._api(method, path, body))
        return answer


def test_neither_a_mail_nor_a_note_about_a_cleared_run_quotes_a_verdict_of_an_earlier_try(
    local_airflow: LocalAirflow,
) -> None:
    cleared = Cleared(local_airflow)
    note, mail = cleared.clear("validate", mails=2)
    assert note.startswith("**VIOLATED**") and mail.startswith("Delivery run is red: VIOLATED")
    note, mail = cleared.clear("plan", mails=3)
    assert read_verdict(cleared.run.path).verdict == "VIOLATED", "the verdict of the earlier try is still there"
    assert note.startswith("**NO VERDICT**: step `plan` failed.") and "VIOLATED" not in note + mail
    assert mail.startswith("Delivery run is red: NO VERDICT") and "is of an earlier try" in mail
