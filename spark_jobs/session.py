"""The session: Spark on this host, set up so that a verification starts fast and says little."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

JARS_VARIABLE = "KDV_SPARK_JARS"
"""Environment variable with the comma-separated paths of the jars that let Spark read Kafka."""
SMALL_RECORDS = 20_000
"""Below this the JVM's second compiler is left out. At 150 k that made a run slower (measured)."""


def settings(records: int = SMALL_RECORDS, shuffle_partitions: int = 4) -> dict[str, str]:
    """Spark properties for a run of about `records` records, for `spark-submit --conf` or `local_session`."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "3g",
        # bindAddress without host makes executors look for blocks under a name that nothing listens on
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "kdv-spark-warehouse"),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.driver.extraJavaOptions": java_options(records),
    }
    jars = os.environ.get(JARS_VARIABLE, "")
    return conf | ({"spark.jars": jars} if jars else {})


def java_options(records: int) -> str:
    """Options of the driver's JVM: one thread of garbage collection, and the quick compiler alone if
    small."""
    return "-XX:+UseSerialGC" + (" -XX:TieredStopAtLevel=1" if records < SMALL_RECORDS else "")


def local_session(records: int = SMALL_RECORDS, master: str = "local[*]") -> SparkSession:
    """A session in this process's own JVM; under `spark-submit` the one that was configured there.

    Properties given to `spark-submit` win. Workers run the interpreter that runs this.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kafka-delivery-verifier")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set by spark-submit, whose JVM is running already
        builder = builder.master(master)
        for key, value in settings(records).items():
            builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    return spark
