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

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.data import dumps
from delivery_verifier.model.scenario import Role
from delivery_verifier.model.verdict import COUNTED, ArmVerdict, RunVerdict, exposed
from delivery_verifier.pages.anomaly_columns import cases, columns, heading
from delivery_verifier.pages.brief import CHANGE, LIMITS, LIMITS_SHOWN, Section, sections
from delivery_verifier.pages.doubts import doubt_groups
from delivery_verifier.pages.excuses import excuse_lines
from delivery_verifier.pages.given_up import HEADING, by_subject, count_of, is_given_up, without_given_up
from delivery_verifier.pages.words import clean, number, without_verdict

STYLES = {"HELD": "bold green", "VIOLATED": "bold red", "INCONCLUSIVE": "bold yellow"}
PLAIN_WIDTH = 180
"""The width of the text in a pipe, in characters."""
WIDE = 150
"""The least width of a console, in characters, at which the table has a row per arm. On a narrower console the table
has a column per arm."""
ARM_WIDTH = 19
"""The width of an arm's column, in characters, in a table that has a column per arm."""
_ORDER: tuple[Role, ...] = ("subject", "control", "canary")
"""The order of the arms in a table, by role: settings under test first."""
_FIRST_COUNTS = ("attempted", "acked")
"""The counts of an arm that a table shows before the arm's numbers of cases."""


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
    as_expected = "as expected" if verdict.green else "NOT as expected"
    console.print(_text(verdict.verdict, STYLES[verdict.verdict]) + _text(f" ({as_expected})"))
    _print(console, without_verdict(without_given_up(verdict), verdict.verdict), "bold")
    for arm_name, fact, _ in by_subject(verdict):
        _print(console, f"{arm_name}: {fact}" if arm_name else fact, "bold yellow")
    for table in _tables(sorted(verdict.arms, key=lambda arm: _ORDER.index(arm.role)), console):
        console.print(table)
    for arm in verdict.arms:
        for number_of_line, line in enumerate(arm.application if arm.role != "canary" else ()):
            _print(console, line if number_of_line else f"{arm.arm} is {line}", "dim", indent=2 * number_of_line)
    _print_excuses(console, verdict.arms)
    for doubt in doubt_groups(verdict):
        _print(console, f"{doubt.kind} doubt, {', '.join(doubt.arms)}: {doubt.name}", "bold yellow")
        for line in [*doubt.shown, f"What to do: {doubt.remedy}"]:
            _print(console, line, indent=2)
    for limit in [*verdict.limits[:-LIMITS_SHOWN], *verdict.notes]:
        _print(console, limit, "dim", indent=2)
    for section in sections(verdict, runs):
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


def _print_excuses(console: Console, arms: list[ArmVerdict]) -> None:
    """Prints, for each arm and anomaly, which disturbances excuse the cases. Prints nothing about cases that need no
    disturbance."""
    for arm in arms:
        for finding in arm.findings:
            lines = excuse_lines(finding, _time)
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


def _tables(arms: list[ArmVerdict], console: Console) -> Iterator[Table]:
    """Yields the tables of the arms.

    If the console has at least the width WIDE, there is one table with a row per arm. Otherwise each arm has a column,
    and each table has as many arms as fit into the width.
    """
    box = SIMPLE_HEAD if console.is_terminal else ASCII
    anomalies = columns(arm.books for arm in arms if arm.role != "canary")
    given_up = is_given_up(arms)
    figures = [*_FIRST_COUNTS, *([HEADING] if given_up else []), *map(heading, anomalies)]
    figures += ["in flight", "exposed", "longest silence"]
    headings = ["arm", "role", *figures, "verdict", "expected"]
    if console.width >= WIDE:
        table = Table(*headings, box=box)
        for column in range(2, 2 + len(figures)):
            table.columns[column].justify = "right"
        for arm in arms:
            table.add_row(*_cells(arm, anomalies, given_up))
        yield table
        return
    side_by_side = max(1, (console.width - ARM_WIDTH) // ARM_WIDTH + 1)
    for first in range(0, len(arms), side_by_side):
        some = arms[first : first + side_by_side]
        yield _columns(some, [_cells(arm, anomalies, given_up)[1:] for arm in some], headings, box)


def _columns(arms: list[ArmVerdict], cells: list[list[Text]], headings: list[str], box: Box) -> Table:
    """Returns a table with a column per arm. `cells`: the cells of each arm, without its name."""
    table = Table(headings[0], box=box)
    for arm in arms:
        table.add_column(_text(arm.arm), overflow="fold", justify="right")
    for name, *row in zip(headings[1:], *cells, strict=True):
        table.add_row(name, *row)
    return table


def _cells(arm: ArmVerdict, anomalies: list[Anomaly], given_up: bool) -> list[Text]:
    """Returns the cells of one arm, in the order of the headings. A figure that is not known is a dash, never a zero.
    `given_up`: whether the table has a column for what was given up."""
    gap = "-" if arm.longest_gap_s is None else f"{arm.longest_gap_s:.1f} s"
    exposure = [number(exposed(arm.exposure, name)) if arm.exposure else "-" for name in reversed(COUNTED)]
    known = [*(arm.books.get(name) for name in _FIRST_COUNTS), *([count_of(arm)] if given_up else [])]
    known += [cases(arm.books, anomaly) for anomaly in anomalies]
    counts = ["-" if count is None else number(count) for count in known]
    expected = arm.expected if arm.as_expected else f"{arm.expected} (not met)"
    return [
        *(_text(cell) for cell in (arm.arm, arm.role, *counts, *exposure, gap)),
        _text(arm.verdict, STYLES[arm.verdict]),
        _text(expected, "" if arm.as_expected else "red"),
    ]


def _text(text: str, style: str = "") -> Text:
    """Returns the text for the console. Markup in the text has no effect, and characters that can control a terminal
    are replaced."""
    return Text(clean(text), style=style)
