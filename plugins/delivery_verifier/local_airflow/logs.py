"""The log files of the local Airflow."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.local_airflow import settings


def log_file(name: str) -> Path:
    """Returns the log file of a process.

    `name` is the name of a process of Airflow, `supervisor`, or `migrate` for the migration of the database.
    """
    return settings.airflow_home() / f"{name}.log"


def tail(name: str, lines: int = 8) -> str:
    """Returns the last lines of the log file of a process (see `log_file`)."""
    file = log_file(name)
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.is_file() else "(no log)"
