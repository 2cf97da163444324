"""The page of all runs as one HTML document that loads nothing from elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from delivery_verifier.pages import words
from delivery_verifier.pages.overview import rows as found
from delivery_verifier.pages.overview import trend
from delivery_verifier.pages.overview.wanted import VERDICTS, Wanted

LISTED = 200
"""Rows on one page; how many there are beyond is said."""
_TEMPLATES = Path(__file__).parent / "templates"
_REPORT_TEMPLATES = Path(words.__file__).parent / "templates"


def overview(runs: Path, wanted: Wanted, *, docs: bool, dag_path: str = "") -> str:
    """All runs below `runs` that are wanted. `docs`: whether there are Data Docs; `dag_path`: where a run is
    started."""
    everything = found.rows(runs)
    listed = wanted.of(everything)
    return render(
        "overview.html.j2",
        "Delivery",
        rows=listed[:LISTED],
        others=found.others(listed[:LISTED]),
        total=len(everything),
        matching=len(listed),
        wanted=wanted,
        verdicts=VERDICTS,
        profiles=found.profiles(everything),
        faults=found.faults(everything),
        lanes=trend.lanes(listed),
        trend=trend,
        docs=docs,
        dag_path=dag_path,
    )


def render(template: str, title: str, *, refresh_s: int | None = None, **more: object) -> str:
    """A page of this look. With `refresh_s` it looks again after so many seconds."""
    return _environment().get_template(template).render(title=title, refresh_s=refresh_s, **more)


@cache
def _environment() -> Environment:
    loader = FileSystemLoader([_TEMPLATES, _REPORT_TEMPLATES])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    environment.filters.update(number=words.number, said=words.said, when=_when, path=_path)
    environment.globals.update(words=words)
    return environment


def _shown(value: object) -> object:
    """What an expression prints: no control characters; markup and numbers as they are."""
    return words.clean(value) if type(value) is str else value


def _when(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _path(name: str) -> str:
    return quote(name, safe="")
