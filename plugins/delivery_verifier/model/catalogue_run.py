"""A catalogue run as data: which entries were asked for, and what each of them ended with."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.model.scenario import Claim, Role, VerdictName

State = Literal["pending", "as expected", "not as expected", "inconclusive", "unavailable", "failed"]

STATES: tuple[State, ...] = ("not as expected", "failed", "inconclusive", "unavailable", "pending", "as expected")
"""Every state of an item. The state that most deserves attention comes first."""

MOST_ATTEMPTS = 2
"""An entry whose first run is INCONCLUSIVE is run once more. Both runs count."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of the parts of catalogue.json."""


class ArmResult(_Part, frozen=True):
    """One arm of one attempt. `counts` are columns of its books; a figure that is not known is None, never zero.

    `latency_ms_p99` is an upper bound of the latency of 99 % of the reported records. `records_per_s` are reported
    records per second of the load.
    """

    arm: str
    role: Role
    profile: str
    claim: Claim
    verdict: VerdictName
    as_expected: bool
    expected: str
    sentence: str = ""
    counts: dict[str, int] = {}
    longest_gap_s: float | None = None
    latency_ms_p99: float | None = None
    records_per_s: float | None = None


class Attempt(_Part, frozen=True):
    """One run of an entry: the name of its run directory, and its verdict or, if it failed, the error."""

    run: str
    started_at: str
    seconds: float
    verdict: VerdictName | None = None
    green: bool = False
    sentence: str = ""
    doubts: list[str] = []
    arms: list[ArmResult] = []
    error: str = ""

    @property
    def state(self) -> State:
        """The state that the gate of the run sees: a run with an INCONCLUSIVE arm is never as expected."""
        if self.verdict is None:
            return "failed"
        if self.green:
            return "as expected"
        inconclusive = self.verdict == "INCONCLUSIVE" or any(arm.verdict == "INCONCLUSIVE" for arm in self.arms)
        return "inconclusive" if inconclusive else "not as expected"


class Item(_Part, frozen=True):
    """One entry in one round, with its attempts so far. `unavailable` says why this host cannot run it;
    `expected_unavailable`: the catalogue was told to expect that."""

    name: str
    title: str
    kind: str
    tags: tuple[str, ...]
    fault: str
    promise: str = ""
    round: int = 1
    unavailable: str = ""
    expected_unavailable: bool = False
    attempts: tuple[Attempt, ...] = ()

    @property
    def state(self) -> State:
        """The state of the last attempt; `unavailable` or `pending` if there cannot be or is no attempt."""
        if self.unavailable:
            return "unavailable"
        return self.attempts[-1].state if self.attempts else "pending"

    @property
    def green(self) -> bool:
        """Whether the item is as expected, or is unavailable and was expected to be."""
        return self.state == "as expected" or (self.state == "unavailable" and self.expected_unavailable)

    @property
    def open(self) -> bool:
        """Whether the entry has to be run: for the first time or, after an INCONCLUSIVE run, once more."""
        return self.state == "pending" or (self.state == "inconclusive" and len(self.attempts) < MOST_ATTEMPTS)


class CatalogueRun(_Part, frozen=True):
    """catalogue.json. `wanted` says in words which scenarios were chosen. Times are ISO 8601 in UTC; `ended_at` is
    empty until the catalogue run has ended."""

    id: str
    wanted: str
    expect_unavailable: tuple[str, ...]
    direct: bool
    rounds: int
    started_at: str
    versions: dict[str, str]
    commit: str
    machine: str
    items: tuple[Item, ...]
    ended_at: str = ""

    @property
    def green(self) -> bool:
        """Whether every item is as expected, or was expected to be unavailable, and at least one item was run."""
        return bool(self.items) and all(item.green for item in self.items) and self.count("as expected") > 0

    @property
    def open(self) -> list[Item]:
        """The items that are still to be run, in order."""
        return [item for item in self.items if item.open]

    def count(self, state: State) -> int:
        """How many items are in `state`."""
        return Counter(item.state for item in self.items)[state]

    @property
    def exit_code(self) -> int:
        """The exit code, with the meanings of `kdv run`. The surest statement counts first: 0 green, 1 not as expected
        (also an unexpected UNAVAILABLE), 70 failed or not ended, 2 inconclusive."""
        if self.green:
            return 0
        unexpected = any(item.state == "unavailable" and not item.green for item in self.items)
        if self.count("not as expected") or unexpected:
            return 1
        return 70 if self.count("failed") or self.count("pending") or not self.count("inconclusive") else 2


UNTOLD = "no verdict; why is in the logs of its run, which you may not read"


def without_errors(catalogue: CatalogueRun) -> CatalogueRun:
    """The catalogue run for readers who may not see the logs of its runs: each error is replaced by UNTOLD."""

    def redact(attempt: Attempt) -> Attempt:
        return replace(attempt, error=UNTOLD) if attempt.error else attempt

    return replace(
        catalogue,
        items=tuple(
            replace(item, attempts=tuple(redact(attempt) for attempt in item.attempts)) for item in catalogue.items
        ),
    )
