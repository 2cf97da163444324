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

from delivery_verifier.model.anomalies import Anomaly


class ExpectNoCorruptedRecords(ExpectColumnValuesToBeBetween):
    """No record whose checksum differs."""


class ExpectNoPhantomRecords(ExpectColumnValuesToBeBetween):
    """No record that nobody sent, or that was certainly refused."""


class ExpectNoLostRecords(ExpectColumnValuesToBeBetween):
    """No reported record that is at no offset of the log."""


class ExpectNoDuplicatedRecords(ExpectColumnValuesToBeBetween):
    """No attempt at more than one offset."""


class ExpectNoResentRecords(ExpectColumnValuesToBeBetween):
    """No sequence of which several attempts are in the log."""


class ExpectNoMisplacedRecords(ExpectColumnValuesToBeBetween):
    """No record that is elsewhere than at its acknowledged offset."""


class ExpectNoReorderedRecords(ExpectColumnValuesToBeBetween):
    """No record that stands behind one that was sent after it."""


class ExpectNoAbortedRecordsToBeVisible(ExpectColumnValuesToBeBetween):
    """No record of an aborted transaction in the committed view."""


class ExpectNoTornTransactions(ExpectColumnValuesToBeBetween):
    """No record of a committed transaction that is missing from the committed view."""


class ExpectLawToBalance(ExpectColumnPairValuesToBeEqual):
    """Both sides of a law of the books, counted independently, are equal."""


class ExpectLogNotToMove(ExpectLawToBalance):
    """Nothing but markers stands behind the end of the snapshot."""


class ExpectCanariesToBeFound(ExpectLawToBalance):
    """What was planted is found: all of it, and nothing else."""


GUARANTEES: dict[Anomaly, type[ExpectColumnValuesToBeBetween]] = {
    Anomaly.CORRUPTED: ExpectNoCorruptedRecords,
    Anomaly.PHANTOM: ExpectNoPhantomRecords,
    Anomaly.LOST: ExpectNoLostRecords,
    Anomaly.DUPLICATED: ExpectNoDuplicatedRecords,
    Anomaly.RESENT: ExpectNoResentRecords,
    Anomaly.MISPLACED: ExpectNoMisplacedRecords,
    Anomaly.REORDERED: ExpectNoReorderedRecords,
    Anomaly.ABORTED_VISIBLE: ExpectNoAbortedRecordsToBeVisible,
    Anomaly.TORN: ExpectNoTornTransactions,
}

__all__ = [
    "GUARANTEES",
    "ExpectCanariesToBeFound",
    "ExpectLawToBalance",
    "ExpectLogNotToMove",
    "great_expectations",
]
