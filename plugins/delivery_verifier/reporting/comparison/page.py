"""Shows the comparison as text on a terminal, and as one HTML file. The HTML file loads nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from markupsafe import Markup
from rich.box import ASCII, SIMPLE_HEAD, Box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from delivery_verifier.reporting.arm_rows import run_tone, tone
from delivery_verifier.reporting.comparison.comparison import Comparison, Row, Side
from delivery_verifier.reporting.html import asset, environment, source_of
from delivery_verifier.reporting.terminal import PLAIN_WIDTH, STYLES
from delivery_verifier.reporting.words import clean, number

SAME = "Both runs are of one scenario: only versions may differ."
NOT_THE_SAME = (
    "NOT the same scenario. What follows stands side by side, but a difference may come from any of the {count} "
    "differences named here, and not from the versions alone."
)
SINGLE_RUNS = (
    "Each side is one run (injections: {left} and {right}): a figure that differs between two single runs is no proof "
    "of a difference between their versions or settings. Repeat both."
)


def write(comparison: Comparison, file: Path) -> None:
    """Writes the page to `file`. Raises OSError if `file` cannot be written."""
    file.write_text(render(comparison), encoding="utf-8", newline="\n")


def render(comparison: Comparison) -> str:
    """Returns the page as HTML text."""
    script = asset("page.js")
    template = environment().get_template("compare.html.j2")
    return template.render(
        comparison=comparison,
        headline=headline(comparison),
        heading=heading(comparison),
        caution=caution(comparison),
        tone=tone,
        run_tone=run_tone,
        scripts=[Markup(script)],
        policy=source_of(script),
        style=Markup(asset("page.css")),
    )


def headline(comparison: Comparison) -> str:
    """Returns the two verdicts in one line, e.g. `HELD beside VIOLATED`."""
    left, right = comparison.left.verdict.verdict, comparison.right.verdict.verdict
    return f"Both runs {left}" if left == right else f"{left} beside {right}"


def heading(comparison: Comparison) -> str:
    """Returns the sentence below the verdicts. It says whether the scenarios of both runs are equal except for the
    versions.

    If the scenarios differ, the sentence says that a difference between figures may have other causes than the
    versions.
    """
    return NOT_THE_SAME.format(count=len(comparison.obstacles)) if comparison.obstacles else SAME


def caution(comparison: Comparison) -> str:
    """Returns the sentences that warn the reader: two single runs prove no difference between versions or settings."""
    return SINGLE_RUNS.format(left=_injections(comparison.left), right=_injections(comparison.right))


def text(comparison: Comparison, stream: TextIO) -> None:
    """Writes the comparison to `stream`. If `stream` is a terminal, the text is coloured. If it is a pipe, the text is
    plain."""
    console = Console(file=stream, highlight=False, emoji=False, width=None if stream.isatty() else PLAIN_WIDTH)
    console.print(
        Text(clean(heading(comparison)), style="bold yellow" if comparison.obstacles else "bold"), soft_wrap=True
    )
    table = _table(comparison, ASCII if not console.is_terminal else SIMPLE_HEAD)
    console.print(table)
    for line in [caution(comparison), *comparison.missing]:
        console.print(Text(clean(line), style="dim"), soft_wrap=True)


def _table(comparison: Comparison, box: Box) -> Table:
    """Returns the table of the figures, with a column per run. Figures that differ between the runs are bold."""
    table = Table("", box=box)
    for side in (comparison.left, comparison.right):
        table.add_column(Text(clean(side.verdict.run_id)), overflow="fold")
    for row in [*comparison.obstacles, *(row for row in comparison.versions if row.differs)]:
        _add(table, row)
    for pair in comparison.pairs:
        table.add_section()
        names = [verdict.verdict if verdict else "no such arm" for verdict in pair.verdicts]
        verdicts = [Text(name, style=STYLES.get(name, "dim")) for name in names]
        table.add_row(Text(clean(f"{pair.name} ({pair.role})"), style="bold"), *verdicts)
        for row in [*pair.anomalies, *pair.figures]:
            _add(table, row)
    return table


def _add(table: Table, row: Row) -> None:
    table.add_row(
        *(
            Text(clean(f"  {cell}" if column == 0 else cell), style="bold" if row.differs and column else "")
            for column, cell in enumerate((row.name, row.left, row.right))
        )
    )


def _injections(side: Side) -> str:
    return number(len(side.material.injections))
