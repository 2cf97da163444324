"""The claims: guarantees that a user may demand of an arm. Each claim has a meaning, and names the anomalies that it
forbids."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.scenario import Claim


@dataclass(frozen=True, slots=True)
class ClaimKind:
    """One claim. `meaning` is the guarantee in words.

    `forbids` are the anomalies that the claim forbids even if the settings permit them. They stand in the order of
    precedence of the class `Anomaly`.
    """

    meaning: str
    forbids: tuple[Anomaly, ...]


_MEANINGS: dict[Claim, str] = {
    "contract": "what the settings themselves promise",
    "at_most_once": "no record more than once",
    "at_least_once": "no reported record lost",
    "exactly_once": "every reported record exactly once",
    "ordered": "first copies in the order of sending, per producer and partition (later copies: exactly_once)",
}

CLAIMS: dict[Claim, ClaimKind] = {
    claim: ClaimKind(meaning, tuple(anomaly for anomaly, kind in KINDS.items() if claim in kind.forbidden_by))
    for claim, meaning in _MEANINGS.items()
}
"""Every claim, by its name.

* No claim forbids CORRUPTED, MISROUTED or PHANTOM, because the contract forbids them under any settings.
* No claim forbids MISPLACED, because a misplaced record is in the log, although not at the acknowledged offset.
* Only exactly_once forbids RESENT, because Kafka cannot prevent an application from sending a record again.
* The claim `ordered` concerns only first copies. For example, a log with the records 1 2 3 2 is ordered. The second
  copy of record 2 is DUPLICATED or RESENT. The claim exactly_once forbids both, and at_most_once forbids DUPLICATED.

An arm has one claim. To demand each record once and in order, a user needs two arms or two runs: one with exactly_once,
one with ordered.
"""
