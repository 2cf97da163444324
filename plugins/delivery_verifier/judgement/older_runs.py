"""Older runs: what a verdict says of anomalies for which a run was not searched, because they are newer than the run.

A run is searched for an anomaly only if its canary has cases of the anomaly. If the check finds these cases, a count
of 0 in other arms can be believed. If an older run is reconciled again, its books may count a newer anomaly. But its
canary stays as it is, without cases of the newer anomaly. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.verdict import Doubt


def unproven_counts(evidence: Evidence) -> Iterator[tuple[str, Doubt]]:
    """Yields (arm, doubt) if the books count cases of an anomaly in the arm, but the canary has no case of the anomaly.

    Nothing shows that such a count is right. But the count cannot be ignored. A record that shows two anomalies is a
    case of only one of them. If the record is counted here by mistake, it may be missing among the cases of the other
    anomaly.
    """
    for arm in evidence.loaded:
        for anomaly in _unsearched(evidence):
            if count := sum(arm.cases(anomaly)):
                detail = (
                    f"{arm.name}: the books count {count} {anomaly}, but the canary of this older run has no such case "
                    "to show that the count is right"
                )
                yield arm.name, Doubt(kind="checker", name="anomaly_unproven", detail=detail)


def limits_of_age(evidence: Evidence) -> list[str]:
    """Returns a sentence that names the anomalies for which the run was not searched. The result is empty if there are
    none."""
    names = [str(anomaly) for anomaly in _unsearched(evidence)]
    if not names:
        return []
    return [f"This run is older than the search for {', '.join(names)}. It was not searched for that: it may be there."]


def _unsearched(evidence: Evidence) -> list[Anomaly]:
    return [anomaly for anomaly in Anomaly if anomaly not in evidence.searched]
