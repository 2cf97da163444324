"""The price page: one offline HTML file with every profile beside the others; and the same as text on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from markupsafe import Markup
from rich.box import ASCII, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from delivery_verifier.catalogue.prices import Condition
from delivery_verifier.report.html import asset, environment, source_of
from delivery_verifier.report.latency import told
from delivery_verifier.report.price import Measured, Price
from delivery_verifier.report.text import PLAIN_WIDTH, STYLES
from delivery_verifier.report.words import clean, number

HOW = (
    "Each profile ran alone, each time on a fresh cluster of three brokers on this one host, one run after the other: arms that "
    "share a cluster compete for it. Throughput is measured flat out. Latency is not, for there records wait in the client's "
    "own queue: it is measured at {rate} records/s of {payload} bytes, without a fault and with a leader killed and restarted."
)
CAUTION = (
    "One run per figure, on one host: figures compare profiles with each other, roughly, and not clusters. A loss that was not "
    "seen in one injection is no promise; what the settings promise stands in `kdv explain`."
)
ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """One figure of every profile: its heading, the condition it was measured under, and how it is told."""

    heading: str
    condition: Condition
    told: Callable[[Measured], str]
    count: bool = False
    """Whether it counts what went wrong: then anything but 0 stands out."""


def _ms(name: str) -> Callable[[Measured], str]:
    return lambda one: ABSENT if (value := getattr(one, name)) is None else told(value)


def _count(name: str) -> Callable[[Measured], str]:
    return lambda one: number(getattr(one, name))


def _gap(one: Measured) -> str:
    return ABSENT if one.longest_gap_s is None else f"{one.longest_gap_s:.2f} s"


def _per_s(one: Measured) -> str:
    return ABSENT if one.records_per_s is None else number(round(one.records_per_s))


_RATED = (
    ("half within", _ms("latency_ms_p50"), False), ("99 % within", _ms("latency_ms_p99"), False),
    ("99.9 % within", _ms("latency_ms_p999"), False), ("longest silence", _gap, False), ("lost", _count("lost"), True),
    ("duplicated", _count("duplicated"), True), ("out of order", _count("reordered"), True),
    ("no answer", _count("unanswered"), True),
)  # fmt: skip
GROUPS: dict[str, tuple[Column, ...]] = {
    "Flat out": (Column("records/s", "flat_out", _per_s),),
    "Without a fault": tuple(Column(heading, "none", tell, count) for heading, tell, count in _RATED),
    "With a leader killed": tuple(Column(heading, "kill_leader", tell, count) for heading, tell, count in _RATED),
}


@dataclass(frozen=True)
class Cell:
    """One figure: its name for narrow pages, its text, and whether it stands out."""

    name: str
    text: str
    stands_out: bool


def rows(price: Price, columns: tuple[Column, ...]) -> list[tuple[str, str, list[Cell]]]:
    """(profile, verdict, cells) of every profile that was measured under the columns' condition."""
    measured = [one for name in price.profiles if (one := price.of(name, columns[0].condition)) is not None]
    return [(one.profile, one.verdict, [_cell(column, one) for column in columns]) for one in measured]


def _cell(column: Column, one: Measured) -> Cell:
    shown = column.told(one)
    return Cell(column.heading, shown, column.count and shown not in ("0", ABSENT))


def write(price: Price, into: Path) -> None:
    """Writes the page. Raises OSError if it cannot be written."""
    into.write_text(render(price), encoding="utf-8", newline="\n")


def render(price: Price) -> str:
    """The page as HTML text."""
    script = asset("page.js")
    groups = [(name, columns, rows(price, columns)) for name, columns in GROUPS.items()]
    return environment().get_template("price.html.j2").render(
        it=price, how=how(price), caution=CAUTION, groups=groups, scripts=[Markup(script)], policy=source_of(script),
        style=Markup(asset("page.css")),
    )  # fmt: skip


def how(price: Price) -> str:
    """How the figures came about."""
    return HOW.format(rate=number(price.rate), payload=number(price.payload_bytes))


def text(price: Price, to: TextIO) -> None:
    """The tables on a terminal, or plain in a pipe."""
    console = Console(file=to, highlight=False, emoji=False, width=None if to.isatty() else PLAIN_WIDTH)
    for name, columns in GROUPS.items():
        table = Table(name, box=SIMPLE_HEAD if console.is_terminal else ASCII)
        for column in columns:
            table.add_column(column.heading, justify="right")
        table.add_column("verdict")
        for profile, verdict, cells in rows(price, columns):
            told_cells = [Text(clean(cell.text), style="bold yellow" if cell.stands_out else "") for cell in cells]
            table.add_row(Text(clean(profile)), *told_cells, Text(clean(verdict), style=STYLES[verdict]))
        console.print(table)
    for line in (how(price), CAUTION):
        console.print(Text(clean(line), style="dim"), soft_wrap=True)
