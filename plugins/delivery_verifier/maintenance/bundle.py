"""Writes the bundle: a zip file with the evidence of a run, for a ticket. Secrets are removed from the bundled
files."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from delivery_verifier import __version__
from delivery_verifier.cluster import workspaces
from delivery_verifier.host import folders
from delivery_verifier.host.redaction import redact
from delivery_verifier.maintenance import doctor
from delivery_verifier.maintenance.redaction import known_secrets
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.steps import MANIFESTS
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

JSON = ("scenario", "injections", "offsets", "observations", "validation", "verdict", *sorted(MANIFESTS))
"""The names, without `.json`, of the JSON files in the bundle. MANIFESTS holds the names of the steps. The manifest of
a step is the file `<step>.json`."""
TABLES, FULL = ("counts", "anomalies", "timeline"), ("ledger", "log", "claims")
"""Names of folders with tables. Every bundle holds the folders in TABLES. A full bundle also holds the folders in FULL.
"""
LOG_BYTES = 2_000_000
"""The greatest number of bytes of a process's text log that the bundle holds. Only the end of a longer log is kept."""


class About(Struct, kw_only=True):
    """The content of about.json, which describes the bundle.

    * `run`: the name of the run directory.
    * `verifier`: the version of this program.
    * `full`: whether the bundle also holds ledger/, log/ and claims/.
    * `members`: the names of all files in the bundle except about.json.
    * `left_out`: maps each file or folder that is not in the bundle to the reason.
    * `redacted`: maps each file that held secrets to the number of its secrets that were replaced.
    """

    run: str
    verifier: str
    full: bool
    members: list[str] = []
    left_out: dict[str, str] = {}
    redacted: dict[str, int] = {}


def write(run_dir: Path, file: Path, *, full: bool = False) -> About:
    """Writes the bundle of the run in `run_dir` to `file`. Returns the content of about.json.

    The run need not have a verdict. With `full`, the bundle also holds ledger/ and log/, which can be large. Raises
    OSError if `file` cannot be written. Raises BadInput if `file` is inside the run directory, because a run directory
    must not change.
    """
    if file.absolute().is_relative_to(run_dir.absolute()):
        raise BadInput(
            f"bundle is {str(file)!r}; allowed: a file outside the run directory, which is not to be changed"
        )
    about = About(run=run_dir.name, verifier=__version__, full=full)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                _fill(_Packer(archive, about), run_dir, full)
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
    return about


class _Packer:
    """Adds files to the bundle, without the secrets in these files. `about` says which files were added, changed or
    left out."""

    def __init__(self, archive: zipfile.ZipFile, about: About) -> None:
        self.archive, self.about, self.secrets = archive, about, known_secrets()

    def text(self, name: str, text: str, *, by_pattern: bool = True) -> None:
        text, count = redact(text, self.secrets, by_pattern=by_pattern)
        if count:
            self.about.redacted[name] = count
        self._put(name, text.encode())

    def table(self, name: str, file: Path) -> None:
        """Adds a Parquet file unchanged, under the name `name`.

        Leaves out a file that holds a known secret, because secrets can only be removed from text files.
        """
        if any(_holds_secret(file, secret) for secret in self.secrets):
            self.about.left_out[name] = "it holds a secret"
        else:
            self._put(name, file.read_bytes())

    def _put(self, name: str, content: bytes) -> None:
        self.archive.writestr(name, content)
        self.about.members.append(name)


def _fill(packer: _Packer, run_dir: Path, full: bool) -> None:
    for name in (*(f"{name}.json" for name in JSON), "report.html"):
        if _is_inside(run_dir, run_dir / name):
            # A script in report.html may match a pattern, but must not change: the page names its scripts by digest.
            # In this file only known secrets are replaced.
            packer.text(name, (run_dir / name).read_text(errors="replace"), by_pattern=name != "report.html")
        else:
            packer.about.left_out[name] = "not there"
    for file in sorted(run_dir.glob("*.parquet")):
        if _is_inside(run_dir, file):
            packer.table(file.name, file)
    for folder in (*TABLES, *(FULL if full else ())):
        for file in sorted((run_dir / folder).glob("*.parquet")):
            if _is_inside(run_dir, file):
                packer.table(f"{folder}/{file.name}", file)
    for name, file in _logs(run_dir):
        packer.text(f"logs/{name}", _tail(file))
    packer.text("doctor.json", msgspec.json.encode(doctor.examine()).decode())
    if not full:
        packer.about.left_out |= {f"{folder}/": "only with --bundle-full" for folder in FULL}
    packer.archive.writestr("about.json", dumps(packer.about))


def _is_inside(run_dir: Path, file: Path) -> bool:
    """Returns whether `file` is a file inside the run directory. A link to a file outside does not count."""
    return file.is_file() and file.resolve().is_relative_to(run_dir.resolve())


def _logs(run_dir: Path) -> Iterator[tuple[str, Path]]:
    """Yields (name in the bundle, file) of each text log of the run.

    Yields the logs of the run's tasks in the local Airflow. Then yields the logs of the cluster agent, the brokers and
    the producers, if the workspace (the folder of the run's cluster) still exists.
    """
    tasks = folders.state_dir() / "airflow" / "logs" / "dag_id=verify_delivery"
    for folder in sorted(tasks.glob("run_id=*")):
        if folders.run_directory_name(folder.name.removeprefix("run_id=")) == run_dir.name:
            yield from ((f"airflow/{file.relative_to(folder)}", file) for file in sorted(folder.rglob("*.log")))
    if (workspace := _workspace(run_dir)) is not None:
        for pattern in ("agent.log", "logs/*.log", "live/*/*/stderr"):
            for file in sorted(workspace.glob(pattern)):
                if _is_inside(workspace, file):
                    yield f"cluster/{file.relative_to(workspace)}", file


def _workspace(run_dir: Path) -> Path | None:
    """Returns the run's workspace, the folder of its cluster. Returns None if this folder does not exist any more."""
    try:
        workspace = workspaces.folder() / RunDirectory(run_dir).read_scenario().run_token
    except (IncompleteRun, BadInput):
        return None
    return workspace if workspace.is_dir() else None


def _tail(file: Path) -> str:
    """Returns the last 2,000,000 bytes (LOG_BYTES) of a file as text. If the file is longer, a line with the file's
    size stands before them."""
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - LOG_BYTES))
        text = stream.read().decode(errors="replace")
    return text if size <= LOG_BYTES else f"(the last {LOG_BYTES} of {size} bytes)\n{text}"


def _holds_secret(file: Path, secret: str) -> bool:
    """Returns whether the table in `file` holds `secret` in a column that can hold text. Returns True for an unreadable
    table, too."""
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowException):
        return True  # a table that cannot be read may hold anything
    return any(secret in str(_values(column)) for column in table.columns if _may_hold_text(column.type))


def _values(column: pa.ChunkedArray) -> list[Any]:
    # Arrow has no `unique` for lists and structures.
    values: list[Any] = (column if pa.types.is_nested(column.type) else column.unique()).to_pylist()
    return values


def _may_hold_text(kind: pa.DataType) -> bool:
    """Returns whether a column of the type `kind` can hold text. A column of numbers, booleans, dates or times, or of
    lists of these, cannot."""
    if pa.types.is_list(kind):
        return _may_hold_text(kind.value_type)
    return not (pa.types.is_primitive(kind) or pa.types.is_null(kind))
