"""The matrix page: every scenario with its verdicts, as one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from delivery_verifier.model.catalogue_run import STATES, CatalogueRun
from delivery_verifier.pages.html import asset, environment, source_of
from delivery_verifier.pages.matrix import tables as matrix
from delivery_verifier.pages.words import listed
from delivery_verifier.store import catalogue_runs

SIGNS = {"good": "✔", "proven": "✔", "bad": "✘", "unsure": "?"}
TOLD = {"good": "as expected", "proven": "as expected", "bad": "not as expected", "unsure": "cannot be told"}


def write(catalogue: CatalogueRun) -> Path:
    """Writes the page beside catalogue.json and returns it. At every moment the file is whole."""
    folder = catalogue_runs.directory(catalogue.id)
    partial = folder / f".{catalogue_runs.PAGE}.{os.getpid()}.partial"
    partial.write_text(render(catalogue, runs="../.."), encoding="utf-8", newline="\n")
    os.replace(partial, folder / catalogue_runs.PAGE)
    return folder / catalogue_runs.PAGE


def render(catalogue: CatalogueRun, runs: str, history: Sequence[CatalogueRun] = ()) -> str:
    """The page as HTML text. `runs`: where the run directories are, seen from the page; `history`: others to be
    named."""
    script, found = asset("page.js"), matrix.tables(catalogue)
    return (
        environment()
        .get_template("matrix.html.j2")
        .render(
            catalogue=catalogue,
            tables=found,
            everyday=matrix.everyday(found),
            headline=headline(catalogue),
            counts=counts(catalogue),
            repeated=sum(len(item.attempts) > 1 for item in catalogue.items),
            seconds=_seconds(catalogue),
            signs=SIGNS,
            told=TOLD,
            runs=runs,
            history=history,
            when=_when,
            scripts=[Markup(script)],
            policy=source_of(script),
            style=Markup(asset("page.css") + asset("matrix.css")),
        )
    )


def headline(catalogue: CatalogueRun) -> str:
    """Whether all went as expected, in one sentence for somebody who has never seen this project."""
    whole = len(catalogue.items)
    what = "scenario" if whole == 1 else "scenarios"
    if not catalogue.ended_at:
        return f"Under way: {whole - len(catalogue.open)} of {whole} {what} done"
    if catalogue.green:
        ran = catalogue.count("as expected")
        return (
            f"Green: {'all ' if ran == whole and whole > 1 else ''}{ran} "
            f"{what if ran == whole else f'of {whole} {what}'} "
            + (
                "ended as predicted"
                if ran == whole
                else "ended as predicted; this host cannot run the others, which was expected"
            )
        )
    red = sum(not item.green for item in catalogue.items)
    return f"Not green: {red} of {whole} {what} did not end as predicted"


def counts(catalogue: CatalogueRun) -> str:
    """`24 as expected and 2 unavailable`."""
    return listed(
        [f"{catalogue.count(state)} {state}" for state in reversed(STATES) if catalogue.count(state)], last="and"
    )


def _seconds(catalogue: CatalogueRun) -> int:
    return round(sum(attempt.seconds for item in catalogue.items for attempt in item.attempts))


def _when(text: str) -> str:
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text
