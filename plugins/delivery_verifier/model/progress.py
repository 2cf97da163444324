"""Messages about the progress of a run, and the type of the functions that receive these messages.

A run through Airflow and a run in this process send the same messages.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class StepProgress(Struct, frozen=True):
    """The message that a step of a run has changed its state. `run` is the id of the run. `step` is the name of the
    step.

    `state` is the new state: `running`, `success` or `failed`. In a run through Airflow, it can also be any other state
    of an Airflow task.
    """

    run: str
    step: str
    state: str


ProgressListener = Callable[[StepProgress], None]
"""A function that is called with each change of a step's state. Several threads may call the function at once, because
the steps produce and inject_fault run in parallel."""
