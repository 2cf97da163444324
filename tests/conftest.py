"""Fixtures that are expensive, and are therefore shared by a whole test session. Notes what each test costs."""

from __future__ import annotations

import json
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from costs import TIMES
from hypothesis import settings
from turns import UNTIL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent
BEGUN = pytest.StashKey[Path]()
"""The module that has begun last."""

if settings.get_current_profile_name() == "default":  # bench/kit/mutants/trial.py has a profile of its own
    settings.register_profile("busy-host", deadline=None)  # how long an example takes depends on what else runs here
    settings.load_profile("busy-host")


class Costs:
    """Writes a line into the file named by TIMES with the number of tests of each module, and a line for each test.

    When the time is up (UNTIL), no further module begins.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        late = time.time() > float(os.environ.get(UNTIL, "inf"))
        if late and item.session.stash.get(BEGUN, None) != item.path:
            return True  # nobody else runs it
        item.session.stash[BEGUN] = item.path
        return None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write({"collected": Counter(_name(item) for item in session.items)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._used = _cpu_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            test, slow = f"{_name(item)}::{item.nodeid.partition('::')[2]}", item.get_closest_marker("slow") is not None
            self._write({"id": test, "ended": time.monotonic(), "cpu_s": _cpu_s() - self._used, "slow": slow})

    def _write(self, line: dict[str, Any]) -> None:
        with self._file.open("a") as stream:
            stream.write(json.dumps(line) + "\n")


def _name(item: pytest.Item) -> str:
    """Returns the path of a test's module below this folder."""
    return str(item.path.relative_to(TESTS))


def pytest_configure(config: pytest.Config) -> None:
    if TIMES in os.environ:
        config.pluginmanager.register(Costs(Path(os.environ[TIMES])))


def _cpu_s() -> float:
    """Returns the processor seconds of this process and of its children that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small local Spark session. All tests that need Spark share this session."""
    from delivery_verifier.host.java.jars import cache_dir, spark_jars
    from spark_jobs.session.classic import JARS_VARIABLE, end, local_session

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
