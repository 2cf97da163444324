"""Folders: the checkout of this project, the home, and the directory of each run.

The *home* is the folder below which runs and private state are kept.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

from delivery_verifier.host import variables
from delivery_verifier.model.inputs import BadInput, bad_input

DATA_DOCS = "data_docs"
"""The name of the folder, below the runs folder, that holds Data Docs, the site of Great Expectations. No run directory
may have this name."""
CATALOGUES = "catalogues"
"""The name of the folder, below the runs folder, that holds the catalogue runs: runs of many scenarios one
after another, with one result page. No run directory may have this name."""
SENTINELS = "sentinels"
"""The name of the folder, below the runs folder, that holds the results of the sentinels: of small verified loads that
a schedule puts on a cluster. No run directory may have this name."""
LATEST = "latest"
"""The name of a symbolic link, below the runs folder, to the directory of the run that was planned last. No run
directory may have this name."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_MAX_NAME = 120
_RUN_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.~:+-]{{0,{_MAX_NAME - 1}}}")
"""The run ids that a user may choose: a subset of what Airflow allows (core.allowed_run_id_pattern)."""


def project_root() -> Path:
    """Returns the checkout of this project, which holds dags/ and plugins/.

    If this package is not imported from such a checkout, e.g. after an installation from a wheel, returns the current
    directory instead.
    """
    checkout = Path(__file__).resolve().parents[3]
    return checkout if (checkout / "dags" / "verify_delivery.py").is_file() else Path.cwd()


def home() -> Path:
    """Returns the home, below which runs and state are kept: KDV_HOME or, if that variable is unset, `project_root()`.

    Raises BadInput if KDV_HOME is a relative path.
    """
    return variables.path("KDV_HOME") or project_root().absolute()


def runs_dir() -> Path:
    """Returns the folder of the run directories: KDV_RUNS or, if that variable is unset, `runs/` below the home."""
    return variables.path("KDV_RUNS") or home() / "runs"


def applications_dir() -> Path:
    """Returns the folder of the user application: KDV_APPLICATIONS or, if that variable is unset,
    `applications/` below the home."""
    return variables.path("KDV_APPLICATIONS") or home() / "applications"


def connections_dir() -> Path:
    """Returns the folder with the operator's own clusters, one file per name: KDV_CONNECTIONS or, if that variable is
    unset, `connections/` below the home."""
    return variables.path("KDV_CONNECTIONS") or home() / "connections"


def commands_dir() -> Path:
    """Returns the folder with the operator's own commands, one file per name: KDV_COMMANDS or, if that variable is
    unset, `commands/` below the home."""
    return variables.path("KDV_COMMANDS") or home() / "commands"


def state_dir() -> Path:
    """Returns the folder of private state (the local Airflow, passwords, locks): `.kdv/` below the home."""
    return home() / ".kdv"


def require_writable() -> None:
    """Raises BadInput if the home or the folder of the run directories cannot be written.

    If a folder is missing, checks instead that the folder can be created.
    """
    for name, folder in (("KDV_HOME", home()), ("KDV_RUNS", runs_dir())):
        nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise bad_input(
                name, str(folder), "a folder that can be written", f"{nearest} cannot: name another in {name}"
            )


def run_directory_name(run_id: str) -> str:
    """Returns the name of a run's directory: `run_id` if it is a safe name, else a safe name that is made from
    `run_id`.

    A safe name has 1 to 120 of the characters `A-Za-z0-9_.-`, and begins with a letter or digit. The names `data_docs`,
    `catalogues`, `sentinels` and `latest` are not safe. An unsafe run id becomes safe in these steps:

    1. Each character that is not allowed becomes `-`.
    2. If the first character is not a letter or digit, `run` is put before it.
    3. If the result is too long, its end is cut off.
    4. `-` and 8 hexadecimal digits of a hash of `run_id` are added. So two run ids that differ only in replaced or cut
       characters get different names.

    Example: `manual__2026-01-01T00:00:00+00:00` becomes `manual__2026-01-01T00-00-00-00-00-<8 digits>`. Raises BadInput
    if `run_id` is empty.
    """
    if not run_id:
        raise BadInput("run_id is empty: give the run a name")
    safe = _UNSAFE.sub("-", run_id)
    if not safe[0].isalnum():
        safe = f"run{safe}"
    if safe == run_id and len(safe) <= _MAX_NAME and safe not in (DATA_DOCS, CATALOGUES, SENTINELS, LATEST):
        return safe
    return f"{safe[: _MAX_NAME - 9]}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def check_run_id(run_id: str) -> str:
    """Checks the run id `run_id`, which a user chose. Returns `run_id` unchanged.

    Raises BadInput unless `run_id` has 1 to 120 of the characters `A-Za-z0-9_.~:+-` and begins with a letter or digit.
    Airflow accepts every such run id.
    """
    if not _RUN_ID.fullmatch(run_id):
        proposal = _UNSAFE.sub("-", run_id).strip("-._")[:_MAX_NAME] or "my-run"
        allowed = f"1 to {_MAX_NAME} of A-Z a-z 0-9 _ . ~ : + -, the first a letter or digit"
        raise bad_input("run_id", run_id, allowed, f"e.g. --run-id {proposal}")
    return run_id


def run_directory(run_id: str) -> Path:
    """Returns the path of the run directory that belongs to `run_id`. The directory need not exist."""
    return runs_dir() / run_directory_name(run_id)


def point_latest_at(run_dir: Path) -> None:
    """Makes the link `latest` beside `run_dir` point at `run_dir`.

    Does nothing in two cases: `latest` exists but is not a link, or the link cannot be written. Raises no error in
    these cases, because the link is only a convenience.
    """
    link = run_dir.with_name(LATEST)
    if link.exists() and not link.is_symlink():
        return
    fresh = run_dir.with_name(f".{LATEST}.{secrets.token_hex(4)}")
    with suppress(OSError):
        fresh.symlink_to(run_dir.name)
        fresh.replace(link)


def stored_runs(runs: Path | None = None) -> list[Path]:
    """Returns the directories of all planned runs. The run whose scenario.json was written last comes first.

    `runs` is the folder of the run directories, by default `runs_dir()`. The folder need not exist.
    """
    planned = []
    for scenario in (runs or runs_dir()).glob("*/scenario.json"):
        run = scenario.parent
        if not run.is_symlink() and run.name != DATA_DOCS and run.name[0] != ".":
            with suppress(FileNotFoundError):  # the run was removed meanwhile
                planned.append((scenario.stat().st_mtime, run))
    return [run for _, run in sorted(planned, reverse=True)]


REMOVED = ".removed"
"""The suffix that `remove_folder` adds to the name of a folder before the deletion."""


def remove_folder(folder: Path) -> None:
    """Removes a folder, even if other processes still create files in it. Does nothing if there is no such folder.

    The folder is renamed first. Otherwise a process could create a file during the deletion, and the folder would stay.
    The new name ends with `.removed` (REMOVED). A file that cannot be deleted stays in the folder with the new name.
    """
    doomed = folder.with_name(f".{folder.name}.{os.getpid()}{REMOVED}")
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def new_run_id() -> str:
    """Returns a run id for a new run, e.g. `20260101T000000-2f64`: the local time and four random characters.

    Two runs can begin in the same second. Only the random characters tell their run ids apart.
    """
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(2)}"
