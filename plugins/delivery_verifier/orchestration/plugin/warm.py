"""Warm start: the scheduler of the local Airflow imports what tasks need, before it forks its workers. The
dag-processor imports the libraries that the DAG files need, before it forks the processes that read these files.

LocalExecutor forks its workers from the scheduler, and the workers fork the tasks. So a task already has the modules
that the scheduler has imported. Without this, each task would import Great Expectations, pandas and this project again.
The dag-processor forks a process for each reading of a DAG file. It imports only libraries beforehand, because an
edited module of this project must be read anew.

If a module of this project is edited while Airflow runs, the next task must use the edited code. So each task compares
the project's files with those that the scheduler has imported. If a file differs, the task forgets all modules of this
project, and imports them anew.

This module is an Airflow listener: Airflow calls `on_starting` when a component starts.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow.listeners import hookimpl

from delivery_verifier.orchestration.names import MARK

_log = logging.getLogger(__name__)

DAG_LIBRARIES = (
    "airflow.providers.apache.spark.operators.spark_submit",
    "airflow.providers.common.io.assets.file",
    "airflow.providers.smtp.notifications.smtp",
    "airflow.providers.standard.decorators.python",
    "airflow.providers.standard.operators.empty",
    "airflow.providers.standard.operators.trigger_dagrun",
    "airflow.sdk.definitions.decorators.setup_teardown",
    "airflow.sdk.definitions.timetables.interval",
    "airflow.sdk.definitions.timetables.trigger",
    "javaproperties",
)
"""The modules of libraries that the DAG files import, directly or through this project. The dag-processor and the
scheduler import them at their start."""

LIBRARIES = (
    "bokeh.embed",
    "bokeh.plotting",
    "confluent_kafka.admin",
    "duckdb",
    "jinja2.ext",
    "pandas",
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.sql.connect.session",
)
"""The modules that the scheduler imports beside DAG_LIBRARIES, because tasks need them later. Great Expectations is not
among them: `expectations.library` imports it, without libraries that no suite needs."""


STEPS = (
    "delivery_verifier.orchestration.tasks.form",
    "delivery_verifier.orchestration.tasks.notify",
    "delivery_verifier.orchestration.tasks.verify_delivery",
    "delivery_verifier.pages.brief",
    "delivery_verifier.run.steps.conclude",
    "delivery_verifier.run.steps.create_topics",
    "delivery_verifier.run.steps.inject_fault",
    "delivery_verifier.run.steps.plan",
    "delivery_verifier.run.steps.produce",
    "delivery_verifier.run.steps.settle",
    "delivery_verifier.run.steps.start_cluster",
    "delivery_verifier.run.steps.stop_cluster",
    "delivery_verifier.run.steps.validate",
    "expectations.validation",
    "expectations.data_docs.views",
    "expectations.suites",
    "spark_jobs.session.connect",
    "spark_jobs.reconcile",
)
"""The modules of this project that the scheduler imports after LIBRARIES. They import most others that a task needs."""

PACKAGES = ("delivery_verifier", "expectations", "spark_jobs")
"""The packages of this project."""

EDITED = "the code of this project was edited after the scheduler had started: this task imports it anew"
"""What a task logs before it forgets the modules of this project."""

Files = dict[str, tuple[int, int]]
"""Maps the path of each source file of this project to its time of modification (in ns since the epoch) and its size
(in bytes)."""

_imported: Files = {}
"""The source files as they were when the scheduler imported STEPS. Empty if this process is no fork of such a
scheduler."""


@hookimpl
def on_starting(component: object) -> None:
    """In the scheduler of a local Airflow, imports DAG_LIBRARIES, LIBRARIES and STEPS. In its dag-processor, imports
    DAG_LIBRARIES. In a task of such a scheduler, forgets the modules of this project when one of their files has been
    edited.

    Does nothing in any other Airflow, because the modules take memory. Airflow calls this function in these processes:

    * Scheduler, triggerer and dag-processor. In each of them, `component` is of the type Job. The Job does not say yet
      which of the three this process is, but the command line of the process does.
    * Tasks. A task is a fork of the scheduler and has the scheduler's command line, but its `component` is no Job.
    """
    if MARK not in os.environ:
        return
    if type(component).__name__ != "Job":
        if _imported and not _is_unedited():
            _forget()
    elif sys.argv[1:2] == ["scheduler"]:
        logging.getLogger("great_expectations").setLevel(logging.WARNING)  # its import logs 200 lines
        _imported.update(_files())  # an edit during the imports counts as an edit afterwards
        _import(DAG_LIBRARIES + LIBRARIES + STEPS)
    elif sys.argv[1:2] == ["dag-processor"]:
        _import(DAG_LIBRARIES)


def _import(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


def _is_unedited() -> bool:
    """Returns whether the source files are as they were when the scheduler imported them. If they cannot be read, they
    count as edited. Reason: Airflow logs an error of a listener, and goes on with the task."""
    try:
        return _imported == _files()
    except OSError:
        return False


def _files() -> Files:
    """Returns the source files of PACKAGES as they are now.

    Leaves out a link without a target, such as the lock file of an editor. Raises OSError if a file vanishes meanwhile.
    """
    folders = [Path(*importlib.import_module(package).__path__) for package in PACKAGES]
    files = [file for folder in folders for file in folder.rglob("*.py") if file.exists()]
    states = {str(file): file.stat() for file in files}
    return {name: (state.st_mtime_ns, state.st_size) for name, state in states.items()}


def _forget() -> None:
    """Removes all modules of PACKAGES from this process. The next import of such a module reads its file again."""
    _log.info(EDITED)
    for name in list(sys.modules):
        if name.partition(".")[0] in PACKAGES:
            del sys.modules[name]
    importlib.invalidate_caches()
