"""Lists the DAG runs with a report from Airflow's database, for the page of all runs and for that of the sentinels.

This code runs in Airflow's api-server.
"""

from __future__ import annotations

from urllib.parse import quote

from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from delivery_verifier.host import folders
from delivery_verifier.orchestration.names import SENTINEL_DAG_ID, WITH_REPORT
from delivery_verifier.reporting.overview.unfinished import AirflowRun

LISTED = 2000
"""The greatest number of DAG runs of which the newest ones are read: once of the sentinels, and once of all others."""


def newest() -> dict[str, AirflowRun]:
    """Returns the newest DAG runs with a report. The keys are the names of the run directories.

    The sentinels have so many that they would hide all others: there are at most LISTED of them, and LISTED others."""
    return _newest([dag_id for dag_id in WITH_REPORT if dag_id != SENTINEL_DAG_ID]) | sentinels()


def sentinels() -> dict[str, AirflowRun]:
    """Returns the newest DAG runs of verify_sentinel, at most LISTED. The keys are the names of the run directories."""
    return _newest([SENTINEL_DAG_ID])


def _newest(dag_ids: list[str]) -> dict[str, AirflowRun]:
    columns = DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.run_after
    query = select(*columns).where(DagRun.dag_id.in_(dag_ids)).order_by(DagRun.id.desc()).limit(LISTED)
    with create_session(scoped=False) as session:
        runs = [
            AirflowRun(
                run_id=run_id,
                is_sentinel=dag_id == SENTINEL_DAG_ID,
                name=folders.run_directory_name(run_id),
                page=f"../dags/{quote(dag_id)}/runs/{quote(run_id, safe='')}",
                state=str(state),  # type: ignore[arg-type]
                begun_at=run_after,
            )
            for dag_id, run_id, state, run_after in session.execute(query)
        ]
    return {run.name: run for run in runs}
