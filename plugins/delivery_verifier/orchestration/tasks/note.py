"""The note of a DAG run in the Airflow UI: the verdict of the run, and what to change, in few lines."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from delivery_verifier.orchestration.local import settings
from delivery_verifier.orchestration.local.client import AirflowError, Client
from delivery_verifier.pages.brief import note_text
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

_log = logging.getLogger(__name__)


def attach_verdict(run: Path, run_id: str) -> None:
    """Copies the verdict from the run directory `run` into the note of the DAG run `run_id`.

    Does nothing if `run` has no verdict. Also does nothing unless this is the local Airflow that `kdv up` starts,
    because this function has no credentials for any other Airflow. The note is only a convenience. So if the note
    cannot be written, the function logs the error and raises nothing.
    """
    if settings.MARK not in os.environ or not (run / "conclude.json").is_file():
        return  # without the manifest of conclude, verdict.json may come from an earlier try, and does not count
    try:
        verdict = RunDirectory(run).verdict()
        client = Client.local(int(os.environ["AIRFLOW__API__PORT"]))
        client.note(settings.DAG_ID, run_id, note_text(verdict, run))
    except (AirflowError, IncompleteRun, OSError) as error:
        _log.warning("the run's note could not be written: %s", error)
