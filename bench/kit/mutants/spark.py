"""A JVM with Spark that all trials share. A trial is a fork: it connects to this JVM, as a job under spark-submit does.

Starting a JVM takes longer than most trials. A trial that was killed leaves its context in the JVM, and a JVM has only
one context at a time. So each trial first stops the context that it finds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

_SETTINGS = "import json; from spark_jobs.session.classic import settings; print(json.dumps(settings()))"


def start_jvm(folder: Path) -> JavaGateway:
    """Starts the JVM with the settings of the project in `folder`. The JVM ends when this process ends.

    The caller must keep the returned gateway.
    """
    command, path = (sys.executable, "-c", _SETTINGS), f"{folder / 'plugins'}:{folder}"
    answer = subprocess.check_output(command, env=os.environ | {"PYTHONPATH": path}, text=True)
    conf = SparkConf(loadDefaults=False).setMaster("local[2]").setAppName("mutants")
    for name, value in json.loads(answer).items():
        conf.set(name, value)
    gateway = launch_gateway(conf)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.gateway_parameters.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.gateway_parameters.auth_token
    return gateway


def stop_left_context() -> None:
    """Stops the context that an earlier trial left in the JVM. Does nothing if there is no JVM."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        SparkContext._jvm.org.apache.spark.SparkContext.getOrCreate().stop()  # a new one if none was left
