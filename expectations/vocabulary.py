"""The vocabulary: one expectation per anomaly and per kind of evidence, under names that a reviewer can read.

Columns are passed where an expectation is made, never as class defaults. The reason: Great Expectations does not write
defaults into a suite's JSON, but a suite must say which column each expectation judges. The import of this module
registers the names. The import costs seconds, so only `expectations.checkpoint` and the suites import this module.
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
    """The expectation that both sides of a law of the books, which were counted independently, are equal."""


class ExpectLogNotToMove(ExpectLawToBalance):
    """The expectation that only markers stand behind the end of the snapshot."""


class ExpectCanariesToBeFound(ExpectLawToBalance):
    """The expectation that all planted anomalies are found in the canary, and no other anomalies."""


def _expectation_against(kind: AnomalyKind) -> type[ExpectColumnValuesToBeBetween]:
    """Returns a new class: the expectation that no record is a case of `kind`. Making the class registers it."""
    return type(kind.expectation, (ExpectColumnValuesToBeBetween,), {"__doc__": f"No record is {kind.record_that_is}."})


GUARANTEES: dict[Anomaly, type[ExpectColumnValuesToBeBetween]] = {
    anomaly: _expectation_against(kind) for anomaly, kind in KINDS.items()
}
"""The expectation of every anomaly. `AnomalyKind.expectation` names the class, also in the suites."""

__all__ = [
    "GUARANTEES",
    "ExpectCanariesToBeFound",
    "ExpectLawToBalance",
    "ExpectLogNotToMove",
    "great_expectations",
]
