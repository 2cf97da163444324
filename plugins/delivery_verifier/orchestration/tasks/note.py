"""The note of a DAG run: its verdict in one sentence, for readers of the UI."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from delivery_verifier.orchestration.local import settings
from delivery_verifier.orchestration.local.client import AirflowError, Client
from delivery_verifier.pages.words import without_verdict
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

_log = logging.getLogger(__name__)


def attach_verdict(run: Path, run_id: str) -> None:
    """Notes the verdict at the DAG run, if it is one of the local Airflow and there is a verdict.

    The note is a comfort only: a failure to write it is logged, and the task ends as it would have.
    """
    if settings.MARK not in os.environ or not (run / "conclude.json").is_file():
        return  # without the manifest of conclude, a verdict may be that of an earlier try, which does not count
    try:
        verdict = RunDirectory(run).verdict()
        client = Client.local(int(os.environ["AIRFLOW__API__PORT"]))
        client.note(
            settings.DAG_ID, run_id, f"**{verdict.verdict}**: {without_verdict(verdict.sentence, verdict.verdict)}"
        )
    except (AirflowError, IncompleteRun, OSError) as error:
        _log.warning("the run's note could not be written: %s", error)
