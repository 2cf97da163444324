"""The page of all runs as one HTML document that loads nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.pages.html import environment
from delivery_verifier.pages.overview import rows as stored_runs
from delivery_verifier.pages.overview import trend
from delivery_verifier.pages.overview.wanted import VERDICTS, Wanted

LISTED = 200
"""Rows on one page; how many there are beyond is said."""


def overview(runs: Path, wanted: Wanted, *, docs: bool, dag_path: str = "") -> str:
    """All runs below `runs` that are wanted. `docs`: whether there are Data Docs; `dag_path`: where a run is
    started."""
    everything = stored_runs.rows(runs)
    listed = wanted.of(everything)
    return render(
        "overview.html.j2",
        "Delivery",
        rows=listed[:LISTED],
        total=len(everything),
        matching=len(listed),
        wanted=wanted,
        verdicts=VERDICTS,
        profiles=stored_runs.profiles(everything),
        faults=stored_runs.faults(everything),
        lanes=trend.lanes(listed),
        trend=trend,
        docs=docs,
        dag_path=dag_path,
    )


def render(template: str, title: str, *, refresh_s: int | None = None, **values: object) -> str:
    """A page of this look. With `refresh_s` the browser loads the page again after so many seconds."""
    return environment().get_template(template).render(title=title, refresh_s=refresh_s, **values)
