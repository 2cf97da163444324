"""The columns of anomalies in tables of arms.

A table always shows three kinds of anomaly, and also each other kind of which an arm has cases. Therefore the row of a
VIOLATED arm never consists of zeros only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column, subset

ALWAYS = subset(
    "readers look for these three first, and must see that there were none; others would be columns of zeros",
    (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED),
)
"""The kinds of anomaly that every table shows."""


def cases(books: Mapping[str, int], anomaly: Anomaly) -> int | None:
    """The number of cases of one kind of anomaly. The verdict counts cases in the same way.

    The number includes the cases that a kind of higher precedence hides. `books`: an arm's totals by column. Returns
    None if `books` lacks the column of this kind.
    """
    count = books.get(column(anomaly))
    if count is None or anomaly not in SECONDARY:
        return count
    return count + books.get(also_column(anomaly), 0)


def columns(arms: Iterable[Mapping[str, int]]) -> list[Anomaly]:
    """The kinds of anomaly that a table shows: ALWAYS, then every other kind of which an arm has cases.

    `arms`: the books of each arm in the table. The caller leaves out the canary, which has planted cases of every kind.
    """
    with_cases = {anomaly for books in arms for anomaly in Anomaly if cases(books, anomaly)}
    return [*ALWAYS, *(anomaly for anomaly in Anomaly if anomaly in with_cases and anomaly not in ALWAYS)]


def heading(anomaly: Anomaly) -> str:
    """The heading of an anomaly's column, e.g. `aborted visible`."""
    return column(anomaly).replace("_", " ")
