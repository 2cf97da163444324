"""Makes each task of the local Airflow run the code of this project that is on disk.

LocalExecutor forks its workers from the scheduler, and the workers fork the tasks. The scheduler has imported the
plugin, and with it modules of this project. Where they were edited since, a task would run some modules of the old code
and some of the new. So each task forgets them, and imports what it needs.

This module is an Airflow listener: Airflow calls `on_starting` when a component or a task starts.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys

from airflow.listeners import hookimpl

from delivery_verifier.orchestration.names import MARK

_log = logging.getLogger(__name__)
PACKAGES = ("delivery_verifier", "expectations", "spark_jobs")
"""The packages of this project."""
FORGOTTEN = "this task imports the code of this project anew"
"""What a task logs when it has forgotten the modules of this project."""


@hookimpl
def on_starting(component: object) -> None:
    """In a task of a local Airflow, removes all modules of PACKAGES, so that their next import reads their files.

    Does nothing in any other Airflow: there, a task may share its process with others. Airflow calls this function
    before it reads the DAG file of the task. In scheduler, triggerer and dag-processor, `component` is a Job; in a task
    it is not.
    """
    if MARK not in os.environ or type(component).__name__ == "Job":
        return
    for name in list(sys.modules):
        if name.partition(".")[0] in PACKAGES:
            del sys.modules[name]
    importlib.invalidate_caches()
    _log.info(FORGOTTEN)
