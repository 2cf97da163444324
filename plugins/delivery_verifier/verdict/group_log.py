"""Compares the group log with the journals. The group log is what the brokers wrote down of a consumer group. A journal
is what a member of the group wrote down.

All functions are pure. A difference is a doubt, and never a verdict: somebody else took part in the group, or the
journal or the group log is wrong. In each case nobody knows what the application under test did.

Members of a user application (a program of the user's own) keep no journal. So only the last commits of such an
application are checked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime

from delivery_verifier.model.application import STORED, TIMED, Application, member_client_id
from delivery_verifier.model.fault_plan import replacements_of
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.run_directory.group_log import GroupLog, Row, last_commits
from delivery_verifier.verdict.evidence import Evidence

NamedDetail = tuple[str, str]
"""The name and the detail of a doubt."""


def group_log_doubts(run: Evidence) -> Iterator[tuple[str, str, str]]:
    """Yields a doubt as (arm, name, detail) for each difference between the group log and the journals."""
    if run.group_log is not None:
        ends = {(part.arm, part.partition): part.live_end for part in run.offsets.partitions}
        is_rewound = any(injection.action == "rewind" for injection in run.injections)
        yield from differences(run.scenario, run.group_log, ends, is_rewound)


def differences(
    scenario: Scenario, group_log: GroupLog, live_ends: Mapping[tuple[str, int], int], is_rewound: bool
) -> Iterator[tuple[str, str, str]]:
    """Yields (arm, name, detail) for each difference between the group log and the journals.

    `live_ends` maps (arm, partition) to the offset at which the partition's log ends, behind all markers. `is_rewound`:
    whether an injection set groups back to offset 0.
    """
    for arm in scenario.loaded:
        if arm.application is None:
            continue
        of_arm = GroupLog(*([row for row in rows if row["arm"] == arm.name] for rows in group_log))
        doubts = [*_positions(scenario, arm, of_arm)]
        if arm.application.discipline != "own":
            ends = {partition: end for (name, partition), end in live_ends.items() if name == arm.name}
            sendable = _Sendable(arm.application, of_arm.journal, ends, is_rewound)
            doubts += [*_lacking(arm.application, of_arm), *_foreign_writers(scenario, arm, of_arm, sendable)]
        yield from ((arm.name, name, f"{arm.name}: {detail}") for name, detail in doubts)


def _positions(scenario: Scenario, arm: Arm, group_log: GroupLog) -> Iterator[NamedDetail]:
    """Yields a doubt for each partition whose last commit in the group log differs from the answer of the coordinator.

    Also yields a doubt for each partition about which the coordinator was not asked.
    """
    last = last_commits([row for row in group_log.commits if row["topic"] == arm.topic_name])
    answers = {row["partition"]: row["position"] for row in group_log.positions}
    for partition in range(scenario.load.partitions):
        committed, answer = last.get((arm.name, partition), 0), answers.get(partition, -1)
        if committed != answer:
            detail = f"the last commit of partition {partition} is {committed}, and its coordinator answers {answer}"
            yield "group_log_disagrees", detail


def _lacking(application: Application, group_log: GroupLog) -> Iterator[NamedDetail]:
    """Yields a doubt for each partition for which the group log lacks commits that the journal calls accepted.

    Yields nothing if the broker has compacted the log of the group. The log then has only the last commits, which
    `_positions` checks. The function overlooks commits that a client sends by its timer, because the client does not
    report these commits to the member.
    """
    if any(row["removed"] for row in group_log.positions):
        return
    what = "reported" if application.discipline in STORED else "committed"
    accepted = Counter(
        (row["partition"], row["until"]) for row in group_log.journal if row["what"] == what and row["answer"] is None
    )
    written = Counter((row["partition"], row["offset"]) for row in group_log.commits if row["committed"])
    missing = defaultdict[int, list[int]](list)
    for partition, offset in sorted((accepted - written).elements()):
        missing[partition].append(offset)
    for partition, offsets in missing.items():
        yield (
            "group_log_lacks_commit",
            f"{len(offsets)} accepted commits of partition {partition} are not in __consumer_offsets, the first of "
            f"offset {offsets[0]}",
        )


def _foreign_writers(scenario: Scenario, arm: Arm, group_log: GroupLog, sendable: _Sendable) -> Iterator[NamedDetail]:
    """Yields a doubt for each commit that neither a member nor a fault can have sent. Yields one more doubt if other
    clients than the members took part in the group."""
    for row in group_log.commits:
        if row["topic"] != arm.topic_name or not sendable.has(row["partition"], row["offset"], row["at"]):
            commit = "removal" if row["offset"] is None else f"commit of offset {row['offset']}"
            detail = f"no member sent the {commit} of {row['topic']}/{row['partition']}, which stands in"
            location = f"{row['log_partition']}:{row['log_offset']}"
            yield "group_log_foreign_writer", f"{detail} __consumer_offsets at {location}"
    assert arm.application is not None, "only an application has a group"
    numbers = (*range(arm.application.members), *replacements_of(scenario.fault, arm.application))
    members = {member_client_id(arm.name, number) for number in numbers}
    clients = {row["client_id"] for row in group_log.generations if row["client_id"] is not None}
    if foreign_writers := sorted(clients - members):
        yield (
            "group_log_foreign_writer",
            (f"clients that are no members took part in its group: {', '.join(foreign_writers)}"),
        )


class _Sendable:
    """The commits that the members of an arm and the fault plan can have sent, according to the members' `journal`.

    * A member that commits by itself commits the offset after the last record of a batch.
    * A client that commits by its timer may commit the offset after any record that it has handed over. If its member
      did not end in an orderly way, the client may have handed over records that are not in the journal yet. A client
      that has told its member of the end of a partition may commit the offset behind that end (librdkafka issue 4844).
      The timer of the Java client commits its position. So once a member has a partition, the offset at which it
      begins there may be committed, too: what stood there before is of somebody else, or was committed already.
    * A rewind commits offset 0.

    `live_ends` maps each partition to the offset at which its log ends.
    """

    def __init__(
        self, application: Application, journal: list[Row], live_ends: Mapping[int, int], is_rewound: bool
    ) -> None:
        self._is_rewound, self._live_ends = is_rewound, live_ends
        self._by_timer, _ = TIMED[application.discipline]
        self._begins = list(_begins(journal)) if application.client == "java" else []
        batches = [row for row in journal if row["what"] == "handed_over"]
        self._batches = {(row["partition"], row["until"]) for row in batches}
        self._ranges = {(row["partition"], row["first"], row["until"]) for row in batches}
        self._behind_ends = {(row["partition"], row["first"] + 1) for row in journal if row["what"] == "end"}
        closed = {(row["member"], row["incarnation"]) for row in journal if row["what"] == "closed"}
        ends = {
            (row["member"], row["incarnation"], row["partition"]): -1 if row["what"] == "assigned" else row["until"]
            for row in journal
            if row["what"] in ("assigned", "handed_over")
        }
        self._cut_short = [(key[2], until) for key, until in ends.items() if key[:2] not in closed]

    def has(self, partition: int, offset: int | None, written_at: datetime) -> bool:
        """Returns whether a commit of `offset` can have been sent. If `offset` is None, the commit removes the stored
        offset. Nobody sends a removal, so the result is then False."""
        if offset is None:
            return False
        if (self._is_rewound and offset == 0) or (partition, offset) in self._batches:
            return True
        if not self._by_timer:
            return False
        live_end = self._live_ends.get(partition, 0)
        return (
            (partition, offset) in self._behind_ends
            or any(number == partition and first < offset <= until for number, first, until in self._ranges)
            or any(begin[:2] == (partition, offset) and begin[2] <= written_at for begin in self._begins)
            or any(number == partition and until < offset <= live_end for number, until in self._cut_short)
        )


def _begins(journal: list[Row]) -> Iterator[tuple[int, int, datetime]]:
    """Yields (partition, offset, time) for each first batch of a member behind an assignment: the offset of its first
    record, and the time from which the member had the partition. Brokers write times in ms."""
    assigned = dict[tuple[int, int, int], datetime]()
    for row in sorted(journal, key=lambda row: row["at"]):
        key = row["member"], row["incarnation"], row["partition"]
        if row["what"] == "assigned":
            assigned[key] = row["at"].replace(microsecond=row["at"].microsecond // 1000 * 1000)
        elif row["what"] == "handed_over" and key in assigned:
            yield row["partition"], row["first"], assigned.pop(key)
