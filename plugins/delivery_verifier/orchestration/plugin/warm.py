"""Warm start: the scheduler of the local Airflow imports the libraries that tasks need, before it forks its workers.

LocalExecutor forks its workers from the scheduler, and the workers fork the tasks. So a task already has the libraries
that the scheduler has imported. For Great Expectations and pandas, this saves seconds per task. The scheduler imports
no module of this project: if such a module is edited while Airflow runs, the next task must use the edited code.

This module is an Airflow listener: Airflow calls `on_starting` when a component starts.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys

from airflow.listeners import hookimpl

from delivery_verifier.orchestration.local.settings import MARK

LIBRARIES = (
    "airflow.providers.apache.spark.operators.spark_submit",
    "bokeh.embed",
    "bokeh.plotting",
    "confluent_kafka.admin",
    "duckdb",
    "great_expectations",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.sql.connect.session",
)
"""The modules that the scheduler imports at its start, because tasks need them later."""


@hookimpl
def on_starting(component: object) -> None:
    """Imports LIBRARIES if this process is the scheduler of a local Airflow.

    Does nothing in any other Airflow, because the libraries take memory. Airflow calls this function in these
    processes:

    * Scheduler, triggerer and dag-processor. In each of them, `component` is of the type Job. The Job does not say yet
      which of the three this process is, but the command line of the process does.
    * Tasks. A task is a fork of the scheduler and has the scheduler's command line, but its `component` is no Job.
    """
    if MARK in os.environ and type(component).__name__ == "Job" and sys.argv[1:2] == ["scheduler"]:
        logging.getLogger("great_expectations").setLevel(logging.WARNING)  # its import logs 200 lines
        for name in LIBRARIES:
            importlib.import_module(name)
