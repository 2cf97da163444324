"""The columns of anomalies in tables of arms: always three kinds, and each other kind of which an arm has cases.

An arm that is VIOLATED therefore never has a row of zeros alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column, subset

ALWAYS = subset(
    "readers look for these three first, and must see that there were none; others would be columns of zeros",
    (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED),
)


def cases(books: Mapping[str, int], anomaly: Anomaly) -> int | None:
    """The cases of one kind, including those that a kind of higher precedence hides. None if the books lack the column.

    `books` are totals by column. The verdict counts the cases in the same way.
    """
    count = books.get(column(anomaly))
    if count is None or anomaly not in SECONDARY:
        return count
    return count + books.get(also_column(anomaly), 0)


def columns(arms: Iterable[Mapping[str, int]]) -> list[Anomaly]:
    """The kinds that a table shows, by the books of its arms: ALWAYS, then every other kind of which an arm has cases.

    The caller leaves out the canary: its planted cases are of every kind.
    """
    with_cases = {anomaly for books in arms for anomaly in Anomaly if cases(books, anomaly)}
    return [*ALWAYS, *(anomaly for anomaly in Anomaly if anomaly in with_cases and anomaly not in ALWAYS)]


def heading(anomaly: Anomaly) -> str:
    """The heading of a column, e.g. `aborted visible`."""
    return column(anomaly).replace("_", " ")
