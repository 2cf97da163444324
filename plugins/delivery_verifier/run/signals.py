"""Signals between steps that run side by side in processes of their own: files in the cluster's workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import StepName


class ParallelStepFailed(VerifierError, RuntimeError):
    """The step that runs beside this one failed, so this one cannot go on."""


class Signals:
    """Three signals per step: begun, ended well, failed. No step goes on waiting for a step that failed."""

    def __init__(self, workspace: Path) -> None:
        self._folder = workspace

    def begin(self, step: StepName) -> None:
        """Signals that `step` has begun its work."""
        (self._folder / f"{step}.begun").touch()

    def has_begun(self, step: StepName) -> bool:
        """Whether `step` has begun its work. Raises ParallelStepFailed if it has failed."""
        self._raise_if_failed(step)
        return (self._folder / f"{step}.begun").exists()

    def has_ended(self, step: StepName) -> bool:
        """Whether `step` has ended well. Raises ParallelStepFailed if it has failed."""
        self._raise_if_failed(step)
        return (self._folder / f"{step}.done").exists()

    @contextmanager
    def ending(self, step: StepName) -> Iterator[None]:
        """Signals how the block, which is the whole of `step`, ended: well, or with which error."""
        try:
            yield
        except BaseException as error:
            if self._folder.is_dir():
                (self._folder / f"{step}.failed").write_text(f"{type(error).__name__}: {error}")
            raise
        (self._folder / f"{step}.done").touch()

    def _raise_if_failed(self, step: StepName) -> None:
        if not self._folder.is_dir():  # the keeper ended the run, and removed the folder that a failure is written to
            raise ParallelStepFailed(f"{self._folder} is gone: the run's cluster has ended")
        file = self._folder / f"{step}.failed"
        if file.exists():
            raise ParallelStepFailed(f"{step} failed: {file.read_text()}")
