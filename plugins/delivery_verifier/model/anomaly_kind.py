"""The class `AnomalyKind`: the words and data of one anomaly. `model.anomalies` has an instance for each anomaly, and
explains the terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from delivery_verifier.model.scenario import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyKind:
    """One kind of anomaly in words and data. Other modules say how cases are detected
    (`spark_jobs.matching.anomalies`), planted in the canary (`canary`) and permitted (`contract.rules`)."""

    definition: str
    """What makes a record a case of the anomaly."""
    name: str
    """The name that people read, e.g. `Out of order`."""
    participle: str
    """The word that follows the number of cases in a sentence, e.g. `lost` in `3 lost`."""
    record_that_is: str
    """The end of the phrase `a record that is ...`, for one case."""
    records_that_are: str
    """The end of the sentence `<number> records are ...`, for several cases."""
    promise: str
    """The promise that forbids the anomaly, in words. Kafka, or the claim, makes this promise as long as no rule of the
    contract permits the anomaly."""
    promised_by: str
    """The source of the promise: a KIP, Kafka's documentation, or the claim."""
    expectation: str
    """The name of the expectation class in Great Expectations. The suites write this name in snake_case."""
    share_of: str
    """A report shows the number of cases as a share of this column of the counts, e.g. `reported`. The share is the
    number of cases divided by the total of the column."""
    telling: int
    """The rank by which a report chooses the cases that it describes in detail: 1 comes first. No two kinds have the
    same rank."""
    permitted_with: Literal["losses", "retries", "resends", "applications", "nothing"]
    """What makes the contract permit the anomaly.

    * `losses`: settings or disturbances that may lose records.
    * `retries`: whatever makes the client write a record again.
    * `resends`: the application sends a record again.
    * `applications`: the moment at which an application commits, a fault of the application, or a fault of the log that
      the application reads.
    * `nothing`: no rule permits the anomaly.
    """
    forbidden_by: tuple[Claim, ...] = ()
    """The claims that forbid the anomaly even where the settings permit it."""
    transactional: bool = False
    """Whether only records that were sent in transactions can be cases."""
    of_effects: bool = False
    """Whether only records that an application applies, or should apply, can be cases."""
    can_be_hidden: bool = False
    """Whether the anomaly is also counted if the attempt is already a case of a kind of higher precedence. The column
    `also_<kind>` of the counts counts such attempts."""
