"""The note of a DAG run: its verdict in one sentence, for whoever looks at the run in the UI."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from delivery_verifier.orchestration import settings
from delivery_verifier.orchestration.client import AirflowError, Client
from delivery_verifier.report.words import said
from delivery_verifier.verdict import RunVerdict

_log = logging.getLogger(__name__)


def attach_verdict(run: Path, run_id: str) -> None:
    """Notes the verdict at the DAG run, if it is one of the local Airflow and there is a verdict.

    A comfort only: if it fails that is logged, and the task ends as it would have.
    """
    file = run / "verdict.json"
    if settings.MARK not in os.environ or not file.is_file():
        return
    try:
        verdict = msgspec.json.decode(file.read_bytes(), type=RunVerdict)
        client = Client.local(int(os.environ["AIRFLOW__API__PORT"]))
        client.note(settings.DAG_ID, run_id, f"**{verdict.verdict}**: {said(verdict.sentence, verdict.verdict)}")
    except (AirflowError, OSError, msgspec.MsgspecError) as error:
        _log.warning("the run's note could not be written: %s", error)
