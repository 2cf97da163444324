"""The columns of anomalies in tables that show arms.

A table always has columns for LOST, DUPLICATED and REORDERED. A table has a
column for another kind of anomaly if an arm has cases of this kind. Therefore the row of a VIOLATED arm never consists
of zeros only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column, subset
from delivery_verifier.store.counts import LATE

ALWAYS = subset(
    "readers look for these three first, and must see that there were none; others would be columns of zeros",
    (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED),
)
"""The kinds of anomaly that every table of arms shows, even if no arm has a case."""


def cases(books: Mapping[str, int], anomaly: Anomaly) -> int | None:
    """The number of cases of `anomaly` in one arm. Returns None if `books` lacks the column of `anomaly`.

    `books` maps each column of counts in the books to the total of the arm. Each anomaly has a column. A record that
    shows several anomalies is counted only in the column of the anomaly that comes first in `Anomaly`. An anomaly in
    SECONDARY also has a column `also_...`. It counts the records that show this anomaly but are counted in the column
    of an earlier anomaly. The result is the sum of both columns. For REORDERED, the value of the key LATE is added, if
    `books` has this key.
    """
    count = books.get(column(anomaly))
    if count is None or anomaly not in SECONDARY:
        return count
    late = books.get(LATE, 0) if anomaly is Anomaly.REORDERED else 0
    return count + books.get(also_column(anomaly), 0) + late


def columns(arms: Iterable[Mapping[str, int]]) -> list[Anomaly]:
    """The kinds of anomaly that a table shows: ALWAYS, then every other kind with cases in some arm.

    `arms`: for each arm in the table, the totals of this arm (the parameter `books` of `cases`). The caller leaves out
    the canary. The canary has planted cases of every kind, so the table would get a column for every kind.
    """
    with_cases = {anomaly for books in arms for anomaly in Anomaly if cases(books, anomaly)}
    return [*ALWAYS, *(anomaly for anomaly in Anomaly if anomaly in with_cases and anomaly not in ALWAYS)]


def heading(anomaly: Anomaly) -> str:
    """The heading of the column of `anomaly`, e.g. `aborted visible`."""
    return column(anomaly).replace("_", " ")
