"""Signals between the load and the fault, which run side by side in processes of their own: files in the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from delivery_verifier.model.errors import VerifierError

Side = Literal["load", "fault"]


class OtherSideFailed(VerifierError, RuntimeError):
    """The step that runs beside this one failed, so this one cannot go on."""


class Signals:
    """`set`: this side has begun. `done`: it has ended well. `failed`: it has not, and the other must not wait."""

    def __init__(self, workspace: Path) -> None:
        self._folder = workspace

    def set(self, side: Side) -> None:
        """Says that `side` has begun."""
        (self._folder / f"{side}.begun").touch()

    def done(self, side: Side) -> None:
        """Says that `side` has ended well."""
        (self._folder / f"{side}.done").touch()

    def is_set(self, side: Side) -> bool:
        """Whether `side` has begun. Raises OtherSideFailed."""
        self._raise_if_failed(side)
        return (self._folder / f"{side}.begun").exists()

    def is_done(self, side: Side) -> bool:
        """Whether `side` has ended well. Raises OtherSideFailed."""
        self._raise_if_failed(side)
        return (self._folder / f"{side}.done").exists()

    @contextmanager
    def failing(self, side: Side) -> Iterator[None]:
        """Tells the other side if the block fails."""
        try:
            yield
        except BaseException as error:
            if self._folder.is_dir():
                (self._folder / f"{side}.failed").write_text(f"{type(error).__name__}: {error}")
            raise
        self.done(side)

    def _raise_if_failed(self, side: Side) -> None:
        if not self._folder.is_dir():  # the keeper ended the run, and took with it where a failure would be told
            raise OtherSideFailed(f"{self._folder} is gone: the run's cluster has ended")
        file = self._folder / f"{side}.failed"
        if file.exists():
            raise OtherSideFailed(f"{side} failed: {file.read_text()}")
