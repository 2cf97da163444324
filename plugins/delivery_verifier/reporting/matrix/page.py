"""The page of the matrix: one HTML file with every scenario and its verdicts. The HTML file loads nothing from
elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from delivery_verifier.model.catalogue_run import STATES, CatalogueRun
from delivery_verifier.model.figures import enumeration, share
from delivery_verifier.reporting.html import asset, environment, source_of
from delivery_verifier.reporting.matrix import tables as matrix
from delivery_verifier.reporting.matrix.columns import columns
from delivery_verifier.reporting.words import number
from delivery_verifier.run_directory import catalogue_runs

SIGNS = {"good": "✔", "proven": "✔", "bad": "✘", "unsure": "?"}
"""The sign on the page for each value of `Cell.tone`."""
TONES = {"good": "as expected", "proven": "as expected", "bad": "not as expected", "unsure": "cannot be told"}
"""The words on the page for each value of `Cell.tone`."""


def write(catalogue: CatalogueRun) -> Path:
    """Writes the page of `catalogue` beside its catalogue.json, and returns the path of the page.

    The finished page replaces the old page in one step. So a reader always sees a whole page.
    """
    folder = catalogue_runs.directory(catalogue.id)
    partial = folder / f".{catalogue_runs.PAGE}.{os.getpid()}.partial"
    partial.write_text(render(catalogue, runs="../.."), encoding="utf-8", newline="\n")
    os.replace(partial, folder / catalogue_runs.PAGE)
    return folder / catalogue_runs.PAGE


def render(catalogue: CatalogueRun, runs: str, history: Sequence[CatalogueRun] = ()) -> str:
    """Returns the page of `catalogue` as HTML text.

    `runs`: the address of the folder with all run directories, relative to the page. `history`: the catalogue runs that
    the page lists at its end, including `catalogue`. If `history` is empty, the page has no such list.
    """
    script, tables = asset("page.js"), matrix.tables(catalogue)
    return (
        environment()
        .get_template("matrix.html.j2")
        .render(
            catalogue=catalogue,
            tables=tables,
            columns=columns(tables),
            headline=headline(catalogue),
            counts=counts(catalogue),
            explained=explained(catalogue),
            repeated=sum(len(item.attempts) > 1 for item in catalogue.items),
            seconds=_seconds_taken(catalogue),
            signs=SIGNS,
            tones=TONES,
            runs=runs,
            history=history,
            when=_when,
            scripts=[Markup(script)],
            policy=source_of(script),
            style=Markup(asset("page.css") + asset("matrix.css")),
        )
    )


def headline(catalogue: CatalogueRun) -> str:
    """Returns the sentence at the top of the page.

    During the catalogue run, the sentence says how many scenarios are done. After the end of the catalogue run, the
    sentence says how many scenarios ended as predicted. A scenario counts once per round of the catalogue run.
    """
    total = len(catalogue.items)
    noun = "scenario" if total == 1 else "scenarios"
    if not catalogue.ended_at:
        return f"Under way: {total - len(catalogue.open)} of {total} {noun} done"
    if catalogue.green:
        ran = catalogue.count("as expected")
        if ran == total:
            return f"Green: {'all ' if total > 1 else ''}{ran} {noun} ended as predicted"
        others = "this host cannot run the others, which was expected"
        return f"Green: {ran} of {total} {noun} ended as predicted; {others}"
    not_green = sum(not item.green for item in catalogue.items)
    return f"Not green: {not_green} of {total} {noun} did not end as predicted"


def counts(catalogue: CatalogueRun) -> str:
    """Returns the number of items in each state, as text, e.g. `24 as expected and 2 unavailable`. States without items
    are left out.

    An item is one scenario in one round of the catalogue run.
    """
    return enumeration(
        [f"{catalogue.count(state)} {state}" for state in reversed(STATES) if catalogue.count(state)], last="and"
    )


def explained(catalogue: CatalogueRun) -> str:
    """Returns a sentence about the cases that settings permit only because of a disturbance. It says how many of these
    cases are explained by a known disturbance.

    Returns an empty text if there are no such cases.
    """
    count, whole = catalogue.explained
    if not whole:
        return ""
    return (
        f"Of {number(whole)} cases that settings permit only because of a disturbance, {number(count)} "
        f"({share(count, whole)}) name the one that explains them; the others are doubts."
    )


def _seconds_taken(catalogue: CatalogueRun) -> int:
    return round(sum(attempt.seconds for item in catalogue.items for attempt in item.attempts))


def _when(text: str) -> str:
    """Returns the ISO 8601 time `text`, which is in UTC, in the form that the page shows. Returns `text` itself if it
    is malformed."""
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text
