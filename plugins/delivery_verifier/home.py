"""Where things are: the home of runs and state, the project's folders, and the directory that belongs to a run."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from delivery_verifier import variables
from delivery_verifier.scenario import BadInput

DATA_DOCS = "data_docs"
"""Folder below the runs that holds the Data Docs site; no run may have its name."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_MAX_NAME = 120


def project_root() -> Path:
    """The checkout that holds dags/ and plugins/: that of an editable installation, else the current directory."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout if (checkout / "dags" / "verify_delivery.py").is_file() else Path.cwd()


def home() -> Path:
    """KDV_HOME, else the project."""
    return variables.path("KDV_HOME") or project_root().absolute()


def runs_dir() -> Path:
    """Where run directories are: KDV_RUNS, else `runs/` below the home."""
    return variables.path("KDV_RUNS") or home() / "runs"


def state_dir() -> Path:
    """Private state (local Airflow, secrets, locks): `.kdv/` below the home."""
    return home() / ".kdv"


def run_directory_name(run_id: str) -> str:
    """The name of a run's directory: `run_id` itself where it is safe, else its safe form with a hash of the original.

    Safe: 1 to 120 of `A-Za-z0-9_.-`, the first a letter or digit, and not the folder of the Data Docs. Airflow's
    `manual__2026-01-01T00:00:00+00:00` becomes `manual__2026-01-01T00-00-00-00-00-<8 hex>`, so that two run ids never
    share a directory by being made safe. Raises ValueError if there is no run id.
    """
    if not run_id:
        raise BadInput("run_id is empty: give the run a name")
    safe = _UNSAFE.sub("-", run_id)
    if not safe[0].isalnum():
        safe = f"run{safe}"
    if safe == run_id and len(safe) <= _MAX_NAME and safe != DATA_DOCS:
        return safe
    return f"{safe[: _MAX_NAME - 9]}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def run_directory(run_id: str) -> Path:
    """The run directory that belongs to a run id, whether it exists or not."""
    return runs_dir() / run_directory_name(run_id)
