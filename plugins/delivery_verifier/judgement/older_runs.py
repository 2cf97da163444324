"""Older runs: doubts and limits for runs that older versions of the verifier made.

Such a run may have settings that are refused today, because the contract has no rule for them. Such a run was also not
searched for newer anomalies.

A run is searched for an anomaly only if its canary has cases of the anomaly. The check must find these cases, so that a
count of 0 in other arms can be believed. If an older run is reconciled again, its books may count a newer anomaly. Its
canary still has no cases of this anomaly. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.anomalies import Anomaly, searched_for
from delivery_verifier.model.verdict import Doubt
from delivery_verifier.store.tables import FORMAT_VERSION


def unproven_counts(evidence: Evidence) -> Iterator[tuple[str, Doubt]]:
    """Yields (arm, doubt) if the books count cases of an anomaly in the arm, but the canary has no case of the anomaly.

    Nothing shows that such a count is right. But the count cannot be ignored, because a record that shows two anomalies
    is a case of only one of them. If a record is counted for the newer anomaly by mistake, the record may be missing
    among the cases of the other anomaly.
    """
    for arm in evidence.loaded:
        for anomaly in (kind for kind in Anomaly if kind not in evidence.searched):
            if count := sum(arm.cases(anomaly)):
                detail = (
                    f"{arm.name}: the books count {count} {anomaly}, but the canary of this older run has no such case "
                    "to show that the count is right"
                )
                yield arm.name, Doubt(kind="checker", name="anomaly_unproven", detail=detail)


UNRULED = {
    "socket.max.fails": (
        "1",
        "librdkafka keeps a connection on which a request timed out, and later requests may overtake that one",
    )
}
"""Producer properties that older versions accepted, although no rule considers them. Maps a property to a pair: the
only value for which the rules hold (librdkafka's default), and what happens with any other value."""


def unruled_settings(evidence: Evidence) -> Iterator[tuple[str, Doubt]]:
    """Yields (arm, doubt) for each property in UNRULED to which the arm's producers gave another value than the allowed
    one.

    Such a value may reorder records, although the contract forbids REORDERED. It causes no other anomaly. The doubt is
    a coverage doubt, which forbids only HELD. But if the arm has cases of REORDERED, it is a checker doubt, because
    these cases must not convict the arm.
    """
    for arm in evidence.loaded:
        for name, (only, effect) in UNRULED.items():
            value = str(arm.spec.profile.producer.get(name, only))
            if value != only:
                kind: Literal["checker", "coverage"] = "checker" if any(arm.cases(Anomaly.REORDERED)) else "coverage"
                detail = f"{arm.name}: {name} was {value}, for which no rule exists: {effect}"
                yield arm.name, Doubt(kind=kind, name="setting_without_rule", detail=detail)


def limits_of_age(evidence: Evidence) -> list[str]:
    """Returns a list with one sentence, which names the anomalies for which the run was not searched. If there are no
    such anomalies, returns an empty list."""
    names = [str(anomaly) for anomaly in _unsearched(evidence)]
    if not names:
        return []
    return [f"This run is older than the search for {', '.join(names)}. It was not searched for that: it may be there."]


def _unsearched(evidence: Evidence) -> list[Anomaly]:
    possible = searched_for(FORMAT_VERSION, bool(evidence.scenario.applied))
    return [anomaly for anomaly in possible if anomaly not in evidence.searched]
