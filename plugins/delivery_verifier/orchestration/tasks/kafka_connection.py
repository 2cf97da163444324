"""Airflow's connections of type `kafka`, for tasks. In a task, a cluster with the name `airflow:CONN_ID` is read from
Airflow, which knows its own database, its secrets backend, and its environment.
"""

from __future__ import annotations

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from delivery_verifier.cluster.security import airflow_connections
from delivery_verifier.cluster.security.airflow_connections import AirflowConnection


def provide() -> None:
    """Makes this process ask Airflow for connections."""
    airflow_connections.use(_connection)


def _connection(conn_id: str) -> AirflowConnection | None:
    """Returns the connection of Airflow, or None if there is none.

    Airflow's logs hide values of `*.password`. They would show those of `sasl.jaas.config` and of keys, so all secrets
    are told to Airflow before anybody can log them.
    """
    try:
        known = Connection.get(conn_id)
    except AirflowNotFoundException:
        return None
    connection = airflow_connections.stored(f"the connection {conn_id}", str(known.conn_type), known.extra)
    for secret in airflow_connections.secrets_of(connection):
        mask_secret(secret)
    return connection
