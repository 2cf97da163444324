"""The vocabulary: the classes of all expectations in the suites, under names that a reviewer can read.

There is one class per anomaly. Some anomalies have a second class, which is about their unexplained cases (see
`EXPLAINED`). Three classes are for invariants. Importing this module registers the classes with Great Expectations. The
import takes seconds.

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


class ExpectInvariantToBalance(ExpectColumnPairValuesToBeEqual):
    """The expectation that the two counts of an invariant are equal. The two counts were made independently of each
    other."""


class ExpectLogNotToMove(ExpectInvariantToBalance):
    """The expectation that only markers stand behind the end of the snapshot.

    The snapshot is the range of offsets that is judged. The verifier writes markers to prove where this range ends. Any
    other record behind this end means that the log changed afterwards.
    """


class ExpectCanariesToBeFound(ExpectInvariantToBalance):
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
EXPLAINED: dict[Anomaly, type[ExpectColumnValuesToBeBetween]] = {
    anomaly: type(
        f"Expect{anomaly.capitalize()}RecordsToBeExplained",
        (ExpectColumnValuesToBeBetween,),
        {"__doc__": f"If the contract permits that records are {anomaly}, something can explain each of them."},
    )
    for anomaly in UNEXPLAINED
}
"""Maps an anomaly to the class of its second expectation. The expectation is that something explains every case of the
anomaly."""

__all__ = [
    "EXPLAINED",
    "GUARANTEES",
    "ExpectCanariesToBeFound",
    "ExpectInvariantToBalance",
    "ExpectLogNotToMove",
    "great_expectations",
]
