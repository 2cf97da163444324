"""The Spark job of the step reconcile: its script and its Spark properties."""

from __future__ import annotations

import importlib.util
import shlex
from pathlib import Path

from delivery_verifier.model.scenario import Scenario


def properties(scenario: Scenario, master: str) -> dict[str, str]:
    """Returns the Spark properties of the job. They depend on the number of records of the scenario, and include the
    paths of the jars that connect Spark with Kafka.

    `master` is the URL of the Spark master. If the master is not local, Spark itself chooses the driver's address.
    """
    from delivery_verifier.host.java.jars import spark_jars
    from spark_jobs.session import classic

    records = sum(arm.records for arm in scenario.loaded)
    conf = classic.settings(records)
    conf["spark.jars"] = ",".join(str(jar) for jar in spark_jars())
    if not master.startswith("local"):
        # Executors on other hosts must reach the driver under its own address.
        del conf["spark.driver.host"], conf["spark.driver.bindAddress"]
        if options := classic.executor_options(records):
            conf["spark.executor.extraJavaOptions"] = shlex.join(options)
    return conf


def script() -> Path:
    """Returns the script of the installed Spark job. Raises FileNotFoundError if the job is not installed."""
    spec = importlib.util.find_spec("spark_jobs.reconcile")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("spark_jobs/reconcile.py is not installed: install the project (uv sync)")
    return Path(spec.origin)
