"""Fixtures that are expensive, and are therefore shared by a whole test session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession
from support.airflow import local_airflow  # noqa: F401  (a fixture: one for all folders)

if settings.get_current_profile_name() == "default":  # bench/mutants_trial.py has a profile of its own
    settings.register_profile("busy-host", deadline=None)  # how long an example takes depends on what else runs here
    settings.load_profile("busy-host")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small local Spark session. All tests that need Spark share this session."""
    from delivery_verifier.host.java.jars import cache_dir, spark_jars
    from spark_jobs.session import JARS_VARIABLE, end, local_session

    if (cache_dir() / "jars").is_dir():  # a JVM takes its jars when it starts; without them only Kafka is missing
        os.environ.setdefault(JARS_VARIABLE, ",".join(str(jar) for jar in spark_jars()))
    session = local_session(master="local[2]")
    yield session
    end(session)


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """The shared Spark session, with the jars that read Kafka. Skips the test if these jars were not fetched."""
    if "spark-sql-kafka" not in spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's Kafka connector is not in the cache")
    return spark
