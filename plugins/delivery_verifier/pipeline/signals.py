"""Signals between steps that run side by side in processes of their own: files in the workspace of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import StepName


class ParallelStepFailed(VerifierError, RuntimeError):
    """The error of a step that cannot go on, because the step that runs in parallel failed or the cluster has ended."""


class Signals:
    """The signals of one run. Each step has three signals: begun, ended well, failed.

    `workspace` is the folder of the run's cluster, which holds the signals. A step asks with `has_begun` and
    `has_ended` while it waits for another step. So that no step waits in vain, these methods raise ParallelStepFailed
    in two cases:

    * The other step has failed.
    * The cluster has ended, which removes the folder.
    """

    def __init__(self, workspace: Path) -> None:
        self._folder = workspace

    def begin(self, step: StepName) -> None:
        """Signals that `step` has begun its work."""
        (self._folder / f"{step}.begun").touch()

    def has_begun(self, step: StepName) -> bool:
        """Whether `step` has begun its work. Raises ParallelStepFailed if `step` failed or the cluster has ended."""
        self._raise_if_failed(step)
        return (self._folder / f"{step}.begun").exists()

    def has_ended(self, step: StepName) -> bool:
        """Whether `step` has ended well. Raises ParallelStepFailed if `step` failed or the cluster has ended."""
        self._raise_if_failed(step)
        return (self._folder / f"{step}.done").exists()

    @contextmanager
    def ending(self, step: StepName) -> Iterator[None]:
        """Runs the block, which must contain all the work of `step`. Then signals how `step` ended.

        If the block raises an error, signals that `step` has failed, and raises this error again. Otherwise signals
        that `step` has ended well.
        """
        try:
            yield
        except BaseException as error:
            with suppress(FileNotFoundError):  # the cluster agent removes the workspace of a run that has ended
                (self._folder / f"{step}.failed").write_text(f"{type(error).__name__}: {error}")
            raise
        (self._folder / f"{step}.done").touch()

    def _raise_if_failed(self, step: StepName) -> None:
        """Raises ParallelStepFailed if `step` has failed, or if the cluster has ended and its workspace is gone."""
        if not self._folder.is_dir():  # the cluster agent has ended the run, and removed the folder of the signals
            raise ParallelStepFailed(f"{self._folder} is gone: the run's cluster has ended")
        file = self._folder / f"{step}.failed"
        if file.exists():
            raise ParallelStepFailed(f"{step} failed: {file.read_text()}")
