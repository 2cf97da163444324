"""The page of all runs: one HTML document. The document loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from delivery_verifier.reporting.html import environment
from delivery_verifier.reporting.overview import rows as stored_runs
from delivery_verifier.reporting.overview import trend
from delivery_verifier.reporting.overview.run_filter import VERDICTS, RunFilter
from delivery_verifier.reporting.overview.unfinished import AirflowRun, merged

RUNS_LISTED = 200
"""The greatest number of rows on the page. The page also states the number of all runs."""


def overview(
    runs: Path,
    run_filter: RunFilter,
    *,
    docs: bool,
    dag_path: str = "",
    in_airflow: Mapping[str, AirflowRun] | None = None,
) -> str:
    """Returns, as HTML, the page of all runs in the folder `runs` that match `run_filter`.

    `docs`: whether the page links to Data Docs, the pages of Great Expectations. `dag_path`: the address of the Airflow
    page on which a reader starts a run. If `dag_path` is empty, the page has no such link. `in_airflow`: the runs that
    Airflow knows, by the name of the run directory. The page lists such a run even if the run has no run directory.
    """
    all_rows = merged(stored_runs.rows(runs), in_airflow or {}, runs)
    matching = run_filter.matching(all_rows)
    return render(
        "overview.html.j2",
        "Delivery",
        rows=matching[:RUNS_LISTED],
        total=len(all_rows),
        matching=len(matching),
        run_filter=run_filter,
        verdicts=VERDICTS,
        profiles=stored_runs.profiles(all_rows),
        faults=stored_runs.faults(all_rows),
        kafka_versions=stored_runs.kafka_versions(all_rows),
        trends=trend.trends(matching),
        trend=trend,
        docs=docs,
        dag_path=dag_path,
    )


def render(template: str, title: str, *, refresh_s: int | None = None, **values: object) -> str:
    """Returns the HTML of the template named `template`, filled with `values`. `title`: the title of the page.

    `refresh_s`: the number of seconds after which the browser reloads the page. If it is None, the browser does not
    reload the page.
    """
    return environment().get_template(template).render(title=title, refresh_s=refresh_s, **values)
