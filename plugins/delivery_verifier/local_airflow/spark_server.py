"""The Spark of the local Airflow: a Spark Connect server. All runs use the JVM of this server, one run after another.

The supervisor keeps the server alive (`SparkServer`). The server is a JVM with a plugin of Spark. The parent of this
JVM is a process that runs this module. The two processes end together.

The usual main class, `SparkConnectServer`, would give every session a class loader of its own. Spark keeps compiled
code per class loader. So each run would compile classes again that the run before had compiled already.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from delivery_verifier.host import processes
from delivery_verifier.local_airflow import logs, settings
from delivery_verifier.pipeline.local_spark import prepare_spark

PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
"""The plugin that makes a JVM of Spark a Spark Connect server. It stands in the command line of the JVM."""
RESTART_AFTER_S = 5.0
"""The least time between two starts of the server, in seconds. Without this pause, repeated starts of a server that
fails each time would use up a whole processor."""
LIMITS = {
    # A client that was killed leaves its query behind. The query ends when the client has been silent for so long.
    "spark.connect.execute.manager.detachedTimeout": "30s",
    "spark.connect.execute.manager.maintenanceInterval": "5s",
    "spark.connect.session.manager.defaultSessionTimeout": "5m",
    # Else a server whose port is taken would listen on the next one, where no client looks for it.
    "spark.connect.grpc.port.maxRetries": "0",
}
"""Properties of the server that bound what a client may leave behind, and where the server listens."""
FOREIGN = (
    "SPARK_REMOTE",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
)
"""Environment variables with which a user's PySpark takes another Spark. The server must start a JVM of its own."""
CONNECTIONS = "AIRFLOW_CONN_"
"""The beginning of the names of environment variables that have a connection of Airflow."""
Start = Callable[[int], "subprocess.Popen[bytes]"]


def listens(port: int) -> bool:
    """Returns whether a process listens on `port` of the loopback interface."""
    try:
        socket.create_connection((settings.SPARK_ADDRESS, port), timeout=5).close()
    except OSError:
        return False
    return True


def url(port: int) -> str:
    """Returns the Spark Connect URL of the server at `port`, with its token. Keep this URL out of logs, because the
    token is a secret."""
    return f"sc://{settings.SPARK_HOST}:{port}/;token={settings.spark_token()}"


class SparkServer:
    """Keeps a Spark Connect server alive: starts it anew whenever it has ended. `port` stays the same, so the Airflow
    connection to the server stays valid.

    `start` is a function that takes the port, starts the server's process, and returns this process.
    """

    def __init__(self, port: int, start: Start) -> None:
        self._port, self._start = port, start
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = -RESTART_AFTER_S

    def keep(self) -> None:
        """Starts the server if it is not running and the last start was at least RESTART_AFTER_S seconds ago. Returns
        at once."""
        incarnations = self._process is not None and self._process.poll() is None
        if not incarnations and time.monotonic() - self._started_at >= RESTART_AFTER_S:
            self._started_at = time.monotonic()
            self._process = self._start(self._port)


def properties(port: int) -> dict[str, str]:
    """Returns the Spark properties of the server at `port`. The server listens only on the loopback interface.

    The token is not among them, because every user of the host can read the command line of the JVM. `prepare_spark`
    must have run before.
    """
    from spark_jobs.session.classic import SMALL_RECORDS
    from spark_jobs.session.classic import settings as of_size

    # The JVM serves many runs, so it has its optimizing compiler, like the JVM of one large run.
    conf = of_size(SMALL_RECORDS) | LIMITS
    # A JVM that has run out of memory once must not serve the next run.
    options = [*shlex.split(conf["spark.driver.extraJavaOptions"]), "-XX:+ExitOnOutOfMemoryError"]
    return conf | {
        "spark.plugins": PLUGIN,
        "spark.connect.grpc.binding.address": settings.SPARK_ADDRESS,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": shlex.join(options),
    }


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of the server: `variables` without connections of Airflow, which may have secrets of a
    user. Spark shows parts of its environment, and reads no connection."""
    return {name: value for name, value in variables.items() if not name.startswith(CONNECTIONS)}


def start(port: int) -> subprocess.Popen[bytes]:
    """Starts the server, and returns its process. When the process that calls this function ends, the server ends, too.
    The server writes to the log file spark.log."""
    with logs.log_file("spark").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, "--port", str(port)],
            cwd=settings.airflow_home(),
            env=environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=processes.dies_with_parent(signal.SIGTERM),
        )


def main() -> int:
    """The entry point of the server's process. Needs the environment variables that `settings.environment` returns."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    prepare_spark()
    for name in FOREIGN:
        os.environ.pop(name, None)
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = settings.spark_token()
    from spark_jobs.session.classic import serve

    return serve(properties(port))


if __name__ == "__main__":
    sys.exit(main())
