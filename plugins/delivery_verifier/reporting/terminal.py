"""Writes a verdict to a stream, as JSON or as text. If the stream is a terminal, the text is coloured. If it is a pipe,
the text is plain."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from rich.box import ASCII, SIMPLE_HEAD, Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from delivery_verifier.model.data import dumps
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict
from delivery_verifier.reporting.arm_rows import UNKNOWN, ArmRow, Cell
from delivery_verifier.reporting.blocks import blocks_of
from delivery_verifier.reporting.brief import CHANGE, LIMITS, Section, sections
from delivery_verifier.reporting.explained_by import explained_lines
from delivery_verifier.reporting.words import clean, number

STYLES = {"HELD": "bold green", "VIOLATED": "bold red", "INCONCLUSIVE": "bold yellow"}
PLAIN_WIDTH = 180
"""The width of the text in a pipe, in characters."""
WIDE = 150
"""The least width of a console, in characters, at which the table has a row per arm. On a narrower console the table
has a column per arm."""
ARM_WIDTH = 19
"""The width of an arm's column, in characters, in a table that has a column per arm."""


def write(
    verdict: RunVerdict,
    stream: TextIO,
    *,
    as_json: bool = False,
    runs: Path | None = None,
) -> None:
    """Writes the verdict to `stream`, as JSON if `as_json` is true, else as text.

    If `stream` is a terminal, the text is coloured. If it is a pipe, the text is plain. The text has the order of the
    report: verdict, arms, reasons, what to change, limits. `runs`: the folder with the price runs of this host. None:
    no price is known.
    """
    if as_json:
        stream.write(dumps(verdict).decode().rstrip("\n") + "\n")
        return
    tty = stream.isatty()
    console = Console(file=stream, highlight=False, emoji=False, width=None if tty else PLAIN_WIDTH)
    blocks = blocks_of(verdict, runs)
    as_expected = "as expected" if verdict.green else "NOT as expected"
    console.print(_text(verdict.verdict, STYLES[verdict.verdict]) + _text(f" ({as_expected})"))
    _print(console, blocks.sentence, "bold")
    for arm_name, fact, _ in blocks.given_up:
        _print(console, f"{arm_name}: {fact}" if arm_name else fact, "bold yellow")
    for table in _tables([*blocks.arms, *blocks.canary], console):
        console.print(table)
    for arm in verdict.arms:
        for number_of_line, line in enumerate(arm.application if arm.role != "canary" else ()):
            _print(console, line if number_of_line else f"{arm.arm} is {line}", "dim", indent=2 * number_of_line)
    _print_explained_by(console, verdict.arms)
    for sentence in blocks.which_client:
        _print(console, sentence, "bold")
    for sentence in blocks.claims:
        _print(console, sentence)
    for doubt in blocks.doubts:
        _print(console, f"{doubt.kind} doubt, {', '.join(doubt.arms)}: {doubt.name}", "bold yellow")
        for line in [*doubt.shown, f"What to do: {doubt.remedy}"]:
            _print(console, line, indent=2)
    for limit in blocks.further:
        _print(console, limit, "dim", indent=2)
    for section in sections(blocks):
        if section.heading in (CHANGE, LIMITS):
            _print_section(console, section)


def _print(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """Prints `text`. On a terminal, long lines are wrapped between words.

    In a pipe, the text stays one line, which is easy to search. `indent`: the number of spaces before the text.
    """
    line = _text(text, style)
    if console.is_terminal:
        console.print(Padding(line, (0, 0, 0, indent)))
    else:
        console.print(" " * indent, line, sep="", soft_wrap=True)


def _print_explained_by(console: Console, arms: list[ArmVerdict]) -> None:
    """Prints, for each arm and anomaly, which disturbances explain the cases. Prints nothing about cases that need no
    disturbance."""
    for arm in arms:
        for finding in arm.findings:
            lines = explained_lines(finding, _time)
            if lines:
                _print(console, f"{arm.arm}: {number(finding.cases)} {finding.anomaly} permitted", "dim")
            for line in lines:
                _print(console, line, "dim", indent=2)


def _print_section(console: Console, section: Section) -> None:
    """Prints a section. A command has a line of its own, so that a reader can copy the whole line."""
    _print(console, section.heading, "bold")
    for line in section.lines:
        _print(console, line.text, indent=2)
        if line.command:
            _print(console, line.command, indent=4)


def _time(at_us: int) -> str:
    """Returns the time as text, in hours, minutes and seconds of UTC. `at_us`: the time in µs since the epoch."""
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%H:%M:%S}.{at_us // 1000 % 1000:03} UTC"


def _tables(rows: list[ArmRow], console: Console) -> Iterator[Table]:
    """Yields the tables of the arms.

    If the console has at least the width WIDE, there is one table with a row per arm. Otherwise each arm has a column,
    and each table has as many arms as fit into the width.
    """
    box = SIMPLE_HEAD if console.is_terminal else ASCII
    figures = [cell.short or cell.heading for cell in _figures(rows[0])] if rows else []
    headings = ["arm", "role", *figures, "verdict", "expected"]
    if console.width >= WIDE:
        table = Table(*headings, box=box)
        for column in range(2, 2 + len(figures)):
            table.columns[column].justify = "right"
        for row in rows:
            table.add_row(*_cells(row))
        yield table
        return
    side_by_side = max(1, (console.width - ARM_WIDTH) // ARM_WIDTH + 1)
    for first in range(0, len(rows), side_by_side):
        yield _columns([_cells(row) for row in rows[first : first + side_by_side]], headings, box)


def _columns(arms: list[list[Text]], headings: list[str], box: Box) -> Table:
    """Returns a table with a column per arm. `arms`: the cells of each."""
    table = Table(headings[0], box=box)
    for name, *_ in arms:
        table.add_column(name, overflow="fold", justify="right")
    for heading, *cells in list(zip(headings, *arms, strict=True))[1:]:
        table.add_row(heading, *cells)
    return table


def _figures(row: ArmRow) -> list[Cell]:
    return [*row.sent, *row.counts, *row.exposure]


def _cells(row: ArmRow) -> list[Text]:
    """Returns the cells of one arm, in the order of the headings. A figure that is not known is a dash, never a
    zero."""
    arm, figures = row.arm, [cell.text.replace(UNKNOWN, "-") for cell in _figures(row)]
    expected = arm.expected if arm.as_expected else f"{arm.expected} (not met)"
    return [
        *(_text(cell) for cell in (arm.arm, f"{arm.role}, {row.client}" if row.client else arm.role, *figures)),
        _text(arm.verdict, STYLES[arm.verdict]),
        _text(expected, "" if arm.as_expected else "red"),
    ]


def _text(text: str, style: str = "") -> Text:
    """Returns the text for the console. Markup in the text has no effect, and characters that can control a terminal
    are replaced."""
    return Text(clean(text), style=style)
