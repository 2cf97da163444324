"""The verdict of a run and of each arm, with findings, doubts and limits: the parts of verdict.json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from delivery_verifier.model.scenario import Claim, Role, VerdictName


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all parts of verdict.json. Unknown fields are errors."""


class Doubt(_Part, frozen=True):
    """A reason to withhold a verdict. `checker` doubts forbid HELD and VIOLATED. `coverage` doubts forbid only HELD."""

    kind: Literal["checker", "coverage"]
    name: str
    detail: str


class Finding(_Part, frozen=True):
    """One anomaly in one arm: the ruling, the rule behind the ruling, and the number of cases.

    `count` is the number of cases of this anomaly. `also` is the number of records that show this anomaly, too, but are
    cases of a kind of higher precedence. `tolerance` is the number of cases that the ruling allows. None stands for any
    number: the anomaly is permitted.
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
    """How many records of one arm the injection with the id `injection` could have hurt.

    `reported` counts the reported records on the hit partitions from just before the bite until recovery. `outstanding`
    counts the attempts that were sent before the bite and had no outcome by then. The injections of one cycle overlap,
    so that their exposures must not be added.
    """

    injection: int
    reported: int
    outstanding: int
    cycle: int = 0


Counted = Literal["reported", "outstanding"]
COUNTED: tuple[Counted, ...] = get_args(Counted)


def exposed(exposure: Iterable[Exposure], name: Counted = "reported") -> int:
    """Returns the number of exposed records in all cycles. `name` is the field of Exposure that is counted.

    Of each cycle only the injection with the greatest number counts, because the injections of a cycle overlap.
    """
    most: dict[int, int] = {}
    for injection in exposure:
        most[injection.cycle] = max(most.get(injection.cycle, 0), getattr(injection, name))
    return sum(most.values())


class ArmVerdict(_Part, frozen=True):
    """The verdict of one arm.

    `as_expected`: whether the arm meets its expectation. `expected` is the expectation in words. `books` are the totals
    of the arm's books (attempted, acked, lost, extra_copies ...). `bites` names for each anomaly the ids of the
    injections to which its recorded cases belong; -1 stands for cases outside of every injection. `bites` is None if
    the run has no record of single cases.
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
    """The verdict of one run: the content of verdict.json.

    `verdict` is the worst verdict of the subject arms. `green`: whether every arm met its expectation and no arm is
    INCONCLUSIVE. `sentence` sums up the verdict for a manager. `limits` says what the run did not show (injections,
    exposed records, statistical bound).
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
        """The exit code of `kdv run`: 0 if the run is green, 2 if any arm is INCONCLUSIVE, else 1."""
        if self.green:
            return 0
        return 2 if any(arm.verdict == "INCONCLUSIVE" for arm in self.arms) else 1
