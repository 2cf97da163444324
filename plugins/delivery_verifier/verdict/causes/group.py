"""The history of one consumer group: its commits and members, as the brokers wrote them down, the kills and rewinds of
the fault plan, and the end of the members after the load. All times are µs since the epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate, pairwise
from statistics import median
from typing import Any, NamedTuple

from delivery_verifier.model.history import Injection

Row = dict[str, Any]
TIMER_LEAST_S, TIMER_COMMITS, TIMER_SHARE, TIMER_SPREAD = 0.4, 5, 0.6, 1.25
"""Commits look like those of a timer if at least TIMER_LEAST_S seconds usually pass from one to the next, at least
TIMER_COMMITS times, and if TIMER_SHARE of these times differ from their median by the factor TIMER_SPREAD at most. The
others may be longer, e.g. while the verifier freezes the program to look for the moment of the kill."""


class Commit(NamedTuple):
    """One commit. `position`: its offset in `__consumer_offsets`."""

    partition: int
    offset: int
    at_us: int
    position: int


class End(NamedTuple):
    """An end of all members. `is_kill`: whether the plan killed them. If not, the verifier stopped them after the load,
    in an orderly way; `at_us` is then a time at which they had ended, and had not begun again."""

    at_us: int
    is_kill: bool

    @property
    def in_words(self) -> str:
        """When it was, as the beginning of a sentence."""
        return f"At the kill at {clock(self.at_us)}" if self.is_kill else "When it was stopped after the load (SIGTERM)"


class Member(NamedTuple):
    """A member of a generation, or (`generation` is -1) a member of a KIP-848 group. `position`: the offset of the
    record in `__consumer_offsets`. `assigned`: the member's partitions; None if they are not known."""

    generation: int
    name: str
    position: int
    at_us: int
    assigned: Sequence[int] | None


class _OfPartition(NamedTuple):
    """The commits of one partition, in the order of the log. `highest`: the highest offset committed up to each of
    them. `times_us`: their times."""

    commits: list[Commit]
    highest: list[int]
    times_us: list[int]


@dataclass(frozen=True)
class Group:
    """The history of a group. `commits` and `members` are in the order of the log, and `ends` in the order of time.
    `rewinds_us` are when the plan set the group back."""

    commits: list[Commit]
    members: list[Member]
    ends: list[End]
    rewinds_us: list[int]

    @classmethod
    def from_rows(
        cls,
        topic: str,
        commits: Iterable[Row],
        generations: Iterable[Row],
        injections: Iterable[Injection],
        stopped_us: int | None,
    ) -> Group:
        """Returns the history of a group that consumes `topic`. `commits` and `generations`: its rows of these tables
        of the group log. `stopped_us`: a time at which the members had been stopped after the load; None if it is not
        known."""
        own = [
            Commit(row["partition"], row["offset"], as_us(row["at"]), row["log_offset"])
            for row in commits
            if row["topic"] == topic and row["committed"] and row["offset"] is not None
        ]
        members = [
            Member(row["generation"], _name(row), row["log_offset"], as_us(row["at"]), row.get("assigned"))
            for row in generations
            if row["member_id"] is not None
        ]
        times = [(injection.action, injection.effect_at_us) for injection in injections]
        ends = [End(at_us, True) for action, at_us in times if action == "kill_application"]
        ends += [] if stopped_us is None else [End(stopped_us, False)]
        return cls(own, members, sorted(ends), [at_us for action, at_us in times if action == "rewind"])

    def first_beyond(self, partition: int, offset: int) -> Commit | None:
        """Returns the first commit of `partition` that covers `offset`. From then on, the group is not given the record
        at this offset any more."""
        own = self._of_partition(partition)
        index = bisect_right(own.highest, offset)
        return own.commits[index] if index < len(own.commits) else None

    def last_before(self, partition: int, at_us: int) -> Commit | None:
        """Returns the last commit of `partition` until `at_us`."""
        own = self._of_partition(partition)
        index = bisect_right(own.times_us, at_us)
        return own.commits[index - 1] if index else None

    def count(self, since_us: int, until_us: int) -> int:
        """Returns the number of commits after `since_us` and until `until_us`."""
        return bisect_right(self._times_us, until_us) - bisect_right(self._times_us, since_us)

    def _of_partition(self, partition: int) -> _OfPartition:
        return self._by_partition.get(partition, _OfPartition([], [], []))

    @cached_property
    def _by_partition(self) -> dict[int, _OfPartition]:
        commits = defaultdict[int, list[Commit]](list)
        for commit in self.commits:
            commits[commit.partition].append(commit)
        return {
            partition: _OfPartition(
                own, list(accumulate((each.offset for each in own), max)), [each.at_us for each in own]
            )
            for partition, own in commits.items()
        }

    @cached_property
    def _times_us(self) -> list[int]:
        return sorted(each.at_us for each in self.commits)

    def end_after(self, at_us: int) -> End | None:
        """Returns the first end of the members from `at_us` on."""
        return next((end for end in self.ends if end.at_us >= at_us), None)

    def kill_after(self, at_us: int) -> End | None:
        """Returns the first kill of the members from `at_us` on."""
        return next((end for end in self.ends if end.is_kill and end.at_us >= at_us), None)

    def by(self, commit: Commit) -> str:
        """Returns in words which member sent `commit`, with a space in front. It is the member that had the partition.
        Returns "" if nobody knows."""
        names = list(dict.fromkeys(self._members_at(commit)))
        if len(names) == 1:
            return f" by member {names[0]}"
        return f" by one of the members {', '.join(names)}" if names else ""

    def _members_at(self, commit: Commit) -> Iterable[str]:
        earlier = [each for each in self.members if each.position < commit.position]
        generations = [each for each in earlier if each.generation >= 0]
        if generations:  # of a classic group: the last generation before the commit
            last = [each for each in generations if each.position == generations[-1].position]
            owners = [each for each in last if each.assigned is not None and commit.partition in each.assigned]
            return [each.name for each in owners or last]
        ended_us = max((end.at_us for end in self.ends if end.at_us <= commit.at_us), default=0)
        return [each.name for each in earlier if each.at_us >= ended_us] or [each.name for each in earlier]

    @property
    def generations(self) -> int:
        """The number of generations with members."""
        return len({each.generation for each in self.members if each.generation >= 0})

    @property
    def timer_s(self) -> float | None:
        """The seconds from one commit to the next, if the commits come as regularly as those of a timer."""
        gaps_s = [(later - earlier) / 1e6 for earlier, later in pairwise(sorted(set(self._times_us)))]
        if len(gaps_s) < TIMER_COMMITS or (usual_s := median(gaps_s)) < TIMER_LEAST_S:
            return None
        regular = [gap_s for gap_s in gaps_s if usual_s / TIMER_SPREAD <= gap_s <= usual_s * TIMER_SPREAD]
        return usual_s if len(regular) >= TIMER_SHARE * len(gaps_s) else None

    @property
    def commits_one_by_one(self) -> bool:
        """Whether no request has committed several partitions. The commits of one request have the same time."""
        partitions = defaultdict[int, set[int]](set)
        for commit in self.commits:
            partitions[commit.at_us].add(commit.partition)
        return all(len(together) == 1 for together in partitions.values())


def as_us(moment: datetime | int) -> int:
    """Returns a time of the group log in µs since the epoch."""
    return moment if isinstance(moment, int) else round(moment.timestamp() * 1_000_000)


def clock(at_us: int) -> str:
    """Returns a time in words, e.g. `12:34:56.789 UTC`."""
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%H:%M:%S}.{at_us // 1000 % 1000:03} UTC"


def _name(row: Row) -> str:
    client = row["client_id"]
    is_said = not client or str(row["member_id"]).startswith(str(client))
    return str(row["member_id"]) if is_said else f"{row['member_id']} (client.id {client})"
