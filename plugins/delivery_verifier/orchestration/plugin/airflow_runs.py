"""Lists the DAG runs of verify_delivery and audit_delivery from Airflow's database, for the page of all runs.

This code runs in Airflow's api-server.
"""

from __future__ import annotations

from urllib.parse import quote

from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from delivery_verifier.host import folders
from delivery_verifier.orchestration.names import WITH_REPORT
from delivery_verifier.pages.overview.unfinished import AirflowRun

LISTED = 2000
"""The greatest number of DAG runs that are read. The newest ones are read."""


def newest() -> dict[str, AirflowRun]:
    """Returns the newest DAG runs of both DAGs, at most LISTED runs. The keys are the names of the run
    directories."""
    columns = DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.run_after
    query = select(*columns).where(DagRun.dag_id.in_(WITH_REPORT)).order_by(DagRun.id.desc()).limit(LISTED)
    with create_session(scoped=False) as session:
        runs = [
            AirflowRun(
                name=folders.run_directory_name(run_id),
                page=f"../dags/{quote(dag_id)}/runs/{quote(run_id, safe='')}",
                state=str(state),  # type: ignore[arg-type]
                begun_at=run_after,
            )
            for dag_id, run_id, state, run_after in session.execute(query)
        ]
    return {run.name: run for run in runs}
