"""The Airflow connection that names the Spark master or the Spark Connect server.

This module refuses a connection that Airflow would misread without an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from delivery_verifier.model.errors import VerifierError

if TYPE_CHECKING:
    from delivery_verifier.cluster.security.spark_options import Location

DEFAULT_ID = "spark_default"
"""The id of the Airflow connection from which the step reconcile takes its Spark master."""
SERVER_TYPE = "spark_connect"
"""The type of a connection to a Spark Connect server. Every other type names a master for `spark-submit`."""
_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]*)(,[0-9]+)?\])?|local-cluster\[.*\]|spark://[^\s/:]+:[0-9]+(,[^\s/:]+:[0-9]+)*|k8s://\S+|yarn"
)
"""Matches every form of a master URL that Spark accepts. When a run starts, `require` refuses a URL that does not
match. Spark would refuse this URL only in the step reconcile, after the load was sent."""

_SERVER = re.compile(r"sc://[^\s/:;?#]+:[0-9]+")
"""Matches the address of a Spark Connect server."""


class NoSparkConnection(VerifierError, ValueError):
    """The error of a Spark connection that is missing or refused. The message gives the reason, and a valid example."""


def require(conn_id: str = DEFAULT_ID) -> str:
    """Returns the Spark master that the Airflow connection `conn_id` names. For a connection to a Spark Connect server,
    returns the address `sc://host:port` of the server, without the token.

    Raises NoSparkConnection in these cases:

    * The connection is missing.
    * Airflow or Spark would misread the connection.
    * Airflow would submit to YARN, although the connection does not name YARN. Airflow's Spark provider uses YARN if
      the connection is missing, or if its URI does not parse (`spark://local[2]`). Only an info line of the log says so
      (SparkSubmitHook._resolve_connection, provider 6.3.4).
    """
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk.bases.hook import BaseHook
    from airflow.sdk.exceptions import AirflowException

    try:
        connection = BaseHook.get_connection(conn_id)
    except (AirflowException, ValueError) as error:
        raise _refusal(conn_id, f"it cannot be read ({error})") from error
    if connection.conn_type == SERVER_TYPE:
        return _server_address(conn_id, connection.host or "", connection.port)
    if not connection.host and connection.conn_type != "yarn":
        raise _refusal(conn_id, "its host, the Spark master, is empty")
    master = str(SparkSubmitHook(conn_id=conn_id)._connection["master"])
    if master == "yarn" and "yarn" not in (connection.host, connection.conn_type):
        raise _refusal(conn_id, "Airflow would submit to yarn, which it does not name")
    if not _MASTER.fullmatch(master):
        raise _refusal(conn_id, f"its master is {master!r}; allowed: local[N], spark://host:port, k8s://..., yarn")
    if master.startswith("local") and connection.extra_dejson.get("deploy-mode", "client") != "client":
        raise _refusal(conn_id, "its deploy-mode must be client where the master is local")
    return master


def is_server(master: str) -> bool:
    """Returns whether `master`, the result of `require`, is the address of a Spark Connect server."""
    return master.startswith("sc://")


def location(conn_id: str = DEFAULT_ID) -> Location:
    """Returns where the Spark of the connection runs, as far as the connection tells. Raises NoSparkConnection as
    `require` does."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from delivery_verifier.cluster.security import spark_options

    master = require(conn_id)
    if is_server(master):
        return spark_options.of_server(master)
    deploy_mode = SparkSubmitHook(conn_id=conn_id)._connection["deploy_mode"]
    return spark_options.of_master(master, str(deploy_mode or "client"))


def server_url(conn_id: str = DEFAULT_ID) -> str:
    """Returns the URL of the Spark Connect server, with its token. Keep this URL out of logs, because the token is a
    secret."""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    return str(SparkConnectHook(conn_id).get_connection_url())


def _server_address(conn_id: str, host: str, port: int | None) -> str:
    address = f"sc://{host.removeprefix('sc://')}:{port or 0}"
    if not _SERVER.fullmatch(address) or not port:
        raise _refusal(conn_id, f"its Spark Connect server is {host!r}, port {port}; host and port are needed")
    return address


def _refusal(conn_id: str, why: str) -> NoSparkConnection:
    """Returns the error that says why the connection is refused. `why` is the reason. The error also shows a valid
    connection."""
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    example = '{"conn_type":"spark","host":"local[2]","extra":{"deploy-mode":"client"}}'
    return NoSparkConnection(f"Spark connection {conn_id!r}: {why}. Define it in Airflow, or set {variable}={example}")
