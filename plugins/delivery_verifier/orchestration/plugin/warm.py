"""Warm: the libraries that tasks import, the scheduler of the local Airflow has imported already.

LocalExecutor forks its workers from the scheduler, and these fork the tasks: what the scheduler has imported costs them
nothing. Great Expectations and pandas cost each of them seconds otherwise. None of it is this project's own: what is
edited while Airflow is up must be what the next task runs. (Airflow listeners, lifecycle: `on_starting`.)
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
    """Imports them, where `component` is the scheduler of a local Airflow: somebody else's shall not grow by it.

    Airflow calls this in tasks too. A Job has no type yet at this moment, so that the command line has to tell.
    """
    if MARK in os.environ and type(component).__name__ == "Job" and sys.argv[1:2] == ["scheduler"]:
        logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it tells 200 lines while it is imported
        for name in LIBRARIES:
            importlib.import_module(name)
