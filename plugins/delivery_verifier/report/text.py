"""The text: a verdict on a terminal (or in a pipe, then plain), and the same as JSON."""

from __future__ import annotations

from typing import TextIO

from rich.box import ASCII, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from delivery_verifier.report.advice import advice
from delivery_verifier.report.words import clean, number, said
from delivery_verifier.scenario import dumps
from delivery_verifier.verdict import ArmVerdict, Doubt, RunVerdict

STYLES = {"HELD": "bold green", "VIOLATED": "bold red", "INCONCLUSIVE": "bold yellow"}
PLAIN_WIDTH = 160
WIDE = 130
_COUNTS = ("attempted", "acked", "lost", "duplicated", "reordered")
_HEADINGS = ("arm", "role", *_COUNTS, "exposed", "longest gap", "verdict", "expected")


def write(verdict: RunVerdict, to: TextIO, *, as_json: bool = False) -> None:
    """Writes the verdict to `to`: coloured on a terminal, plain in a pipe, or as verdict.json."""
    if as_json:
        to.write(dumps(verdict).decode().rstrip("\n") + "\n")
        return
    tty = to.isatty()
    console = Console(file=to, highlight=False, emoji=False, width=None if tty else PLAIN_WIDTH)
    as_expected = "as expected" if verdict.green else "NOT as expected"
    console.print(_text(verdict.verdict, STYLES[verdict.verdict]) + _text(f" ({as_expected})"))
    console.print(_text(said(verdict.sentence, verdict.verdict), "bold"), soft_wrap=True)
    for limit in [*verdict.limits, *verdict.notes]:
        console.print(_text(f"  {limit}", "dim"), soft_wrap=True)
    console.print(_table(verdict.arms, console))
    for arm in verdict.arms:
        for doubt in arm.doubts:
            _print_doubt(console, arm, doubt)


def _print_doubt(console: Console, arm: ArmVerdict, doubt: Doubt) -> None:
    console.print(_text(f"{doubt.kind} doubt, {arm.arm}: {doubt.name}", "bold yellow"), soft_wrap=True)
    console.print(_text(f"  {doubt.detail}"), soft_wrap=True)
    console.print(_text(f"  What to do: {advice(doubt.kind, doubt.name)}"), soft_wrap=True)


def _table(arms: list[ArmVerdict], console: Console) -> Table:
    """One row per arm, or, where the terminal is narrow, one column per arm."""
    box = SIMPLE_HEAD if console.is_terminal else ASCII
    if console.width >= WIDE:
        table = Table(*_HEADINGS, box=box)
        for place in range(2, 2 + len(_COUNTS) + 2):
            table.columns[place].justify = "right"
        for arm in arms:
            table.add_row(*_cells(arm))
        return table
    table = Table(_HEADINGS[0], box=box)
    for arm in arms:
        table.add_column(_text(arm.arm), overflow="fold")
    for name, *cells in zip(_HEADINGS[1:], *(_cells(arm)[1:] for arm in arms), strict=True):
        table.add_row(name, *cells)
    return table


def _cells(arm: ArmVerdict) -> list[Text]:
    """An arm's figures under _HEADINGS. A figure that the verdict does not hold is a dash, never a zero."""
    gap = "-" if arm.longest_gap_s is None else f"{arm.longest_gap_s:.1f} s"
    exposed = number(sum(one.reported for one in arm.exposure)) if arm.exposure else "-"
    counts = [number(arm.books[name]) if name in arm.books else "-" for name in _COUNTS]
    expected = arm.expected if arm.as_expected else f"{arm.expected} (not met)"
    return [
        *(_text(cell) for cell in (arm.arm, arm.role, *counts, exposed, gap)),
        _text(arm.verdict, STYLES[arm.verdict]),
        _text(expected, "" if arm.as_expected else "red"),
    ]


def _text(text: str, style: str = "") -> Text:
    """Text that is never read as markup, and without characters that steer a terminal."""
    return Text(clean(text), style=style)
