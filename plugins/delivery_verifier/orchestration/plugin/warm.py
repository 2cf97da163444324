"""Warm start: the scheduler of the local Airflow imports the libraries that tasks need before it forks them.

LocalExecutor forks its workers from the scheduler, and the workers fork the tasks. A library that the scheduler has
imported costs a task nothing; Great Expectations and pandas would otherwise cost every task seconds. The scheduler
imports no module of this project: the next task must run what was edited while Airflow is up. (Airflow listeners,
lifecycle: `on_starting`.)
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


@hookimpl
def on_starting(component: object) -> None:
    """Imports LIBRARIES if `component` is the scheduler of a local Airflow. No other Airflow shall grow by them.

    Airflow calls this function in tasks too. At this moment a Job has no type yet: the command line of the process
    shows whether the Job is the scheduler.
    """
    if MARK in os.environ and type(component).__name__ == "Job" and sys.argv[1:2] == ["scheduler"]:
        logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it logs 200 lines while it is imported
        for name in LIBRARIES:
            importlib.import_module(name)
