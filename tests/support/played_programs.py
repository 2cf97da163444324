"""Six programs, played without a process: each takes batches of records, and applies and commits them in its own way.

The result is what the verifier has in progress of such a program: the effects, the commits of its group, and the kill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Claim, Scenario
from delivery_verifier.run_directory.group_log import GroupLog
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.run_directory.tables import ANOMALIES
from support.applications import application
from support.evidence import EFFECT_AT, HEALED, RECOVERED, SUBJECT, Rows, a_scenario, evidence_of, setting, with_arm

PARTITIONS, RECORDS, PART, BATCH_US = 3, 400, 10, 250_000
"""Partitions; records of each; records of each in a batch; and the time from one batch to the next."""
KILLED_IN = 20
"""The kill falls into this batch or a later one."""
Place = tuple[int, int]
"""A partition and an offset."""
Action = tuple[str, Any]
"""Either `apply` with a place, or `commit` with the offsets by partition."""
Program = Callable[[Iterator[list[Place]]], Iterator[Action]]


def _applied(places: Sequence[Place]) -> Iterator[Action]:
    yield from (("apply", place) for place in places)


def _ends(batch: Sequence[Place]) -> Action:
    return "commit", {partition: offset + 1 for partition, offset in batch}


def honest(batches: Iterator[list[Place]]) -> Iterator[Action]:
    for batch in batches:
        yield from _applied(batch)
        yield _ends(batch)


def ahead(batches: Iterator[list[Place]]) -> Iterator[Action]:
    buffer = list[Place]()
    for number, batch in enumerate(batches):
        buffer += batch
        yield _ends(batch)
        if number % 4 == 3:
            yield from _applied(buffer)
            buffer = []
    yield from _applied(buffer)


def timer(batches: Iterator[list[Place]]) -> Iterator[Action]:
    batch = list[Place]()
    for number, batch in enumerate(batches):
        if number % 4 == 3:
            yield _ends(batch)
        yield from _applied(batch)
    if batch:
        yield _ends(batch)


def gap(batches: Iterator[list[Place]]) -> Iterator[Action]:
    for batch in batches:
        slow = [place for place in batch if place[1] % PART == 5]
        yield from _applied([place for place in batch if place not in slow])
        yield _ends(batch)
        yield from _applied(slow)


def swallow(batches: Iterator[list[Place]]) -> Iterator[Action]:
    for batch in batches:
        yield from _applied([place for place in batch if place[1] % 97 != 96])
        yield _ends(batch)


def one_partition(batches: Iterator[list[Place]]) -> Iterator[Action]:
    for number, batch in enumerate(batches):
        yield from _applied(batch)
        last = number // 5 % PARTITIONS
        yield _ends([place for place in batch if place[0] == last])
    yield from (("commit", {partition: RECORDS}) for partition in range(PARTITIONS))


PROGRAMS: dict[str, Program] = {
    program.__name__: program for program in (honest, ahead, timer, gap, swallow, one_partition)
}
LOSING = (ahead, timer, gap)
"""The programs that lose records only when they are killed."""


@dataclass
class Played:
    """A program that was played. `applied`: how often each record was applied. `commits`: (time in µs, partition,
    offset). `kill_us`: when it was killed, with `in_progress` records."""

    applied: Counter[Place] = field(default_factory=Counter)
    commits: list[tuple[int, int, int]] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    kill_us: int | None = None
    in_progress: int = 0
    at_us: int = 0

    def live(self, program: Program, *, is_killed: bool) -> None:
        """Plays one incarnation of the program, from what its group has committed to the end or to the kill."""
        begun, incarnation = dict(self.committed), Counter[Place]()
        for action, what in program(self._batches()):
            if action == "apply":
                incarnation[what] += 1
                self.applied[what] += 1
            else:
                self.at_us += 1000
                self.commits += [(self.at_us, partition, offset) for partition, offset in what.items()]
                self.committed |= what
            if is_killed and self.at_us >= EFFECT_AT and self._is_worst(program, begun, incarnation):
                self.kill_us = self.at_us + 1000
                return

    def _batches(self) -> Iterator[list[Place]]:
        first = min(self.committed.values())
        for start in range(first, RECORDS, PART):
            self.at_us = EFFECT_AT + (start // PART - KILLED_IN) * BATCH_US + (3_000_000 if self.kill_us else 0)
            yield [
                (partition, offset)
                for partition in range(PARTITIONS)
                for offset in range(start, start + PART)
                if offset >= self.committed[partition]
            ]

    def _is_worst(self, program: Program, begun: dict[int, int], incarnation: Counter[Place]) -> bool:
        """Notes what is in progress. Returns whether this is the moment for the kill: if the program may lose
        something, when it has committed what it has not applied."""
        done = set(self.applied)
        committed = {(number, offset) for number, end in self.committed.items() for offset in range(begun[number], end)}
        behind = {place for place in incarnation if place[1] >= self.committed[place[0]]}
        self.in_progress = len(committed - done) + len(behind)
        return bool(committed - done) if program in LOSING else len(behind) > 2 * PART


def play(name: str, *, is_killed: bool) -> Played:
    """Plays a program that is killed and started again, or only stopped at the end."""
    played = Played()
    played.live(PROGRAMS[name], is_killed=is_killed)
    if is_killed:
        assert played.kill_us is not None, "there was no moment for the kill"
        played.live(PROGRAMS[name], is_killed=False)
    return played


def evidence(name: str, *, is_killed: bool, claim: Claim) -> Any:
    """Returns the evidence of a run in which the program was played."""
    played = play(name, is_killed=is_killed)
    return evidence_of(
        _scenario(claim),
        lambda rows: _count(rows, played),
        injections=_injections(played),
        cases=pa.Table.from_pylist(list(_cases(played)), schema=arrow_schema(ANOMALIES)),
        group_log=_group_log(played),
    )


def _scenario(claim: Claim) -> Scenario:
    made = with_arm(a_scenario(fault="none"), SUBJECT, application=application("own"), claim=claim)
    return replace(made, arms=tuple(arm for arm in made.arms if arm.role != "control"))


def _kind(played: Played, place: Place) -> str:
    return {0: "SKIPPED", 1: ""}.get(played.applied[place], "REAPPLIED")


def _places() -> list[Place]:
    return [(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)]


def _count(rows: Rows, played: Played) -> None:
    for partition in range(PARTITIONS):
        counts = Counter(_kind(played, place) for place in _places() if place[0] == partition)
        for column in ("skipped", "reapplied"):
            setting("counts/producers.parquet", column, counts[column.upper()], arm=SUBJECT, partition=partition)(rows)
        setting("counts/effects.parquet", "applied", RECORDS - counts["SKIPPED"], arm=SUBJECT, partition=partition)(
            rows
        )
    rows["counts/exposure.parquet"] += [{"arm": SUBJECT, "injection": 1, "reported": 150, "outstanding": 0}]


def _cases(played: Played) -> Iterator[dict[str, Any]]:
    for sequence, place in enumerate(_places()):
        if not (kind := _kind(played, place)):
            continue
        sent_us = EFFECT_AT + (place[1] // PART - KILLED_IN) * BATCH_US - 100_000
        moment = datetime.fromtimestamp(sent_us / 1e6, UTC)
        incarnations = ", ".join(
            f"by member 0 in incarnation {incarnation}" for incarnation in range(played.applied[place])
        )
        detail = (
            f"in the log at {place[0]}:{place[1]}; {f'applied {incarnations}' if incarnations else 'never applied'}"
        )
        yield {
            "arm": SUBJECT,
            "kind": kind,
            "also": [],
            "producer": 0,
            "session": 0,
            "sequence": sequence,
            "attempt": 0,
            "partition": place[0],
            "outcome": "ACKED",
            "acked_offset": place[1],
            "offsets": [place[1]],
            "sent_at": moment,
            "settled_at": moment,
            "detail": detail,
        }


def _injections(played: Played) -> list[Injection]:
    if played.kill_us is None:
        return []
    (arm,) = _scenario("contract").loaded
    return [
        Injection(
            id=1,
            cycle=0,
            action="kill_application",
            brokers=[],
            hit={arm.topic_name: list(range(PARTITIONS))},
            requested_at_us=played.kill_us,
            effect_at_us=played.kill_us,
            healed_at_us=HEALED,
            recovered_at_us=RECOVERED,
            took_effect=True,
            proof={"process": {f"in progress of {arm.name}": played.in_progress}},
        )
    ]


def _group_log(played: Played) -> GroupLog:
    (arm,) = _scenario("contract").loaded
    commits = [
        {"arm": arm.name, "topic": arm.topic_name, "partition": partition, "offset": offset, "at": at_us}
        | {"log_partition": 1, "log_offset": 10 + number, "committed": True, "transactional": False}
        for number, (at_us, partition, offset) in enumerate(played.commits)
    ]
    member = {"arm": arm.name, "generation": 1, "member_id": "sink-7f", "client_id": "sink", "at": 0}
    positions = [
        {"arm": arm.name, "partition": partition, "position": offset, "removed": 0}
        for partition, offset in played.committed.items()
    ]
    generation = member | {"log_partition": 1, "log_offset": 0, "assigned": list(range(PARTITIONS))}
    return GroupLog(commits, [generation], positions, [])
