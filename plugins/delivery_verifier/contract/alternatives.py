"""The alternatives to an arm's settings: which guarantees would be lost or won if one or two settings had other values.

The alternatives show why each setting matters. A guarantee may hold only under some classes of faults (see
`guarantees.FAULT_CLASSES`), and not e.g. under the loss of power of one broker. A change of settings may therefore lose
or win a guarantee under only some of the classes.
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
    "no eligible leader replicas": {"elr": False, "transaction_log_elr": False},
}
"""The changes of settings that are tried. Maps the text that names a change to the changed fields of Settings, with
their new values.

Idempotence needs acks=all and retries. So a change to a weaker value of acks or retries also switches idempotence off.
A change that switches idempotence on also sets acks=all.
"""


class Alternative(Struct, frozen=True, kw_only=True):
    """The effect of one change of settings.

    * `setting`: the text that names the change (a key of ALTERNATIVES).
    * `lost`: maps each guarantee that the change loses to the names of classes of faults (see
      `guarantees.FAULT_CLASSES`). Under these classes, the guarantee holds before the change and not after it.
    * `won`: maps each guarantee that the change wins to the names of classes of faults. Under these classes, the
      guarantee holds after the change and not before it.
    """

    setting: str
    lost: dict[Claim, list[str]]
    won: dict[Claim, list[str]]


def alternatives(settings: Settings) -> list[Alternative]:
    """Returns the effect of every change in ALTERNATIVES that loses or wins a guarantee of `settings`."""
    current = matrix(settings)
    candidates = []
    for setting, changes in ALTERNATIVES.items():
        changed = matrix(replace(settings, **changes))
        candidates.append(Alternative(setting=setting, lost=missing(current, changed), won=missing(changed, current)))
    return [alternative for alternative in candidates if alternative.lost or alternative.won]


def missing(rows: list[GuaranteeRow], others: list[GuaranteeRow]) -> dict[Claim, list[str]]:
    """Compares two matrices of guarantees, `rows` and `others`. A matrix has one row per class of faults. Maps each
    guarantee to the names of the classes for which `rows` give the guarantee and `others` do not give it.

    Leaves out a guarantee if there is no such class.
    """
    pairs = list(zip(rows, others, strict=True))
    missing = {
        claim: [row.fault_class for row, other in pairs if row.guarantees[claim] and not other.guarantees[claim]]
        for claim in GUARANTEES
    }
    return {claim: fault_classes for claim, fault_classes in missing.items() if fault_classes}


def lines(described: list[Alternative]) -> list[str]:
    """Returns the alternatives `described` as lines of text.

    Each alternative has a line that names the change, and a line for each guarantee that is lost or won.

    The lines leave out the guarantee exactly_once, because it is at_least_once and at_most_once together.
    """
    text = []
    for alternative in described:
        text.append(f"  with {alternative.setting}")
        text += in_words("lost", alternative.lost)
        text += in_words("won", alternative.won)
    return text


def in_words(verb: str, changed: dict[Claim, list[str]]) -> list[str]:
    """Returns a line for each guarantee in `changed`, without exactly_once. Each line begins with `verb`, which is
    `lost` or `won`."""
    return [
        f"    {verb} is {claim} under {_fault_classes(names)}"
        for claim, names in changed.items()
        if claim != "exactly_once"
    ]


def _fault_classes(names: list[str]) -> str:
    """Returns `names`, the names of classes of faults, as text.

    If `names` holds all classes, the text is `all`. If `names` holds more than half of all classes, the text is
    `all but` and the names of the other classes. Otherwise, the text lists `names`.
    """
    others = [fault_class.name for fault_class in FAULT_CLASSES if fault_class.name not in names]
    if len(others) >= len(names):
        return ", ".join(names)
    return f"all but {', '.join(others)}" if others else "all"
