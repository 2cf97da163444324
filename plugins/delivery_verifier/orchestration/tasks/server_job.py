"""A reconciliation on a Spark Connect server. The server runs the queries, and the Airflow task itself is the
driver."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from delivery_verifier.cluster.handle import Cluster

ANSWERS_WITHIN_S = 120.0
"""How long a server that is being started may take until it listens, in seconds."""
KILLED_WITHIN_S = 5.0
"""How long `ServerJob.kill` waits for the server's answer, in seconds."""


class ServerJob:
    """The reconciliation of `run` on the server at `url`, a Spark Connect URL with the token of the server. Spark reads
    from `cluster`.

    Another thread, or the handler of a signal, may call `kill` at any time.
    """

    def __init__(self, run: RunDirectory, url: str, cluster: Cluster) -> None:
        self._run, self._url, self._cluster = run, url, cluster
        self._end_session: Callable[[], object] | None = None
        self._killed = False

    def reconcile(self) -> None:
        """Waits for the server, and reconciles the run in a new session. Closes the session in any case.

        Raises DeadlinePassed if no server listens in time, SparkGone if the server ends, StepFailed after `kill`,
        SecretsOutOfReach if the server turns out to have its executors on other hosts, and the errors of
        `spark_jobs.reconcile.reconcile`.
        """
        wait_until(self._listens, "the Spark Connect server listens", ANSWERS_WITHIN_S, every_s=0.2)
        from delivery_verifier.cluster.security import spark_options
        from spark_jobs.reconcile import reconcile
        from spark_jobs.session.connect import client_of, connect_session
        from spark_jobs.session.progress import shown

        records = sum(arm.records for arm in self._run.read_scenario().loaded)
        try:
            with connect_session(self._url, records) as spark:
                self._end_session = client_of(spark).release_session
                self._require_wanted()
                master = str(spark.conf.get("spark.master"))
                location = spark_options.of_server(f"sc://{urlsplit(self._url).netloc}", master)
                connection, workspace = self._cluster.connection, self._cluster.workspace
                with shown(self._run, spark), spark_options.granted(connection, workspace, location) as options:
                    reconcile(self._run.path, False, spark, connection=options)
                self._require_wanted()
        except Exception:
            self._require_wanted()  # after `kill`, each query fails, and some errors would blame the server
            raise

    def kill(self) -> None:
        """Ends all queries of the reconciliation, which then fails. Lets no further query begin.

        Another thread makes the call to the server. Reason: this method may run as the handler of a signal. The signal
        may have interrupted its thread in the middle of another call to the server.
        """
        self._killed = True
        if self._end_session is not None:
            caller = threading.Thread(target=self._end_session, name="end of the Spark session")
            caller.start()
            caller.join(KILLED_WITHIN_S)

    def _require_wanted(self) -> None:
        if self._killed:
            raise StepFailed("the reconciliation was ended from outside")

    def _listens(self) -> bool:
        address = urlsplit(self._url)
        self._require_wanted()
        try:
            socket.create_connection((address.hostname or "", address.port or 0), timeout=5).close()
        except OSError:
            return False
        return True
