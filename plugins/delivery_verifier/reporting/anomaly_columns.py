"""The columns of anomalies in tables that show arms.

A table always has columns for LOST, DUPLICATED and REORDERED. It has a column for another kind of anomaly only if an
arm in the table has cases of this kind. So the row of a VIOLATED arm always has a number above zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from delivery_verifier.model.anomalies import Anomaly, column, subset
from delivery_verifier.run_directory.counts import UNPROVEN, case_counts

ALWAYS = subset(
    "readers look for these three first, and must see that there were none; others would be columns of zeros",
    (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED),
)
"""The kinds of anomaly that every table of arms shows, even if no arm has a case."""


def cases(tally: Mapping[str, int], anomaly: Anomaly) -> int | None:
    """Returns the number of attempts or records of one arm that show `anomaly`, i.e. the sum of the two numbers that
    `case_counts` returns.

    `tally` maps each column of counts in the counts to the total of the arm. Returns None if the number is not known.
    This is so in two cases: `tally` lacks the column of `anomaly`, or `anomaly` is LOST and unreadable offsets leave
    some losses unproven.
    """
    if anomaly is Anomaly.LOST and UNPROVEN in tally:
        return None
    return sum(case_counts(tally, anomaly)) if column(anomaly) in tally else None


def columns(arms: Iterable[Mapping[str, int]]) -> list[Anomaly]:
    """Returns the kinds of anomaly that a table shows: first those in ALWAYS, then every other kind of which an arm has
    cases.

    `arms`: the totals of each arm in the table, in the form of the parameter `tally` of `cases`. The caller leaves out
    the canary, because its planted cases of every kind would give the table a column for every kind.
    """
    with_cases = {anomaly for tally in arms for anomaly in Anomaly if cases(tally, anomaly)}
    return [*ALWAYS, *(anomaly for anomaly in Anomaly if anomaly in with_cases and anomaly not in ALWAYS)]


def heading(anomaly: Anomaly) -> str:
    """Returns the heading of the column of `anomaly`, e.g. `aborted visible`."""
    return column(anomaly).replace("_", " ")
