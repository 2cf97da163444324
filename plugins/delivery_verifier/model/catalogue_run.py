"""A catalogue run as data: which entries of the catalogue were chosen, and how the runs of each entry ended.

A *round* is one pass through all chosen entries. The user may ask for several rounds. An *item* is one entry in one
round. An item has one run. If this run is inconclusive, the item gets a second run.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.scenario import Claim, Role, VerdictName

State = Literal["pending", "as expected", "not as expected", "inconclusive", "unavailable", "failed"]

STATES: tuple[State, ...] = ("not as expected", "failed", "inconclusive", "unavailable", "pending", "as expected")
"""Every state of an item. The state that most deserves attention comes first."""

MOST_ATTEMPTS = 2
"""How many runs an item (one entry in one round) can have. An item gets a second run only if its first run is
inconclusive. Both runs are recorded."""


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base class of all parts of catalogue.json. Unknown fields are errors."""


class ArmResult(_Part, frozen=True):
    """The result of one arm in one run of an entry. A figure that is not known is None, never zero.

    * The fields from `arm` to `sentence` are as in `ArmVerdict`.
    * `application`: the name of the arm's application; empty if the arm has none.
    * `client`: the client of the arm in words; empty if it is librdkafka.
    * `counts`: the arm's counts by name, e.g. `lost`, summed over all producers and partitions.
    * `longest_gap_s`: the longest time in seconds between two consecutive reports of records of one partition.
    * `latency_ms_p99`: 99 % of the reported records have at most this latency, in ms.
    * `records_per_s`: the number of reported records per second of the load.
    * `explained`: the number of cases that disturbances explain. `doubtful`: the number of cases of which nobody knows
      whether a disturbance explains them. Each number is the sum over all findings of the arm (see `Finding`).
    """

    arm: str
    role: Role
    profile: str
    claim: Claim
    verdict: VerdictName
    as_expected: bool
    expected: str
    sentence: str = ""
    application: str = ""
    client: str = ""
    counts: dict[str, int] = {}
    longest_gap_s: float | None = None
    latency_ms_p99: float | None = None
    records_per_s: float | None = None
    explained: int = 0
    doubtful: int = 0


class Attempt(_Part, frozen=True):
    """One run of an entry. (Elsewhere, an attempt is one send of a record.) A run that failed has an `error` and no
    verdict.

    `run` is the name of the run directory. `started_at` is ISO 8601 in UTC. `seconds` is the duration of the run.
    `doubts` are the doubts of all arms in words, at most 20. `verdict`, `green` and `sentence` have the values of the
    fields with the same names in `RunVerdict`.
    """

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
        """The state of the run. The first of these conditions that holds decides:

        * `failed`: there is no verdict.
        * `as expected`: the run is green, that is, every arm met its expectation.
        * `inconclusive`: an arm is INCONCLUSIVE.
        * `not as expected`: any other run.
        """
        if self.verdict is None:
            return "failed"
        if self.green:
            return "as expected"
        inconclusive = self.verdict == "INCONCLUSIVE" or any(arm.verdict == "INCONCLUSIVE" for arm in self.arms)
        return "inconclusive" if inconclusive else "not as expected"


class Item(_Part, frozen=True):
    """One entry in one round of the catalogue run, with its runs so far (`attempts`).

    `name`, `title`, `kind`, `tags` and `promise` are copied from the entry. `fault` is the name of the entry's fault
    plan. `round` counts the rounds from 1. `unavailable` says what this host lacks for the entry; empty if the host can
    run the entry. `expected_unavailable`: whether the user said beforehand that this host cannot run the entry.
    """

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
        """The state of the item. The first of these conditions that holds decides:

        * `unavailable`: this host cannot run the entry.
        * `pending`: there is no run yet.
        * Otherwise: the state of the last run.
        """
        if self.unavailable:
            return "unavailable"
        return self.attempts[-1].state if self.attempts else "pending"

    @property
    def green(self) -> bool:
        """Whether the item ended as expected. If this host cannot run the entry, the item is green only if the user
        said so beforehand with --expect-unavailable."""
        return self.state == "as expected" or (self.state == "unavailable" and self.expected_unavailable)

    @property
    def open(self) -> bool:
        """Whether the entry must still be run. This is so if there is no run yet, or if the only run is
        inconclusive."""
        return self.state == "pending" or (self.state == "inconclusive" and len(self.attempts) < MOST_ATTEMPTS)


class CatalogueRun(_Part, frozen=True):
    """One catalogue run: the content of catalogue.json. Times are ISO 8601 in UTC.

    * `wanted`: the chosen entries in words. `direct`: whether the runs do without Airflow.
    * `expect_unavailable`: what the user expects to be unavailable: capabilities, kinds of entries, or names of
      entries.
    * `rounds`: how often every chosen entry is to be run. `items`: one item per round and entry.
    * `versions`: maps software to its version. `commit`: the commit of this project. `machine`: the host in words.
    * `external`: the cluster of all runs, if somebody else runs it.
    * `clients`: the clients of all runs, as the user names them; empty: those of each entry.
    * `ended_at`: empty until the catalogue run has ended.
    """

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
    external: ClusterAccess | None = None
    clients: str = ""
    ended_at: str = ""

    @property
    def green(self) -> bool:
        """Whether every item is green, and at least one item was run and ended as expected."""
        return bool(self.items) and all(item.green for item in self.items) and self.count("as expected") > 0

    @property
    def open(self) -> list[Item]:
        """The items that must still be run, in the order of `items`."""
        return [item for item in self.items if item.open]

    def count(self, state: State) -> int:
        return Counter(item.state for item in self.items)[state]

    @property
    def explained(self) -> tuple[int, int]:
        """Two numbers of cases, summed over all runs. The first number counts the cases that a disturbance explains.

        The second number counts the explained cases and the doubtful cases together. A case is doubtful if nobody knows
        whether a disturbance explains it.
        """
        arms = [arm for item in self.items for attempt in item.attempts for arm in attempt.arms]
        explained = sum(arm.explained for arm in arms)
        return explained, explained + sum(arm.doubtful for arm in arms)

    @property
    def exit_code(self) -> int:
        """The exit code of `kdv catalogue`. Each code has the same meaning as for `kdv run`.

        The first condition that holds decides:

        * 0: the catalogue run is green.
        * 1: an item is not as expected, or is unavailable although the user did not expect that. This condition comes
          before the conditions for 70 and 2, because such a result is certain.
        * 70: an item failed or is pending.
        * 2: an item is inconclusive.
        * 70: none of the above, e.g. every item is unavailable, and the user expected that.
        """
        if self.green:
            return 0
        unexpected = any(item.state == "unavailable" and not item.green for item in self.items)
        if self.count("not as expected") or unexpected:
            return 1
        return 70 if self.count("failed") or self.count("pending") or not self.count("inconclusive") else 2


UNTOLD = "no verdict; why is in the logs of its run, which you may not read"
"""The text that replaces an error for readers who may not read the error."""


def without_errors(catalogue: CatalogueRun) -> CatalogueRun:
    """Returns a copy of `catalogue` in which the text UNTOLD replaces each error. The copy is for readers who may not
    read the logs of the runs."""

    def redact(attempt: Attempt) -> Attempt:
        return replace(attempt, error=UNTOLD) if attempt.error else attempt

    return replace(
        catalogue,
        items=tuple(
            replace(item, attempts=tuple(redact(attempt) for attempt in item.attempts)) for item in catalogue.items
        ),
    )
