"""The vocabulary: one expectation per anomaly and per kind of evidence, under names a reviewer can read.

Columns are passed where an expectation is made, never as class defaults: Great Expectations does not write defaults
into a suite's JSON, and a suite must say which column it judges. The import of this module registers the names. It
costs seconds, so only `expectations.checkpoint` and the suites import this module.
"""

from __future__ import annotations

import great_expectations
from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import (
    ExpectColumnPairValuesToBeEqual,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)

from delivery_verifier.model.anomalies import KINDS, Anomaly, AnomalyKind


class ExpectLawToBalance(ExpectColumnPairValuesToBeEqual):
    """Both sides of a law of the books, counted independently, are equal."""


class ExpectLogNotToMove(ExpectLawToBalance):
    """Nothing but markers stands behind the end of the snapshot."""


class ExpectCanariesToBeFound(ExpectLawToBalance):
    """What was planted is found: all of it, and nothing else."""


def _expectation_against(kind: AnomalyKind) -> type[ExpectColumnValuesToBeBetween]:
    """The expectation that no record is a case of this kind. Great Expectations registers a class when it is made."""
    return type(kind.expectation, (ExpectColumnValuesToBeBetween,), {"__doc__": f"No record is {kind.record_that_is}."})


GUARANTEES: dict[Anomaly, type[ExpectColumnValuesToBeBetween]] = {
    anomaly: _expectation_against(kind) for anomaly, kind in KINDS.items()
}
"""The expectation of every anomaly. Its class, and so its name in the suites, is called as the anomaly says."""

__all__ = [
    "GUARANTEES",
    "ExpectCanariesToBeFound",
    "ExpectLawToBalance",
    "ExpectLogNotToMove",
    "great_expectations",
]
