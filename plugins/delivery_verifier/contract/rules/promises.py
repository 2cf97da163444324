"""The promises: for each anomaly, the reason why the anomaly is forbidden if no rule permits it."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.anomalies import KINDS, Anomaly, column


@dataclass(frozen=True, slots=True)
class Promise:
    """The reason why an anomaly is forbidden if no rule permits it.

    `id` stands in place of a rule's id, e.g. `lost.never`. `sentence` is the promise in words. `source` says who
    promises.
    """

    id: str
    sentence: str
    source: str


PROMISES: dict[Anomaly, Promise] = {
    anomaly: Promise(f"{column(anomaly)}.never", kind.promise, kind.promised_by) for anomaly, kind in KINDS.items()
}
"""Maps each anomaly to its promise."""
