"""The columns of anomalies in tables that show arms.

A case is one record that shows an anomaly. A table always has columns for LOST, DUPLICATED and REORDERED. A table has a
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
    """The number of records of one arm that show the anomaly `anomaly`.

    `books`: the totals of the arm by column. If a record shows several anomalies, the column of the first of them, in
    the order of Anomaly, counts the record. For some anomalies, a column `also_...` counts the records that show the
    anomaly but are counted in the column of an earlier one. The result is then the sum of both columns. For REORDERED,
    the INDETERMINATE attempts that `books` counts under the name LATE are added. Returns None if `books` lacks the
    column of `anomaly`.
    """
    count = books.get(column(anomaly))
    if count is None or anomaly not in SECONDARY:
        return count
    late = books.get(LATE, 0) if anomaly is Anomaly.REORDERED else 0
    return count + books.get(also_column(anomaly), 0) + late


def columns(arms: Iterable[Mapping[str, int]]) -> list[Anomaly]:
    """The kinds of anomaly that a table shows: ALWAYS, then every other kind with cases in some arm.

    `arms`: the books of each arm in the table, which are its totals by column. The caller leaves out the canary, the
    arm with planted cases of every kind, because it would add a column for every kind.
    """
    with_cases = {anomaly for books in arms for anomaly in Anomaly if cases(books, anomaly)}
    return [*ALWAYS, *(anomaly for anomaly in Anomaly if anomaly in with_cases and anomaly not in ALWAYS)]


def heading(anomaly: Anomaly) -> str:
    """The heading of the column of `anomaly`, e.g. `aborted visible`."""
    return column(anomaly).replace("_", " ")
