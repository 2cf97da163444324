"""The columns of anomalies in tables of arms.

A case is one record that shows an anomaly. A table always has a column for each of three kinds of anomaly, and a column
for each other kind of which an arm has cases. Therefore the row of a VIOLATED arm never consists of zeros only.
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
    """The number of records of one arm that show one kind of anomaly. The verdict counts them in the same way.

    A record that shows several kinds is a case of the first of them only, in the order of Anomaly. For a kind that can
    come second, the books count these records in a column of their own, `also_...`, which is added here. `books`: the
    arm's totals by column. Returns None if `books` lacks the column of this kind.
    """
    count = books.get(column(anomaly))
    if count is None or anomaly not in SECONDARY:
        return count
    return count + books.get(also_column(anomaly), 0)


def columns(arms: Iterable[Mapping[str, int]]) -> list[Anomaly]:
    """The kinds of anomaly that a table shows: ALWAYS, then every other kind of which an arm has cases.

    `arms`: the books of each arm in the table, which are its totals by column. The caller leaves out the canary: its
    planted cases of every kind would add a column for every kind.
    """
    with_cases = {anomaly for books in arms for anomaly in Anomaly if cases(books, anomaly)}
    return [*ALWAYS, *(anomaly for anomaly in Anomaly if anomaly in with_cases and anomaly not in ALWAYS)]


def heading(anomaly: Anomaly) -> str:
    """The heading of an anomaly's column, e.g. `aborted visible`."""
    return column(anomaly).replace("_", " ")
