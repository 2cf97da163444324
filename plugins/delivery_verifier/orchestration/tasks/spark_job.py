"""The Spark job of the step reconcile: its script, its Spark properties, and how it reaches the cluster."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from delivery_verifier.model.data import dumps
from delivery_verifier.model.scenario import Scenario

if TYPE_CHECKING:
    from delivery_verifier.cluster.handle import Cluster
    from delivery_verifier.cluster.security.spark_options import Location


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


@contextmanager
def connected(cluster: Cluster, location: Location) -> Iterator[list[str]]:
    """Yields the arguments by which a job that is submitted to `location` finds its connection to `cluster`, while the
    block runs. They name a file in the workspace, whose options have no secret either. The list is empty if the brokers
    ask for no security: the job then knows their addresses from the run directory.

    Raises the errors of `spark_options.granted`.
    """
    from delivery_verifier.cluster.security import spark_options

    if not cluster.connection.security:
        yield []
        return
    file = cluster.workspace / spark_options.OPTIONS
    with spark_options.granted(cluster.connection, cluster.workspace, location) as options:
        file.write_bytes(dumps({**options}))
        try:
            yield ["--connection", str(spark_options.path_in_driver(file, location))]
        finally:
            file.unlink(missing_ok=True)


def script() -> Path:
    """Returns the script of the installed Spark job. Raises FileNotFoundError if the job is not installed."""
    spec = importlib.util.find_spec("spark_jobs.reconcile")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("spark_jobs/reconcile.py is not installed: install the project (uv sync)")
    return Path(spec.origin)
