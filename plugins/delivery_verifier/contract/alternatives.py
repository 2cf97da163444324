"""The alternatives: what would be lost or won with another value of one setting. It says why each setting is as it
is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import Struct

from delivery_verifier.contract.guarantees import FAULT_CLASSES, GUARANTEES, Row, matrix
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
"""Single settings by what is written, with what must go along: idempotence asks for acks=all and retries."""


class Alternative(Struct, frozen=True, kw_only=True):
    """What another setting changes: guarantees with the classes of faults under which they are lost or won."""

    setting: str
    lost: dict[Claim, list[str]]
    won: dict[Claim, list[str]]


def alternatives(settings: Settings) -> list[Alternative]:
    """Every alternative that makes a difference."""
    rows, found = matrix(settings), []
    for setting, changes in ALTERNATIVES.items():
        other = matrix(replace(settings, **changes))
        made = Alternative(setting=setting, lost=_only(rows, other), won=_only(other, rows))
        if made.lost or made.won:
            found.append(made)
    return found


def _only(here: list[Row], there: list[Row]) -> dict[Claim, list[str]]:
    """The guarantees of `here` that `there` lacks."""
    both = list(zip(here, there, strict=True))
    found = {
        claim: [one.fault_class for one, other in both if one.guarantees[claim] and not other.guarantees[claim]]
        for claim in GUARANTEES
    }
    return {claim: classes for claim, classes in found.items() if classes}


def lines(found: list[Alternative]) -> list[str]:
    """Some lines per alternative. exactly_once is left aside: it is what at_least_once and at_most_once are
    together."""
    return [
        line
        for one in found
        for line in [
            f"  with {one.setting}",
            *(
                f"    {word} {claim} under {_shown(classes)}"
                for word, changed in (("lost is", one.lost), ("won is", one.won))
                for claim, classes in changed.items()
                if claim != "exactly_once"
            ),
        ]
    ]


def _shown(classes: list[str]) -> str:
    """The classes of faults, or those that are not among them where that is shorter."""
    others = [one.name for one in FAULT_CLASSES if one.name not in classes]
    if len(others) >= len(classes):
        return ", ".join(classes)
    return "all" + (f" but {', '.join(others)}" if others else "")
