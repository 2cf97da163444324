"""The run directory: the output of each step. A finished step seals its output: its manifest names each file with the
file's SHA-256. Later steps read only sealed output, and only if no file has changed since it was sealed."""

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
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.scenario_checks import loads
from delivery_verifier.model.steps import MANIFESTS, REPEATABLE, REQUIRES, VOIDS
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory import manifests
from delivery_verifier.run_directory.digests import sha256
from delivery_verifier.run_directory.format import FORMAT, schema_digest
from delivery_verifier.run_directory.manifests import IncompleteRun, Manifest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["IncompleteRun", "Manifest", "RunDirectory", "StepOutput"]


class _Run(Struct, frozen=True):
    run_id: str


class RunDirectory:
    """The directory `runs/<run id>/` with the immutable outputs of one run. docs/reference/run-directory.md has its
    layout."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()

    def read_scenario(self) -> Scenario:
        """Reads and checks scenario.json. Returns the scenario. Callers should read the scenario once, and pass it on.

        Raises IncompleteRun if the file is missing or its format is unknown, and ValueError if the file is malformed.
        """
        file = self.path / "scenario.json"
        if not file.is_file():
            raise IncompleteRun(f"{self.path} is no run directory: scenario.json is missing")
        if (plan := self.path / "plan.json").is_file():
            manifests.require_known_format(plan, plan.read_bytes())
        return loads(file.read_bytes())

    def verdict(self) -> RunVerdict:
        """Returns the verdict that the step conclude wrote.

        Raises IncompleteRun if there is no verdict, or if a file that conclude wrote was altered or is damaged.
        """
        try:
            return msgspec.json.decode(self.sealed("conclude", "verdict.json"), type=RunVerdict)
        except msgspec.MsgspecError as error:
            file = self.path / "verdict.json"
            raise IncompleteRun(f"{file} is damaged: {error}; `kdv reconcile` judges the run anew") from None

    def run_id(self, folder: Path | None = None) -> str | None:
        """Returns the run's id in scenario.json of `folder` (default: the run directory), or None if it is
        unreadable."""
        try:
            return msgspec.json.decode(((folder or self.path) / "scenario.json").read_bytes(), type=_Run).run_id
        except (OSError, msgspec.MsgspecError):
            return None

    def manifest(self, step: str) -> Manifest:
        """Reads and checks the manifest of `step`. Does not check the step's files (`require` does).

        Raises IncompleteRun if the manifest is missing, damaged, altered, of another run, or of an unknown version.
        """
        file = self.path / f"{step}.json"
        if not file.is_file():
            raise IncompleteRun(f"step {step} did not finish: {file} is missing")
        return manifests.read(file, self.run_id())

    def sealed(self, step: str, name: str) -> bytes:
        """Returns the bytes of the file `name`, which `step` wrote. First checks all files of the step with `require`.

        Raises IncompleteRun if a check fails, or if the manifest of the step does not list the file `name`.
        """
        self.require(step)
        if name not in self.manifest(step).files:
            raise IncompleteRun(f"{name} is not among the files that step {step} wrote")
        return (self.path / name).read_bytes()

    def sealed_alone(self, step: str, name: str) -> bytes:
        """Returns the bytes of the file `name`, which `step` wrote. Checks only this file.

        Pages that list thousands of runs use this method, because a check of all files of the step takes too long.
        Raises IncompleteRun if the manifest does not have the file's SHA-256, and OSError if the file cannot be read.
        """
        content = (self.path / name).read_bytes()
        if self.manifest(step).files.get(name) != hashlib.sha256(content).hexdigest():
            raise IncompleteRun(f"{name} is not as step {step} wrote it")
        return content

    def require(self, *steps: str) -> None:
        """Raises IncompleteRun if one of `steps` has not finished, or if a file was changed after its step finished.

        Also raises IncompleteRun if a folder of one of the steps holds a file that no step wrote, or if a manifest that
        a step used was replaced later.
        """
        for step in steps:
            for name, digest in self.manifest(step).files.items():
                file = self.path / name
                if not file.is_file():
                    raise IncompleteRun(f"{name}, written by step {step}, is missing")
                if sha256(file) != digest:
                    raise IncompleteRun(f"{name} is not as step {step} wrote it: its SHA-256 differs")
        self._require_links(*steps)
        self._require_no_foreign_writer(*steps)

    def _require_links(self, *steps: str) -> None:
        """Raises IncompleteRun if a manifest that a step used was replaced later. Checks `steps` and the steps whose
        output they use."""
        rested = {name for step in steps for name in (*REQUIRES.get(step, ()), step)}
        for step in sorted(name for name in rested if (self.path / f"{name}.json").is_file()):
            required, present = self.manifest(step).required, self.rested_on(step)
            if differing := {name for name, _ in required.items() ^ present.items()}:
                raise IncompleteRun(f"step {step} rests on another {min(differing)}.json than the one that is there")

    def rested_on(self, step: str) -> dict[str, str]:
        """Maps steps to the SHA-256 of their manifests. These are the steps whose output `step` uses. Leaves out steps
        without a manifest."""
        files = {name: self.path / f"{name}.json" for name in REQUIRES.get(step, ())}
        return {name: sha256(file) for name, file in files.items() if file.is_file()}

    def _require_no_foreign_writer(self, *steps: str) -> None:
        """Raises IncompleteRun if a folder into which one of `steps` wrote holds a file that no step wrote."""
        finished = [self.manifest(file.stem) for file in self.path.glob("*.json") if file.stem in MANIFESTS]
        known = {name for manifest in finished for name in manifest.files}
        written = {Path(name).parts[0] for step in steps for name in self.manifest(step).files if "/" in name}
        for folder in sorted(written):
            for file in _data_files(self.path / folder):
                if (name := str(file.relative_to(self.path))) not in known:
                    raise IncompleteRun(f"{name} was written by no step of this run: remove it")

    @contextmanager
    def writing(self, step: str) -> Iterator[StepOutput]:
        """Returns a context manager that gives a StepOutput, which collects the step's files in a temporary folder.

        At the end of the block, moves the files into the run directory. If the block fails, moves no file.
        """
        output = StepOutput(self, step)
        try:
            yield output
            output.publish()
        finally:
            shutil.rmtree(output.staging, ignore_errors=True)


class StepOutput:
    """The output of a step, before it is published (moved into the run directory).

    The step writes its files to the temporary folder `staging`, under their final paths. The step adds its figures to
    `counts` and its texts to `notes`. The manifest will hold `counts` and `notes`.
    """

    def __init__(self, run: RunDirectory, step: str) -> None:
        self.run, self.step = run, step
        self.staging = run.path / f".{step}.{os.getpid()}.partial"
        shutil.rmtree(self.staging, ignore_errors=True)
        self.staging.mkdir(parents=True)
        self.started_at_us = now_us()
        self.required = run.rested_on(step)
        self.counts: dict[str, int] = {}
        self.notes: dict[str, str] = {}

    def write_json(self, name: str, value: Struct | list[object] | dict[str, object]) -> None:
        """Writes `value` as readable JSON to the file `name` below `staging`."""
        (self.staging / name).parent.mkdir(parents=True, exist_ok=True)
        (self.staging / name).write_bytes(dumps(value))

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Returns a context manager that sets the count `<phase>_ms` to its block's duration, even after an error."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.counts[f"{phase}_ms"] = round(1000 * (time.monotonic() - start))

    def write_table(self, name: str, table: pa.Table) -> Path:
        """Writes `table` to the file `<name>.parquet` below `staging`. Returns the path of the file."""
        import pyarrow.parquet as pq  # imported here, because Airflow imports this module often

        file = self.staging / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file, compression="zstd")
        return file

    def publish(self) -> None:
        """Moves all files below `staging` into the run directory. Writes the manifest last.

        First removes this step's old manifest, and the manifests of the steps whose output becomes invalid (VOIDS). If
        the step is in REPEATABLE, also removes the old folders that the step now writes again. Raises IncompleteRun if
        no scenario.json names the run.
        """
        files = {str(file.relative_to(self.staging)): sha256(file) for file in _data_files(self.staging)}
        run_id = self.run.run_id(self.staging) or self.run.run_id()
        if run_id is None:
            raise IncompleteRun(f"{self.run.path} is no run directory: it has no scenario.json that names the run")
        manifest = Manifest(
            step=self.step,
            started_at_us=self.started_at_us,
            finished_at_us=now_us(),
            files=files,
            counts=self.counts,
            notes=self.notes,
            format=FORMAT,
            schema=schema_digest(),
            run_id=run_id,
            required=self.required,
        )
        for step in (*VOIDS.get(self.step, ()), self.step):  # the verdict is removed first: it rests on all other steps
            (self.run.path / f"{step}.json").unlink(missing_ok=True)
        for entry in sorted(self.staging.iterdir()):
            if self.step in REPEATABLE and entry.is_dir():
                shutil.rmtree(self.run.path / entry.name, ignore_errors=True)
        for name in files:
            (self.run.path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.staging / name, self.run.path / name)
        partial = self.run.path / f".{self.step}.json.partial"
        partial.write_bytes(dumps(manifests.sealed(manifest)))
        os.replace(partial, self.run.path / f"{self.step}.json")


def _data_files(folder: Path) -> list[Path]:
    """Returns the data files below `folder`. Hidden files and Spark's `_SUCCESS` markers are not data."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
