"""The Spark of the local Airflow: a Spark Connect server. All runs use the JVM of this server, one run after another.

The supervisor keeps the server alive (`SparkServer`). The server's process begins by running this module. The module
computes the Spark properties, and then replaces itself by `spark-submit`.
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
from collections.abc import Callable

from delivery_verifier.host import processes
from delivery_verifier.orchestration.local import settings
from delivery_verifier.run.local_spark import prepare_spark

MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
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
Start = Callable[[int], "subprocess.Popen[bytes]"]


def free_port() -> int:
    """Returns a port of the loopback interface on which nothing listens at this moment."""
    with socket.socket() as probe:
        probe.bind((settings.SPARK_ADDRESS, 0))
        return int(probe.getsockname()[1])


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
        lives = self._process is not None and self._process.poll() is None
        if not lives and time.monotonic() - self._started_at >= RESTART_AFTER_S:
            self._started_at = time.monotonic()
            self._process = self._start(self._port)


def command(port: int) -> list[str]:
    """Returns the command that replaces this process by the server. The server listens only on the loopback interface.

    The token is not in the command, because every user of the host can read commands. `prepare_spark` must have run
    before.
    """
    from spark_jobs.session import SMALL_RECORDS
    from spark_jobs.session import settings as properties

    # The JVM serves many runs, so it has its optimizing compiler, like the JVM of one large run.
    conf = properties(SMALL_RECORDS) | LIMITS
    conf["spark.connect.grpc.binding.address"] = settings.SPARK_ADDRESS
    conf["spark.connect.grpc.binding.port"] = str(port)
    options = [
        # An archive is written when the JVM exits, for 10 s. The supervisor does not wait so long for its processes.
        *(word for word in shlex.split(conf["spark.driver.extraJavaOptions"]) if "ArchiveClassesAtExit" not in word),
        # A JVM that has run out of memory once must not serve the next run.
        "-XX:+ExitOnOutOfMemoryError",
    ]
    conf["spark.driver.extraJavaOptions"] = shlex.join(options)
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return ["spark-submit", "--master", "local[*]", *words, "--class", MAIN_CLASS]


def start(port: int) -> subprocess.Popen[bytes]:
    """Starts two processes: the server, and a process that warms the server up. Returns the server's process.

    The process that calls this function is the parent of these two processes. When the parent ends, both processes end,
    too. Both processes write to the log file spark.log.
    """
    server = _start(__name__, port)
    _start(f"{__package__}.warm_up", port)
    return server


def _start(module: str, port: int) -> subprocess.Popen[bytes]:
    with (settings.airflow_home() / "spark.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, "--port", str(port)],
            cwd=settings.airflow_home(),
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
    words = command(port)
    environment = os.environ | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": settings.spark_token()}
    os.execvpe(words[0], words, environment)  # noqa: S606  (a shell would be in the way of signals)


if __name__ == "__main__":
    sys.exit(main())
