"""Warm start: the scheduler of the local Airflow imports the libraries that tasks need, before it forks its workers.

LocalExecutor forks its workers from the scheduler, and the workers fork the tasks. A library that the scheduler has
imported costs a task no time. Otherwise the import of Great Expectations and pandas would cost every task seconds. The
scheduler imports no module of this project, because code that is edited while Airflow runs must take effect in the next
task. This module is an Airflow listener: Airflow calls `on_starting` when a component starts.
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
    "confluent_kafka.admin",
    "great_expectations",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
)
"""The modules that the scheduler imports. Tasks need them."""


@hookimpl
def on_starting(component: object) -> None:
    """Imports LIBRARIES if `component` is the scheduler of a local Airflow.

    Other Airflows are left alone, because the libraries take memory. Scheduler, triggerer and dag-processor each pass a
    Job, which does not say yet what it runs. So the command line of the process tells whether the Job is the scheduler.
    Airflow also calls this function in tasks. A task has the command line of the scheduler, from which it was forked,
    but passes no Job.
    """
    if MARK in os.environ and type(component).__name__ == "Job" and sys.argv[1:2] == ["scheduler"]:
        logging.getLogger("great_expectations").setLevel(logging.WARNING)  # its import logs 200 lines
        for name in LIBRARIES:
            importlib.import_module(name)
