"""Tests of the group log: each way in which `__consumer_offsets` can differ from the journals of the members is a
doubt, and an application whose commits agree with it has none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.applications import application
from support.evidence import SUBJECT, a_scenario, arm, doubts, evidence_of, judged, with_arm
from support.run_builder import RunBuilder

from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.effect_tables import JOURNAL
from delivery_verifier.run_directory.group_log import GroupLog, last_commits, last_positions, read_group_log
from delivery_verifier.run_directory.group_log_tables import COMMITS, GENERATIONS, POSITIONS
from delivery_verifier.run_directory.run_directory import IncompleteRun
from delivery_verifier.run_directory.table import Table, arrow_schema
from delivery_verifier.verdict.group_log import _Sendable, differences

TOPIC = a_scenario().arm(SUBJECT).topic_name
Row = dict[str, Any]
Change = Callable[[GroupLog], object]


def applied_by(discipline: Discipline) -> Scenario:
    return with_arm(a_scenario(fault="none"), SUBJECT, application=application(discipline))


def commit(partition: int, offset: int | None, log_offset: int, **more: Any) -> Row:
    row = {"arm": SUBJECT, "topic": TOPIC, "partition": partition, "offset": offset, "leader_epoch": 0, "metadata": ""}
    place = {"at": log_offset * 1000, "log_partition": 1, "log_offset": log_offset}
    return row | place | {"transactional": False, "committed": True} | more


def event(what: str, partition: int = -1, first: int = -1, until: int = -1, **more: Any) -> Row:
    row = {"arm": SUBJECT, "member": 0, "incarnation": 0, "at": 1000, "what": what, "batch": 0, "partition": partition}
    return row | {"first": first, "until": until, "answer": None} | more


def client(client_id: str | None) -> Row:
    row = {"arm": SUBJECT, "generation": 1, "member_id": client_id, "client_id": client_id, "at": 1000}
    return row | {"log_partition": 1, "log_offset": 0}


def of_batches(what: str) -> GroupLog:
    """Returns the group log of a member with three partitions, which were handed over in two batches. `what` is what
    the journal calls the commit of a batch; none if it is empty."""
    rows = GroupLog([], [client(None), client(f"{SUBJECT}-member-0")], [], [event("assigned", at) for at in range(3)])
    for partition in range(3):
        for first, until in ((0, 390), (390, 402)):
            rows.journal.append(event("handed_over", partition, first, until))
            rows.journal.extend([event(what, partition, until=until)] if what else [])
            rows.commits.append(commit(partition, until, len(rows.commits)))
        rows.positions.append({"arm": SUBJECT, "partition": partition, "position": 402, "removed": 0})
    rows.journal.append(event("closed"))
    return rows


ALIKE: list[tuple[Discipline, str]] = [
    ("at_handover", ""),
    ("store_after", ""),
    ("commit_first", "committed"),
    ("commit_after", "committed"),
    ("transform_transactional", "committed"),
    ("database_together", "reported"),
]


def judged_with(discipline: Discipline, group_log: GroupLog | None, **more: Any) -> set[tuple[str, str]]:
    return doubts(judged(evidence_of(applied_by(discipline), group_log=group_log, **more)))


@pytest.mark.parametrize(("discipline", "what"), ALIKE)
def test_a_group_log_that_agrees_with_the_journal_leaves_no_doubt(discipline: Discipline, what: str) -> None:
    assert judged_with(discipline, of_batches(what)) == judged_with(discipline, None)


def remove_first(group_log: GroupLog) -> None:
    del group_log.commits[0]


def remove_last(group_log: GroupLog) -> None:
    del group_log.commits[-1]


def abort(group_log: GroupLog) -> None:
    group_log.commits[0]["committed"] = False


def alter(group_log: GroupLog) -> None:
    group_log.commits[0]["offset"] = 389


def go_beyond(group_log: GroupLog) -> None:
    group_log.commits[0]["offset"] = 403


def add(group_log: GroupLog) -> None:
    group_log.commits.insert(0, commit(0, 17, 90))


def add_other_topic(group_log: GroupLog) -> None:
    group_log.commits.append(commit(0, 402, 90, topic="other"))


def add_removal(group_log: GroupLog) -> None:
    group_log.commits.insert(0, commit(0, None, 90))


def add_client(group_log: GroupLog) -> None:
    group_log.generations.append(client("rdkafka"))


def answer(group_log: GroupLog) -> None:
    group_log.positions[1]["position"] = 390


def ask_less(group_log: GroupLog) -> None:
    del group_log.positions[1]


UNAVAILABLE_HERE, FOREIGN_WRITER, DISAGREES = (
    "group_log_lacks_commit",
    "group_log_foreign_writer",
    "group_log_disagrees",
)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (remove_first, {UNAVAILABLE_HERE}),
        (remove_last, {UNAVAILABLE_HERE, DISAGREES}),
        (abort, {UNAVAILABLE_HERE}),
        (alter, {UNAVAILABLE_HERE, FOREIGN_WRITER}),
        (add, {FOREIGN_WRITER}),
        (add_other_topic, {FOREIGN_WRITER}),
        (add_removal, {FOREIGN_WRITER}),
        (add_client, {FOREIGN_WRITER}),
        (answer, {DISAGREES}),
        (ask_less, {DISAGREES}),
    ],
)
def test_each_difference_is_a_doubt_and_no_verdict(change: Change, names: set[str]) -> None:
    group_log = of_batches("committed")
    change(group_log)
    verdict = judged(evidence_of(applied_by("commit_after"), group_log=group_log))
    assert {name for kind, name in doubts(verdict) if kind == "checker"} == names
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert names <= ADVICE.keys()


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (alter, set()),
        (remove_first, set()),
        (go_beyond, {FOREIGN_WRITER}),
        (add_client, {FOREIGN_WRITER}),
        (answer, {DISAGREES}),
    ],
)
def test_a_timer_may_commit_within_what_was_handed_over(change: Change, names: set[str]) -> None:
    group_log = of_batches("")
    change(group_log)
    assert {name for _, name in judged_with("at_handover", group_log)} == names


def test_a_member_that_was_killed_may_have_been_handed_more_than_its_journal_tells() -> None:
    group_log = of_batches("")
    group_log.journal.remove(event("handed_over", 0, 390, 402))
    assert judged_with("at_handover", group_log) == {("checker", FOREIGN_WRITER)}
    group_log.journal.remove(event("closed"))
    assert judged_with("at_handover", group_log) == set()
    group_log.commits[1]["offset"] = group_log.positions[0]["position"] = 403  # behind the end of the log
    assert judged_with("at_handover", group_log) == {("checker", FOREIGN_WRITER)}


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_replacement_is_a_member_of_the_group_only_where_the_plan_freezes_members(is_frozen: bool) -> None:
    freeze = FaultStep(trigger=Trigger(kind="at_once"), action="freeze_application", target="none")
    plan = FaultPlan(name="frozen", summary="", steps=(freeze,) if is_frozen else ())
    group_log = of_batches("committed")
    group_log.generations.append(client(f"{SUBJECT}-member-1"))
    scenario = msgspec.structs.replace(applied_by("commit_after"), fault=plan)
    ends = {(SUBJECT, partition): 402 for partition in range(3)}
    names = {name for _, name, _ in differences(scenario, group_log, ends, is_rewound=False)}
    assert names == (set() if is_frozen else {"group_log_foreign_writer"})


def test_a_rewind_explains_a_commit_of_offset_zero_and_no_other() -> None:
    group_log = of_batches("committed")
    group_log.commits.insert(0, commit(0, 0, 90))
    rewind = Injection(
        id=1,
        cycle=0,
        action="rewind",
        brokers=[],
        hit={},
        requested_at_us=1,
        effect_at_us=2,
        healed_at_us=3,
        took_effect=True,
    )
    assert ("checker", FOREIGN_WRITER) in judged_with("commit_after", group_log)
    assert ("checker", FOREIGN_WRITER) not in judged_with("commit_after", group_log, injections=[rewind])
    add(group_log)
    assert ("checker", FOREIGN_WRITER) in judged_with("commit_after", group_log, injections=[rewind])


def test_an_answer_that_was_an_error_demands_no_commit() -> None:
    group_log = of_batches("committed")
    refused = group_log.journal.index(event("committed", 0, until=390))
    group_log.journal[refused]["answer"] = "REBALANCE_IN_PROGRESS"
    remove_first(group_log)
    assert judged_with("commit_after", group_log) == set()


def test_of_a_compacted_log_only_the_last_commits_are_demanded() -> None:
    group_log = of_batches("committed")
    for row in group_log.positions:
        row["removed"] = 3
    remove_first(group_log)
    assert judged_with("commit_after", group_log) == set()
    remove_last(group_log)
    assert judged_with("commit_after", group_log) == {("checker", DISAGREES)}


def test_an_own_application_keeps_no_journal_and_only_its_last_commits_are_compared() -> None:
    group_log = of_batches("")
    group_log.journal.clear()
    add(group_log)
    add_client(group_log)
    assert not {name for _, name in judged_with("own", group_log)} & {UNAVAILABLE_HERE, FOREIGN_WRITER, DISAGREES}
    answer(group_log)
    assert ("checker", DISAGREES) in judged_with("own", group_log)


def test_the_last_commit_of_a_partition_is_the_last_that_counts() -> None:
    rows = [commit(0, 5, 1), commit(0, 9, 2, committed=False), commit(1, 5, 3), commit(1, None, 4), commit(2, 7, 5)]
    assert last_commits(rows) == {(SUBJECT, 0): 5, (SUBJECT, 2): 7}


def write(folder: Path, table: Table, rows: list[Row], name: str = "") -> None:
    file = folder / (name or table.file)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(table)), file)


def test_the_tables_are_read_back_and_a_run_that_lacks_one_has_no_verdict(tmp_path: Path) -> None:
    run, group_log = RunBuilder(applied_by("commit_after")).at(tmp_path), of_batches("committed")
    with run.writing("settle") as output:
        for table, rows in zip((COMMITS, GENERATIONS, POSITIONS), group_log, strict=False):
            write(output.staging, table, rows)
        write(output.staging, JOURNAL, group_log.journal, "journal/subject.parquet")
    read = read_group_log(run)
    assert last_commits(read.commits) == last_positions(run)
    assert last_positions(run) == {(SUBJECT, partition): 402 for partition in range(3)}
    assert (len(read.journal), read.positions) == (len(group_log.journal), group_log.positions)
    (tmp_path / COMMITS.file).unlink()
    with pytest.raises(IncompleteRun, match=r"group_log/commits\.parquet is missing"):
        read_group_log(run)
    assert last_positions(run) is None


# ---- At the edges: the first and the last offset of a batch, partitions without commits, and what a doubt names.


ENDS = {(SUBJECT, partition): 402 for partition in range(3)}


def details(group_log: GroupLog, discipline: Any = "commit_after") -> list[tuple[str, str]]:
    """Returns the name and the detail of each doubt about the subject."""
    found = differences(applied_by(discipline), group_log, ENDS, is_rewound=False)
    return [(name, detail.removeprefix(f"{SUBJECT}: ")) for _, name, detail in found]


def test_a_doubt_names_what_a_foreign_writer_sent_and_where_it_stands() -> None:
    group_log = of_batches("committed")
    group_log.commits[:0] = [commit(0, None, 90), commit(0, 17, 90)]
    place = f"of {TOPIC}/0, which stands in __consumer_offsets at 1:90"
    assert details(group_log) == [
        (FOREIGN_WRITER, f"no member sent the removal {place}"),
        (FOREIGN_WRITER, f"no member sent the commit of offset 17 {place}"),
    ]


def test_an_offset_behind_an_end_that_the_client_told_of_can_have_been_sent_by_its_timer_and_no_other() -> None:
    group_log = of_batches("")
    group_log.commits[1]["offset"] = group_log.positions[0]["position"] = 403
    beyond = f"no member sent the commit of offset 403 of {TOPIC}/0, which stands in __consumer_offsets at 1:1"
    assert details(group_log, "at_handover") == [(FOREIGN_WRITER, beyond)]
    group_log.journal.insert(-1, event("end", 1, 402))  # of another partition
    group_log.journal.insert(-1, event("end", 0, 401))
    assert details(group_log, "at_handover") == [(FOREIGN_WRITER, beyond)]
    group_log.journal.insert(-1, event("end", 0, 402))
    assert details(group_log, "at_handover") == []
    assert (FOREIGN_WRITER, beyond) in details(group_log, "commit_after"), "it commits by itself"


START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("client", "offset", "committed_ms", "is_sent"),
    [
        ("java", 0, 5, True),
        ("java", 0, 4, False),  # before the member had the partition
        ("java", 500, 9, False),  # within a life, the position is that behind a batch
        ("librdkafka", 0, 5, False),
    ],
)
def test_only_the_timer_of_the_java_client_commits_where_a_member_begins_and_only_once_it_has_the_partition(
    client: Any, offset: int, committed_ms: int, is_sent: bool
) -> None:
    journal = [event("assigned", 0), event("handed_over", 0, 0, 390), event("handed_over", 0, 500, 502)]
    journal = [{**row, "at": START + timedelta(milliseconds=5 + n, microseconds=7)} for n, row in enumerate(journal)]
    members = msgspec.structs.replace(application("at_handover"), client=client)
    sendable = _Sendable(members, [*journal, {**event("closed"), "at": START}], {0: 502}, is_rewound=False)
    assert sendable.has(0, offset, START + timedelta(milliseconds=committed_ms)) is is_sent
    assert sendable.has(0, 390, START), "it stands behind a batch"


def test_the_doubt_about_lacking_commits_names_the_first_of_them() -> None:
    group_log = of_batches("committed")
    del group_log.commits[:2]
    lacking = "2 accepted commits of partition 0 are not in __consumer_offsets, the first of offset 390"
    assert ("group_log_lacks_commit", lacking) in details(group_log)
    group_log.positions[2]["removed"] = 1  # the log of the group was compacted, whichever partition it was
    assert "group_log_lacks_commit" not in dict(details(group_log))


def test_a_partition_without_commits_is_at_offset_0_and_its_coordinator_must_say_so() -> None:
    group_log = of_batches("committed")
    group_log.commits[:] = [row for row in group_log.commits if row["partition"] != 1]
    group_log.positions[1] |= {"position": 0, "removed": 1}
    assert details(group_log) == []
    del group_log.positions[1]
    group_log.positions[0]["removed"] = 1
    silent = "the last commit of partition 1 is 0, and its coordinator answers -1"
    assert details(group_log) == [("group_log_disagrees", silent)]


def test_every_arm_with_an_application_is_compared_with_the_ends_of_its_own_topic() -> None:
    scenario = applied_by("at_handover")
    others = [msgspec.structs.replace(arm, application=None) for arm in scenario.loaded if arm.name != SUBJECT]
    scenario = msgspec.structs.replace(scenario, arms=[*others, scenario.arm(SUBJECT), scenario.canary])
    group_log = of_batches("")
    group_log.journal.remove(event("closed"))
    group_log.commits[1]["offset"] = group_log.positions[0]["position"] = 403
    for ends, names in ((402, [FOREIGN_WRITER]), (403, [])):
        of_all = {
            (arm.name, part): ends if arm.name == SUBJECT else 805 - ends
            for arm in scenario.loaded
            for part in range(3)
        }
        assert [name for _, name, _ in differences(scenario, group_log, of_all, is_rewound=False)] == names


OF_ONE_PARTITION: list[Row] = [
    event("assigned", 0),
    event("assigned", 1),
    event("handed_over", 0, 100, 390),
]
"""A member got a batch of partition 0, and none of partition 1."""


@pytest.mark.parametrize(
    ("partition", "offset", "is_closed", "sent"),
    [
        (0, 50, True, False),
        (0, 100, True, False),
        (0, 101, True, True),
        (0, 390, True, True),
        (0, 391, True, False),
        (0, 50, False, False),
        (0, 391, False, True),
        (0, 402, False, True),
        (0, 403, False, False),
        (1, 0, True, False),
        (1, 0, False, True),
        (1, 402, False, True),
        (1, 403, False, False),
        (2, 0, False, False),
    ],
)
def test_a_timer_may_commit_behind_each_record_that_was_handed_over_or_may_have_been(
    partition: int, offset: int, is_closed: bool, sent: bool
) -> None:
    journal = [*OF_ONE_PARTITION, *([event("closed")] if is_closed else [])]
    ends = {at: 402 for (_, at) in ENDS}
    assert _Sendable(application("at_handover"), journal, ends, is_rewound=False).has(partition, offset, START) is sent


def test_of_a_partition_whose_end_nobody_knows_a_timer_may_commit_offset_0_alone() -> None:
    sendable = _Sendable(application("at_handover"), OF_ONE_PARTITION, {}, is_rewound=False)
    assert [sendable.has(1, offset, START) for offset in (0, 1)] == [True, False]


def test_a_commit_without_an_offset_is_sent_by_nobody() -> None:
    sendable = _Sendable(application("at_handover"), OF_ONE_PARTITION, {0: 402}, is_rewound=True)
    assert not sendable.has(0, None, START) and sendable.has(0, 0, START)
