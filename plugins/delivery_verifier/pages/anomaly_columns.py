"""The columns of anomalies in tables of arms: three kinds always, any other where an arm of the table has cases of it.

So no arm is VIOLATED in a table that shows it with zeros alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column, subset

ALWAYS = subset(
    "readers look for these three first, and must see that there were none; others would be columns of zeros",
    (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED),
)


def cases(books: Mapping[str, int], anomaly: Anomaly) -> int | None:
    """The cases of one kind, those among them that a kind of higher precedence hides; None where the books have none.

    `books` are totals by column. The verdict counts the same.
    """
    count = books.get(column(anomaly))
    if count is None or anomaly not in SECONDARY:
        return count
    return count + books.get(also_column(anomaly), 0)


def columns(arms: Iterable[Mapping[str, int]]) -> list[Anomaly]:
    """The kinds that a table shows, by the books of its arms: ALWAYS, then every other kind that any of them has.

    Leave the canary out: its planted cases are of every kind.
    """
    found = {anomaly for books in arms for anomaly in Anomaly if cases(books, anomaly)}
    return [*ALWAYS, *(anomaly for anomaly in Anomaly if anomaly in found and anomaly not in ALWAYS)]


def heading(anomaly: Anomaly) -> str:
    """The heading of a column, e.g. `aborted visible`."""
    return column(anomaly).replace("_", " ")
