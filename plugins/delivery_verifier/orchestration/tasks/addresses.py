"""The addresses of runs and reports in the UI of this Airflow, i.e. of the Airflow that runs the calling task."""

from __future__ import annotations

from airflow.sdk.configuration import conf

from delivery_verifier.orchestration.client import ui_url
from delivery_verifier.orchestration.names import DAG_ID


def run_url(dag_id: str, run_id: str) -> str:
    """Returns the address of the DAG run's page. The address begins with the value of Airflow's option
    `api.base_url`."""
    return ui_url(conf.get("api", "base_url", fallback="http://localhost:8080"), dag_id, run_id)


def report_url(run_id: str, dag_id: str = DAG_ID) -> str:
    """Returns the address of the tab Delivery report of `run_id`, a run of the DAG `dag_id`."""
    return f"{run_url(dag_id, run_id)}/plugin/delivery-report"
