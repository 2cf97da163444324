"""The page of all runs as one HTML document that loads nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.pages.html import environment
from delivery_verifier.pages.overview import rows as stored_runs
from delivery_verifier.pages.overview import trend
from delivery_verifier.pages.overview.run_filter import VERDICTS, RunFilter

RUNS_LISTED = 200
"""At most this many rows stand on the page. The page says how many runs there are in all."""


def overview(runs: Path, run_filter: RunFilter, *, docs: bool, dag_path: str = "") -> str:
    """The page of the runs below `runs` that match the filter.

    `docs`: whether there are Data Docs. `dag_path`: the address at which a reader starts a run; empty for no link.
    """
    all_rows = stored_runs.rows(runs)
    matching = run_filter.matching(all_rows)
    return render(
        "overview.html.j2",
        "Delivery",
        rows=matching[:RUNS_LISTED],
        others=stored_runs.others(matching[:RUNS_LISTED]),
        total=len(all_rows),
        matching=len(matching),
        run_filter=run_filter,
        verdicts=VERDICTS,
        profiles=stored_runs.profiles(all_rows),
        faults=stored_runs.faults(all_rows),
        lanes=trend.lanes(matching),
        trend=trend,
        docs=docs,
        dag_path=dag_path,
    )


def render(template: str, title: str, *, refresh_s: int | None = None, **values: object) -> str:
    """A page from `template`. With `refresh_s`, the browser loads the page again after so many seconds."""
    return environment().get_template(template).render(title=title, refresh_s=refresh_s, **values)
