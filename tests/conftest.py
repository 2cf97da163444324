"""Fixtures that cost enough to be shared by a whole test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow_fixture import local_airflow  # noqa: F401  (a fixture: one for all folders)
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small local Spark session for all tests that need one."""
    from spark_jobs.session import local_session

    session = local_session(records=0, master="local[2]")
    yield session
    session.stop()
