"""Messages about the progress of a run, and the type of the functions that receive these messages.

The messages are the same for a run through Airflow and for a run in this process.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class StepProgress(Struct, frozen=True):
    """The message that a step of the run `run` changed its state.

    `state` is `running`, `success` or `failed`, or another of Airflow's task states.
    """

    run: str
    step: str
    state: str


ProgressListener = Callable[[StepProgress], None]
"""A function that is called at each change of state. Several threads may call the function at once, because the steps
produce and inject_fault run in parallel."""
