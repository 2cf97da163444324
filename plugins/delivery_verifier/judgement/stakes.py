"""Stakes: whether the faults could have harmed an arm, and whether its load was answered where there was no fault.

Without these, HELD means nothing: the promise of an arm was not put to the test. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delivery_verifier.judgement.attribution import LAG_US, OUTSIDE
from delivery_verifier.judgement.evidence import ArmEvidence, Evidence, is_power_loss
from delivery_verifier.model.history import LEAD_US, Injection

LEAST_ANSWERED = 0.5
"""The least share of an arm's attempts outside all fault windows that must be reported. A cluster that nothing disturbs
answers every attempt. The margin is for attempts that a fault delayed until after its window."""


def stakes(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of each doubt whether the run put the promise of the arm to the test."""
    yield from _nothing_at_stake(arm)
    yield from _unanswered(arm)


def _nothing_at_stake(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt if injections bit, and nothing shows that one of them could have harmed the arm.

    Each of the following shows this:

    * An attempt of the arm was outstanding when an injection bit (took effect). With acks=0, no attempt is ever
      outstanding. For such an arm, attempts of other arms count.
    * An injection was a loss of power. It also harms records that were acknowledged before.
    * An injection hurt any arm, because all arms are under the same faults at the same moment.
    """
    biting = arm.run.biting
    if not biting or any(is_power_loss(injection) for injection in biting):
        return
    without_answers = str(arm.spec.profile.producer.get("acks")) == "0"
    witnesses = arm.run.loaded if without_answers else (arm,)
    if any(exposure.outstanding for witness in witnesses for exposure in witness.exposure):
        return
    if not any(_is_hurt(other) for other in arm.run.loaded):
        detail = f"{arm.name}: no attempt was outstanding when an injection bit, and no injection hurt any arm"
        yield "nothing_at_stake", detail


def _is_hurt(arm: ArmEvidence) -> bool:
    """Returns whether an injection hurt the arm: with an anomaly, or with attempts that the client knows nothing of."""
    owners = (arm.cases_by_injection or {}).values()
    if any(number != OUTSIDE for numbers in owners for number in numbers):
        return True
    return any(row["indeterminate"] for row in _intervals(arm) if _is_inside(row["at_us"], arm.run))


def _unanswered(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt if less than LEAST_ANSWERED of the arm's attempts outside all fault windows was reported.

    The attempts outside are the arm's totals minus the attempts that the timeline counts inside fault windows. So an
    attempt that the timeline lacks counts as outside.
    """
    inside = [row for row in _intervals(arm) if _is_inside(row["at_us"], arm.run)]

    def outside(*names: str) -> int:
        return sum(arm.totals.get(name, 0) - sum(row[name] for row in inside) for name in names)

    reported, unanswered = outside("reported"), outside("indeterminate", "failed")
    if unanswered > 0 and reported < LEAST_ANSWERED * (reported + unanswered):
        detail = (
            f"{arm.name}: outside all faults, {max(reported, 0)} of {max(reported, 0) + unanswered} attempts were "
            f"reported, at least {LEAST_ANSWERED:.0%} are needed"
        )
        yield "too_few_answered", detail


def _intervals(arm: ArmEvidence) -> list[dict[str, Any]]:
    """Returns the arm's rows of timeline/load, one row per interval of time; empty if columns are missing."""
    rows = arm.run.books.rows("load", arm=arm.name)
    if not {"at_us", "reported", "indeterminate", "failed"} <= set(rows.column_names):
        return []
    return [dict(row) for row in rows.to_pylist()]


def _is_inside(at_us: int, run: Evidence) -> bool:
    """Returns whether a time lies in the window of any injection. `attribution` defines these windows."""
    return any(injection.bite_at_us - LEAD_US <= at_us <= _end_us(injection, at_us) for injection in run.injections)


def _end_us(injection: Injection, otherwise: int) -> int:
    return otherwise if injection.recovered_at_us is None else injection.recovered_at_us + LAG_US
