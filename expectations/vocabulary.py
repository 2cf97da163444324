"""The vocabulary: the classes of all expectations in the suites, under names that a reviewer can read.

There is one class per anomaly. Some anomalies have a second class, which is about their unexplained cases (see
`EXCUSES`). Three classes are for laws. Importing this module registers the classes with Great Expectations. The import
takes seconds.

The column of an expectation is an argument of its constructor, and never a class default. Great Expectations does not
write defaults into a suite's JSON, and a suite must say which column each expectation judges.
"""

from __future__ import annotations

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.anomaly_kind import AnomalyKind
from delivery_verifier.verdict.unexplained import UNEXPLAINED
from expectations.library import (
    ExpectColumnPairValuesToBeEqual,
    ExpectColumnValuesToBeBetween,
    great_expectations,
)


class ExpectLawToBalance(ExpectColumnPairValuesToBeEqual):
    """The expectation that the two counts of a law are equal. The two counts were made independently of each other."""


class ExpectLogNotToMove(ExpectLawToBalance):
    """The expectation that only markers stand behind the end of the snapshot.

    The snapshot is the range of offsets that is judged. The verifier writes markers to prove where this range ends. Any
    other record behind this end means that the log changed afterwards.
    """


class ExpectCanariesToBeFound(ExpectLawToBalance):
    """The expectation that the anomalies found in the canary are exactly those that the verifier planted there."""


def _expectation_against(kind: AnomalyKind) -> type[ExpectColumnValuesToBeBetween]:
    """Returns a new class of expectations. Each expectation of this class limits the values in a column that counts the
    cases of `kind`.

    Great Expectations knows the class by its name as soon as the class exists.
    """
    return type(kind.expectation, (ExpectColumnValuesToBeBetween,), {"__doc__": f"No record is {kind.record_that_is}."})


GUARANTEES: dict[Anomaly, type[ExpectColumnValuesToBeBetween]] = {
    anomaly: _expectation_against(kind) for anomaly, kind in KINDS.items()
}
"""Maps each anomaly to the class of its expectation. `AnomalyKind.expectation` is the name of this class."""
EXCUSES: dict[Anomaly, type[ExpectColumnValuesToBeBetween]] = {
    anomaly: type(
        f"Expect{anomaly.capitalize()}RecordsToBeExcused",
        (ExpectColumnValuesToBeBetween,),
        {"__doc__": f"If the contract permits that records are {anomaly}, something can excuse each of them."},
    )
    for anomaly in UNEXPLAINED
}
"""Maps an anomaly to the class of its second expectation. The expectation is that something excuses every case of the
anomaly."""

__all__ = [
    "EXCUSES",
    "GUARANTEES",
    "ExpectCanariesToBeFound",
    "ExpectLawToBalance",
    "ExpectLogNotToMove",
    "great_expectations",
]
