"""Shows the price of every profile in a terminal, and as one HTML file. The HTML file loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from markupsafe import Markup
from rich.box import ASCII, SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from delivery_verifier.catalogue.prices import Condition
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.anomalies import column as tally_column
from delivery_verifier.reporting.anomaly_columns import heading
from delivery_verifier.reporting.html import asset, environment, source_of
from delivery_verifier.reporting.price.price import MeasuredRun, Price
from delivery_verifier.reporting.price.relative import BASE, charts
from delivery_verifier.reporting.terminal import PLAIN_WIDTH, STYLES
from delivery_verifier.reporting.words import clean, latency, number

HOW = (
    "Each profile ran alone, each time on a fresh cluster of three brokers on this one host, one run after the other: "
    "arms that share a cluster compete for it. Throughput is measured flat out. Latency is not, for there records "
    "wait in the client's own queue: it is measured at {rate} records/s of {payload} bytes, without a fault and with "
    "a leader killed and restarted. It is the time until the acknowledgement, in transactions too: what waits for "
    "their commit waits longer."
)
CAUTION = (
    "One run per figure, on one host: figures compare profiles with each other, roughly, and not clusters. A loss "
    "that was not seen in one injection is no promise; what the settings promise is what kdv explain says."
)
ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """One column of a table. `text`: a function that returns the text of a cell. The parameter of this function is the
    measured run of the row. `count`: whether the column counts what should not happen, e.g. lost records. A number
    above 0 in such a column stands out."""

    heading: str
    text: Callable[[MeasuredRun], str]
    count: bool = False
    """Whether the column counts something that went wrong. If so, the page highlights every value except 0."""


def _ms(name: str) -> Callable[[MeasuredRun], str]:
    def text(run: MeasuredRun) -> str:
        value = getattr(run, name)
        return ABSENT if value is None else latency(value)

    return text


def _count(name: str) -> Callable[[MeasuredRun], str]:
    return lambda run: number(getattr(run, name))


def _gap(run: MeasuredRun) -> str:
    return ABSENT if run.longest_gap_s is None else f"{run.longest_gap_s:.2f} s"


def _per_s(run: MeasuredRun) -> str:
    return ABSENT if run.records_per_s is None else number(round(run.records_per_s))


WHEN: dict[Condition, str] = {"flat_out": "no fault", "none": "no fault", "kill_leader": "leader killed"}
"""The text of each condition in the tables, e.g. `leader killed` for the condition `kill_leader`."""


@dataclass(frozen=True)
class Group:
    """One table, with a row per profile and condition.

    `name`: the title of the table. `conditions`: the conditions in the table. The rows of a profile stand together, so
    that a reader can compare the conditions.
    """

    name: str
    conditions: tuple[Condition, ...]
    columns: tuple[Column, ...]


WENT_WRONG = (
    Column("lost", _count("lost"), count=True),
    Column("duplicated", _count("duplicated"), count=True),
    Column("out of order", _count("reordered"), count=True),
    Column("no answer", _count("unanswered"), count=True),
)
GROUPS = (
    Group("As fast as the client can", ("flat_out",), (Column("records/s", _per_s), *WENT_WRONG)),
    Group(
        "At a fixed rate",
        ("none", "kill_leader"),
        (
            Column("half within", _ms("latency_ms_p50")),
            Column("99 % within", _ms("latency_ms_p99")),
            Column("99.9 % within", _ms("latency_ms_p999")),
            Column("longest silence", _gap),
            *WENT_WRONG,
        ),
    ),
)


@dataclass(frozen=True)
class Cell:
    """One figure of a row. `name`: the heading of the figure's column. A narrow page shows this heading beside the
    figure.

    `stands_out`: whether the page highlights the figure.
    """

    name: str
    text: str
    stands_out: bool


@dataclass(frozen=True)
class Row:
    """The row of one profile under one condition. `when`: the condition in words. `faulted`: whether a leader was
    killed.

    `verdict`: the verdict of the arm. `first`: whether the row is the first row of its profile in the table.
    """

    profile: str
    when: str
    faulted: bool
    verdict: str
    cells: list[Cell]
    first: bool


def groups(price: Price) -> list[Group]:
    """Returns GROUPS with further columns.

    A group gets a column for each kind of anomaly that occurred in a run under one of the group's conditions. Every
    group already has columns for LOST, DUPLICATED and REORDERED.
    """
    return [replace(group, columns=(*group.columns, *_other_columns(price, group))) for group in GROUPS]


def _other_columns(price: Price, group: Group) -> list[Column]:
    runs = [run for run in price.measured if run.condition in group.conditions]
    with_cases = {name for run in runs for name in run.other_cases}
    others = [anomaly for anomaly in Anomaly if tally_column(anomaly) in with_cases]
    return [Column(heading(anomaly), _other_count(tally_column(anomaly)), count=True) for anomaly in others]


def _other_count(name: str) -> Callable[[MeasuredRun], str]:
    """Returns a function that takes a run, and returns the number of cases of one kind of anomaly as text.

    `name`: the column of the kind in the counts. The text is `0` if the run has no case of this kind. The text is an en
    dash if the run has a doubt of the kind `checker`, because the counts may be wrong.
    """
    return lambda run: number(None if run.lost is None else run.other_cases.get(name, 0))


def rows(price: Price, group: Group) -> list[Row]:
    """Returns the rows of the table of `group`: one row per run under one of the conditions of `group`.

    The rows stand profile by profile, in the order of `price.profiles`.
    """
    table = []
    for profile in price.profiles:
        by_condition = [price.run_under(profile, condition) for condition in group.conditions]
        runs = [run for run in by_condition if run is not None]
        for run in runs:
            cells = [_cell(column, run) for column in group.columns]
            faulted = run.condition == "kill_leader"
            table.append(Row(profile, WHEN[run.condition], faulted, run.verdict, cells, first=run is runs[0]))
    return table


def _cell(column: Column, run: MeasuredRun) -> Cell:
    text = column.text(run)
    return Cell(column.heading, text, column.count and text not in ("0", ABSENT))


def write(price: Price, file: Path) -> None:
    """Writes the page to `file`. Raises OSError if `file` cannot be written."""
    file.write_text(render(price), encoding="utf-8", newline="\n")


def render(price: Price) -> str:
    """Returns the page as HTML text."""
    script = asset("page.js")
    return (
        environment()
        .get_template("price.html.j2")
        .render(
            price=price,
            how=how(price),
            caution=CAUTION,
            charts=charts(price),
            base=BASE,
            groups=[(group, rows(price, group)) for group in groups(price)],
            scripts=[Markup(script)],
            policy=source_of(script),
            style=Markup(asset("page.css") + asset("price.css")),
        )
    )


def how(price: Price) -> str:
    """Returns the text that says how the figures were measured."""
    return HOW.format(rate=number(price.rate), payload=number(price.payload_bytes))


def text(price: Price, stream: TextIO) -> None:
    """Writes the tables and their notes to `stream`. If `stream` is a terminal, the text is coloured. If it is a pipe,
    the text is plain."""
    console = Console(file=stream, highlight=False, emoji=False, width=None if stream.isatty() else PLAIN_WIDTH)
    for group in groups(price):
        table = Table(group.name, "", box=SIMPLE_HEAD if console.is_terminal else ASCII)
        for column in group.columns:
            table.add_column(column.heading, justify="right")
        table.add_column("its contract")
        for row in rows(price, group):
            cells = [Text(clean(cell.text), style="bold yellow" if cell.stands_out else "") for cell in row.cells]
            table.add_row(
                Text(clean(row.profile)), row.when, *cells, Text(clean(row.verdict), style=STYLES[row.verdict])
            )
        console.print(table)
    for line in (how(price), CAUTION):
        console.print(Text(clean(line), style="dim"), soft_wrap=True)
