"""The run directory: what each step wrote, sealed with counts and digests, and read back only if it is whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from delivery_verifier.model.data import dumps
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.scenario_checks import loads
from delivery_verifier.model.steps import MANIFESTS, REPEATABLE, VOIDS
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.store.digests import sha256
from delivery_verifier.store.tables import FORMAT_VERSION

if TYPE_CHECKING:
    import pyarrow as pa


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`<step>.json`, which a step writes last. It lists what the step wrote, so that no unfinished step seems empty.

    `files` maps a path relative to the run directory to its SHA-256; `counts` are the step's own figures.
    `format_version` is the version of the run directory's format (docs/run-directory.md); a manifest that does not name
    one is of version 1.
    """

    step: str
    started_at_us: int
    finished_at_us: int
    files: dict[str, str]
    counts: dict[str, int]
    notes: dict[str, str] = {}
    format_version: int = 1


class _Version(Struct, frozen=True):
    """The version of a manifest's format. A manifest without this field is of version 1."""

    format_version: int = 1


class IncompleteRun(VerifierError, RuntimeError):
    """A step's output is missing, unfinished, altered, or in a format that is unknown here. No verdict may be read."""


class RunDirectory:
    """One run's immutable outputs under `runs/<run id>/` (the layout is documented in docs/run-directory.md)."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()

    def read_scenario(self) -> Scenario:
        """Reads, decodes and checks scenario.json. A caller reads the scenario once, and passes it on.

        Raises IncompleteRun if there is none or its format is unknown, ValueError if it is malformed.
        """
        file = self.path / "scenario.json"
        if not file.is_file():
            raise IncompleteRun(f"{self.path} is no run directory: scenario.json is missing")
        if (plan := self.path / "plan.json").is_file():
            _require_known_version(plan, plan.read_bytes())
        return loads(file.read_bytes())

    def verdict(self) -> RunVerdict:
        """The verdict that `conclude` sealed. Raises IncompleteRun if there is none, or if its file was altered
        since."""
        try:
            return msgspec.json.decode(self.sealed("conclude", "verdict.json"), type=RunVerdict)
        except msgspec.MsgspecError as error:
            file = self.path / "verdict.json"
            raise IncompleteRun(f"{file} is damaged: {error}; `kdv reconcile` judges the run anew") from None

    def manifest(self, step: str) -> Manifest:
        """The manifest of a finished step. Raises IncompleteRun."""
        file = self.path / f"{step}.json"
        if not file.is_file():
            raise IncompleteRun(f"step {step} did not finish: {file} is missing")
        try:
            content = file.read_bytes()
            _require_known_version(file, content)
            manifest = msgspec.json.decode(content, type=Manifest)
        except (OSError, msgspec.MsgspecError) as error:
            raise IncompleteRun(f"{file} is damaged: {error}") from None
        if strangers := [name for name in manifest.files if Path(name).is_absolute() or ".." in Path(name).parts]:
            raise IncompleteRun(f"{file} is damaged: {strangers[0]!r} is outside the run directory")
        return manifest

    def sealed(self, step: str, name: str) -> bytes:
        """The bytes of a file that `step` sealed; all files of the step are checked.

        Raises IncompleteRun, also if the step did not seal this file.
        """
        self.require(step)
        if name not in self.manifest(step).files:
            raise IncompleteRun(f"{name} is not among the files that step {step} wrote")
        return (self.path / name).read_bytes()

    def sealed_alone(self, step: str, name: str) -> bytes:
        """The bytes of a file that `step` sealed; only this file is checked, for pages that list thousands of runs.

        Raises IncompleteRun, also if the step did not seal this file, and OSError if it cannot be read.
        """
        content = (self.path / name).read_bytes()
        if self.manifest(step).files.get(name) != hashlib.sha256(content).hexdigest():
            raise IncompleteRun(f"{name} is not as step {step} wrote it")
        return content

    def require(self, *steps: str) -> None:
        """Raises IncompleteRun unless every step finished and each of its files is as it was written."""
        for step in steps:
            for name, digest in self.manifest(step).files.items():
                file = self.path / name
                if not file.is_file():
                    raise IncompleteRun(f"{name}, written by step {step}, is missing")
                if sha256(file) != digest:
                    raise IncompleteRun(f"{name} is not as step {step} wrote it: its SHA-256 differs")
        self._require_no_stranger(*steps)

    def _require_no_stranger(self, *steps: str) -> None:
        """Raises IncompleteRun if a folder that one of the steps wrote into holds a file that no step wrote."""
        finished = [self.manifest(file.stem) for file in self.path.glob("*.json") if file.stem in MANIFESTS]
        known = {name for manifest in finished for name in manifest.files}
        written = {Path(name).parts[0] for step in steps for name in self.manifest(step).files if "/" in name}
        for folder in sorted(written):
            for file in _data_files(self.path / folder):
                if (name := str(file.relative_to(self.path))) not in known:
                    raise IncompleteRun(f"{name} was written by no step of this run: remove it")

    @contextmanager
    def writing(self, step: str) -> Iterator[StepOutput]:
        """Collects a step's outputs under a temporary name and publishes them only if the block succeeds."""
        output = StepOutput(self, step)
        try:
            yield output
            output.publish()
        finally:
            shutil.rmtree(output.staging, ignore_errors=True)


class StepOutput:
    """What a step is about to publish. The step writes below `staging`, under the names of the run directory."""

    def __init__(self, run: RunDirectory, step: str) -> None:
        self.run, self.step = run, step
        self.staging = run.path / f".{step}.{os.getpid()}.partial"
        shutil.rmtree(self.staging, ignore_errors=True)
        self.staging.mkdir(parents=True)
        self.started_at_us = now_us()
        self.counts: dict[str, int] = {}
        self.notes: dict[str, str] = {}

    def write_json(self, name: str, value: Struct | list[object] | dict[str, object]) -> None:
        """Stages `value` as readable JSON."""
        (self.staging / name).parent.mkdir(parents=True, exist_ok=True)
        (self.staging / name).write_bytes(dumps(value))

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Counts the milliseconds of the block as `<phase>_ms`, also where the block fails."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.counts[f"{phase}_ms"] = round(1000 * (time.monotonic() - start))

    def write_table(self, name: str, table: pa.Table) -> Path:
        """Stages `table` as `<name>.parquet` and returns the file."""
        import pyarrow.parquet as pq  # not above: Airflow reads DAG files, and this module with them, every few seconds

        file = self.staging / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file, compression="zstd")
        return file

    def publish(self) -> None:
        """Moves everything staged into the run directory, and the manifest last."""
        files = {str(file.relative_to(self.staging)): sha256(file) for file in _data_files(self.staging)}
        manifest = Manifest(
            step=self.step,
            started_at_us=self.started_at_us,
            finished_at_us=now_us(),
            files=files,
            counts=self.counts,
            notes=self.notes,
            format_version=FORMAT_VERSION,
        )
        for step in (*VOIDS.get(self.step, ()), self.step):  # the verdict goes first: it rests on all the others
            (self.run.path / f"{step}.json").unlink(missing_ok=True)
        for entry in sorted(self.staging.iterdir()):
            if self.step in REPEATABLE and entry.is_dir():
                shutil.rmtree(self.run.path / entry.name, ignore_errors=True)
        for name in files:
            (self.run.path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.staging / name, self.run.path / name)
        partial = self.run.path / f".{self.step}.json.partial"
        partial.write_bytes(dumps(manifest))
        os.replace(partial, self.run.path / f"{self.step}.json")


def _data_files(folder: Path) -> list[Path]:
    """Data files below `folder`; hidden files and Spark's `_SUCCESS` markers are not data."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))


def _require_known_version(file: Path, content: bytes) -> None:
    """Raises IncompleteRun if the manifest `file` is in a format of which this version of the tool knows nothing.

    A manifest that shows no version at all passes: its decoder reports what is wrong.
    """
    try:
        version = msgspec.json.decode(content, type=_Version).format_version
    except msgspec.MsgspecError:
        return
    if not 1 <= version <= FORMAT_VERSION:
        raise IncompleteRun(
            f"{file} has format version {version}; this kafka-delivery-verifier reads versions up to {FORMAT_VERSION}. "
            f"Use one that reads format version {version}: the one that wrote the run, or a later one"
        )
