"""Exposure: whether the faults could have hurt an arm, and whether the arm's attempts were reported while no fault
acted.

If the answer to one of these questions is no, the run did not test the promise of the arm, and HELD would mean nothing.
All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.verdict.applications import exposed_records
from delivery_verifier.verdict.attribution import LAG_US, OUTSIDE, is_power_loss
from delivery_verifier.verdict.evidence import ArmEvidence, Evidence

LEAST_ANSWERED = 0.5
"""A share. Of an arm's attempts outside the windows of all injections, at least this share must be reported.
`attribution` defines these windows. An undisturbed cluster answers every attempt. The share is below 1, because a fault
inside a window may delay the outcome of an attempt until after the window."""


def exposure_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of each reason to think that the arm was not put to the test."""
    yield from _not_exercised(arm)
    yield from _unanswered(arm)


def _not_exercised(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt if injections took effect, but nothing shows that an injection could have hurt the arm.

    Each of these facts shows that an injection could have hurt the arm:

    * An attempt of the arm was outstanding when an injection took effect. An arm with acks=0 never has outstanding
      attempts. For such an arm, the outstanding attempts of other arms count, too.
    * An injection hit applications, and the arm's application had records in progress, or its group was set back.
    * An injection was a loss of power. A loss of power can also hurt records that were acknowledged before.
    * An injection hurt this arm or another arm. All arms are under the same faults at the same moment.
    """
    effective = arm.run.effective
    if not effective or any(is_power_loss(injection) for injection in effective):
        return
    if any(exposed_records(injection, arm.name) for injection in effective):
        return
    without_answers = str(arm.spec.profile.producer.get("acks")) == "0"
    asked = arm.run.loaded if without_answers else (arm,)
    if any(exposure.outstanding for each in asked for exposure in each.exposure):
        return
    if not any(_is_hurt(other) for other in arm.run.loaded):
        detail = f"{arm.name}: no attempt was outstanding when an injection took effect, and no injection hurt any arm"
        yield "not_exercised", detail


def _is_hurt(arm: ArmEvidence) -> bool:
    """Returns whether an injection hurt the arm.

    True if a case of the arm belongs to an injection, or if timeline/load counts an INDETERMINATE attempt of the arm in
    the window of an injection.
    """
    owners = (arm.cases_by_injection or {}).values()
    if any(number != OUTSIDE for numbers in owners for number in numbers):
        return True
    return any(row["indeterminate"] for row in _intervals(arm) if _is_inside(row["at_us"], arm.run))


def _unanswered(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields a doubt if too few attempts of the arm were reported, counting only attempts outside the windows of
    injections.

    LEAST_ANSWERED is the share that must be reported. An attempt is inside a window only if timeline/load counts its
    outcome in an interval that begins in the window. Every other attempt is outside, even if timeline/load does not
    count it.
    """
    inside = [row for row in _intervals(arm) if _is_inside(row["at_us"], arm.run)]

    def count_outside(*names: str) -> int:
        return sum(arm.totals.get(name, 0) - sum(row[name] for row in inside) for name in names)

    reported, unanswered = count_outside("reported"), count_outside("indeterminate", "failed")
    if unanswered > 0 and reported < LEAST_ANSWERED * (reported + unanswered):
        detail = (
            f"{arm.name}: outside all faults, {max(reported, 0)} of {max(reported, 0) + unanswered} attempts were "
            f"reported, at least {LEAST_ANSWERED:.0%} are needed"
        )
        yield "too_few_answered", detail


def _intervals(arm: ArmEvidence) -> list[dict[str, Any]]:
    """Returns the arm's rows of timeline/load, one row per interval of time; empty if columns are missing."""
    rows = arm.run.tally.rows("load", arm=arm.name)
    if not {"at_us", "reported", "indeterminate", "failed"} <= set(rows.column_names):
        return []
    return [dict(row) for row in rows.to_pylist()]


def _is_inside(at_us: int, run: Evidence) -> bool:
    """Returns whether the time `at_us` lies in the window of an injection. `attribution` defines these windows."""
    return any(injection.effect_at_us - LEAD_US <= at_us <= _end_us(injection, at_us) for injection in run.injections)


def _end_us(injection: Injection, otherwise: int) -> int:
    return otherwise if injection.recovered_at_us is None else injection.recovered_at_us + LAG_US
