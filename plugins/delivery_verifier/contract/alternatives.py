"""The alternatives: which guarantees another value of one setting would lose or win.

The alternatives show why each setting has the value that it has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import Struct

from delivery_verifier.contract.guarantees import FAULT_CLASSES, GUARANTEES, GuaranteeRow, matrix
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.scenario import Claim

ALTERNATIVES: dict[str, dict[str, Any]] = {
    "acks=0": {"acks": "0", "enable_idempotence": False},
    "acks=1": {"acks": "1", "enable_idempotence": False},
    "acks=all": {"acks": "all"},
    "enable.idempotence=false": {"enable_idempotence": False},
    "acks=all and enable.idempotence=true": {"acks": "all", "enable_idempotence": True},
    "retries=0": {"retries": 0, "enable_idempotence": False},
    "max.in.flight.requests.per.connection=1": {"max_in_flight": 1},
    "min.insync.replicas=1": {"min_insync_replicas": 1},
    "min.insync.replicas=2": {"min_insync_replicas": 2},
    "unclean.leader.election.enable=true": {"unclean_leader_election": True},
    "unclean.leader.election.enable=false": {"unclean_leader_election": False},
    "flush.messages=1": {"flush_messages": 1},
    "no eligible leader replicas": {"elr": False},
}
"""Changes of single settings, by the text that names them: fields of Settings with their new values.

Each change includes what it needs: idempotence needs acks=all and retries."""


class Alternative(Struct, frozen=True, kw_only=True):
    """What another setting changes: the guarantees that it loses or wins, each with the classes of faults concerned."""

    setting: str
    lost: dict[Claim, list[str]]
    won: dict[Claim, list[str]]


def alternatives(settings: Settings) -> list[Alternative]:
    """Every alternative to `settings` that changes a guarantee."""
    current = matrix(settings)
    candidates = []
    for setting, changes in ALTERNATIVES.items():
        changed = matrix(replace(settings, **changes))
        candidates.append(Alternative(setting=setting, lost=_missing(current, changed), won=_missing(changed, current)))
    return [alternative for alternative in candidates if alternative.lost or alternative.won]


def _missing(rows: list[GuaranteeRow], others: list[GuaranteeRow]) -> dict[Claim, list[str]]:
    """The guarantees of `rows` that `others` lack, each with the names of the classes of faults where it is lacking."""
    pairs = list(zip(rows, others, strict=True))
    missing = {
        claim: [row.fault_class for row, other in pairs if row.guarantees[claim] and not other.guarantees[claim]]
        for claim in GUARANTEES
    }
    return {claim: fault_classes for claim, fault_classes in missing.items() if fault_classes}


def lines(described: list[Alternative]) -> list[str]:
    """The alternatives as text: a line that names the setting, and a line per guarantee that changes.

    exactly_once is left out: it is at_least_once and at_most_once together.
    """
    text = []
    for alternative in described:
        text.append(f"  with {alternative.setting}")
        text += _changes("lost", alternative.lost)
        text += _changes("won", alternative.won)
    return text


def _changes(verb: str, changed: dict[Claim, list[str]]) -> list[str]:
    return [
        f"    {verb} is {claim} under {_fault_classes(names)}"
        for claim, names in changed.items()
        if claim != "exactly_once"
    ]


def _fault_classes(names: list[str]) -> str:
    """The names, or "all but" the other classes of faults where these are fewer."""
    others = [fault_class.name for fault_class in FAULT_CLASSES if fault_class.name not in names]
    if len(others) >= len(names):
        return ", ".join(names)
    return f"all but {', '.join(others)}" if others else "all"
