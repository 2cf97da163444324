"""Counts the unexplained cases in a form that Great Expectations can evaluate. No disturbance can explain such a case.

If the contract permits an anomaly, any number of cases is tolerated, but no unexplained case. So each anomaly in
UNEXPLAINED has a second expectation, whose tolerance is 0. All functions are pure.
"""

from __future__ import annotations

import pyarrow as pa

from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.run_directory.tally import total_column
from delivery_verifier.verdict.evidence import ArmEvidence
from delivery_verifier.verdict.explained_by import CONVICTING, explained_cases_of

UNEXPLAINED: dict[Anomaly, str] = {anomaly: f"{anomaly} unexplained" for anomaly in Anomaly if anomaly in CONVICTING}
"""Maps an anomaly to the field `about` of the expectation that judges its unexplained cases."""


def unexplained_column(anomaly: Anomaly) -> str:
    """Returns the name of the column in which `with_unexplained` counts the unexplained cases of `anomaly`."""
    return f"{column(anomaly)}_unexplained"


def unexplained_counts(arm: ArmEvidence) -> dict[Anomaly, int]:
    """Returns how many cases of the arm are unexplained, for each anomaly of UNEXPLAINED."""
    explained_by = explained_cases_of(arm)
    return {anomaly: explained_by.cases[anomaly] + explained_by.hidden[anomaly] for anomaly in UNEXPLAINED}


def with_unexplained(rows: pa.Table, arm: ArmEvidence) -> pa.Table:
    """Returns `rows` with one more column for each anomaly of UNEXPLAINED.

    `rows` are the arm's rows of counts/producers, with the columns that `run_directory.tally.with_totals` adds. A new
    column counts the unexplained cases of the row's producer and partition. If the row has permitted cases, but the run
    has no list of cases, the count is unknown. An unknown count is null, so that it does not look like 0.
    """
    explained_by = explained_cases_of(arm)
    for anomaly in UNEXPLAINED:
        unknown = arm.run.cases is None and anomaly in explained_by.explained
        counts = [
            None
            if unknown and row.get(total_column(anomaly))
            else explained_by.unexplained[anomaly, row["producer"], row["partition"]]
            for row in rows.to_pylist()
        ]
        rows = rows.append_column(unexplained_column(anomaly), pa.array(counts, pa.int64()))
    return rows
