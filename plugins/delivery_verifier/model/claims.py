"""The claims: what a user may demand of an arm, in words, and which anomalies each claim forbids."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.scenario import Claim


@dataclass(frozen=True, slots=True)
class ClaimKind:
    """One claim. `forbids`: the anomalies that it forbids where the settings permit them, in order of precedence."""

    meaning: str
    forbids: tuple[Anomaly, ...]


_MEANINGS: dict[Claim, str] = {
    "contract": "what the settings themselves promise",
    "at_most_once": "no record more than once",
    "at_least_once": "no reported record lost",
    "exactly_once": "every reported record exactly once",
    "ordered": "records in the order they were sent, per producer and partition",
}

CLAIMS: dict[Claim, ClaimKind] = {
    claim: ClaimKind(meaning, tuple(anomaly for anomaly, kind in KINDS.items() if claim in kind.forbidden_by))
    for claim, meaning in _MEANINGS.items()
}
"""Every claim. CORRUPTED and PHANTOM are forbidden in any case. MISPLACED records are in the log, hence no claim speaks
of them. RESENT, the application's own doing, convicts only under a claim of exactly_once."""
