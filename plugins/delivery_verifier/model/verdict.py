"""The verdict: what may be said of each arm, with the evidence and the limits of the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier.model.scenario import Claim, Role, VerdictName


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the parts of verdict.json."""


class Doubt(_Part, frozen=True):
    """Why a verdict is withheld. `checker` doubts forbid HELD and VIOLATED, `coverage` doubts only HELD."""

    kind: Literal["checker", "coverage"]
    name: str
    detail: str


class Finding(_Part, frozen=True):
    """One anomaly in one arm: what was ruled, by which rule, and what was counted.

    `count` are cases of this kind, `also` cases hidden by a kind of higher precedence. `tolerance` None: permitted.
    """

    anomaly: str
    ruling: Literal["FORBIDDEN", "PERMITTED"]
    ruled_by: Literal["contract", "claim"]
    rule: str
    sentence: str
    source: str
    tolerance: int | None
    count: int
    also: int


class Exposure(_Part, frozen=True):
    """How much of an arm an injection could have hurt. Injections of one cycle overlap, so that their exposures must
    not be added."""

    injection: int
    reported: int
    outstanding: int
    cycle: int = 0


Counted = Literal["reported", "outstanding"]
COUNTED: tuple[Counted, ...] = get_args(Counted)


def exposed(exposure: Iterable[Exposure], name: Counted = "reported") -> int:
    """Exposed records of all cycles. Of each cycle only the injection that exposed most counts."""
    most: dict[int, int] = {}
    for injection in exposure:
        most[injection.cycle] = max(most.get(injection.cycle, 0), getattr(injection, name))
    return sum(most.values())


class ArmVerdict(_Part, frozen=True):
    """One arm's verdict. `books` are the totals of its books (attempted, acked, lost, extra_copies ...).

    `bites`: per anomaly the ids of the injections to which its recorded cases belong (-1: cases outside of every
    injection); None where no cases are known.
    """

    arm: str
    role: Role
    profile: str
    claim: Claim
    verdict: VerdictName
    as_expected: bool
    expected: str
    sentence: str
    doubts: list[Doubt]
    findings: list[Finding]
    books: dict[str, int]
    exposure: list[Exposure]
    longest_gap_s: float | None
    bites: dict[str, list[int]] | None = None


class RunVerdict(_Part, frozen=True):
    """verdict.json. `verdict` is the subjects' worst; `green` iff every arm met its own expectation.

    `sentence` is for a manager; `limits` says what was not shown (injections, exposed records, bound).
    """

    run_id: str
    scenario: str
    verdict: VerdictName
    green: bool
    sentence: str
    limits: list[str]
    arms: list[ArmVerdict]
    notes: list[str] = []

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 not as expected, 2 INCONCLUSIVE (any arm)."""
        if self.green:
            return 0
        return 2 if any(arm.verdict == "INCONCLUSIVE" for arm in self.arms) else 1
