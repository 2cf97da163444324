"""The names of the DAGs, the schedule of the catalogue, and the mark of a local Airflow's processes."""

from __future__ import annotations

import os

from delivery_verifier.host import variables

DAG_ID = "verify_delivery"
CATALOGUE_DAG_ID = "verify_catalogue"
AUDIT_DAG_ID = "audit_delivery"
SENTINEL_DAG_ID = "verify_sentinel"
WITH_REPORT = (DAG_ID, AUDIT_DAG_ID, SENTINEL_DAG_ID)
"""The DAGs of which each run has a report of its own."""
NIGHTLY = "0 2 * * *"
"""The schedule of catalogue runs that KDV_NIGHTLY=1 stands for: a cron expression in UTC."""
MARK = "KDV_LOCAL_AIRFLOW"
"""The environment variable that marks all processes of one local Airflow. Its value is their AIRFLOW_HOME.

A process keeps the mark when its parent ends and another process becomes its parent.
"""


def nightly() -> str | None:
    """Returns the cron schedule of the catalogue; None if the catalogue runs only when a user triggers the DAG.

    The environment variable KDV_NIGHTLY is 1 (every night at 02:00 UTC), 0 (never), or a cron expression. Raises
    BadInput for any other value. If the variable is unset, the local Airflow never runs the catalogue by schedule,
    because a user who only wants to see the UI does not expect a load every night. If the variable is unset in any
    other Airflow, the catalogue runs every night.
    """
    chosen = variables.cron("KDV_NIGHTLY")
    if chosen in ("", "0"):
        return None if chosen or MARK in os.environ else NIGHTLY
    return NIGHTLY if chosen == "1" else chosen
