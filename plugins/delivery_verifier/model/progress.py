"""Progress: the messages to a listener that follows a run, whether the run goes through Airflow or in this process."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class StepProgress(Struct, frozen=True):
    """A step of the run `run` changed its state: `running`, `success` or `failed`, or another of Airflow's states."""

    run: str
    step: str
    state: str


ProgressListener = Callable[[StepProgress], None]
"""Is called at each change, maybe by several threads at once: produce and inject_fault run side by side."""
