"""Tests of the witness: each way in which `__consumer_offsets` can differ from the journals of the members is a doubt,
and an application whose commits agree with it has none."""

from __future__ import annotations

from collections.abc import Callable
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
from delivery_verifier.judgement.witness import _Sendable, differences
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.store.effect_tables import JOURNAL
from delivery_verifier.store.run_directory import IncompleteRun
from delivery_verifier.store.table import Table, arrow_schema
from delivery_verifier.store.witness import Witness, last_commits, last_positions, read_witness
from delivery_verifier.store.witness_tables import COMMITS, GENERATIONS, POSITIONS

TOPIC = a_scenario().arm(SUBJECT).topic_name
Row = dict[str, Any]
Change = Callable[[Witness], object]


def applied_by(discipline: Discipline) -> Scenario:
    return with_arm(a_scenario(fault="none"), SUBJECT, application=application(discipline))


def commit(partition: int, offset: int | None, log_offset: int, **more: Any) -> Row:
    row = {"arm": SUBJECT, "topic": TOPIC, "partition": partition, "offset": offset, "leader_epoch": 0, "metadata": ""}
    place = {"at": log_offset * 1000, "log_partition": 1, "log_offset": log_offset}
    return row | place | {"transactional": False, "committed": True} | more


def event(what: str, partition: int = -1, first: int = -1, until: int = -1, **more: Any) -> Row:
    row = {"arm": SUBJECT, "member": 0, "life": 0, "at": 1000, "what": what, "batch": 0, "partition": partition}
    return row | {"first": first, "until": until, "answer": None} | more


def client(client_id: str | None) -> Row:
    row = {"arm": SUBJECT, "generation": 1, "member_id": client_id, "client_id": client_id, "at": 1000}
    return row | {"log_partition": 1, "log_offset": 0}


def of_batches(what: str) -> Witness:
    """Returns the witness of a member with three partitions, which were handed over in two batches. `what` is what the
    journal calls the commit of a batch; none if it is empty."""
    rows = Witness([], [client(None), client(f"{SUBJECT}-member-0")], [], [event("assigned", at) for at in range(3)])
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


def judged_with(discipline: Discipline, witness: Witness | None, **more: Any) -> set[tuple[str, str]]:
    return doubts(judged(evidence_of(applied_by(discipline), witness=witness, **more)))


@pytest.mark.parametrize(("discipline", "what"), ALIKE)
def test_a_witness_that_agrees_with_the_journal_leaves_no_doubt(discipline: Discipline, what: str) -> None:
    assert judged_with(discipline, of_batches(what)) == judged_with(discipline, None)


def remove_first(witness: Witness) -> None:
    del witness.commits[0]


def remove_last(witness: Witness) -> None:
    del witness.commits[-1]


def abort(witness: Witness) -> None:
    witness.commits[0]["committed"] = False


def alter(witness: Witness) -> None:
    witness.commits[0]["offset"] = 389


def go_beyond(witness: Witness) -> None:
    witness.commits[0]["offset"] = 403


def add(witness: Witness) -> None:
    witness.commits.insert(0, commit(0, 17, 90))


def add_other_topic(witness: Witness) -> None:
    witness.commits.append(commit(0, 402, 90, topic="other"))


def add_removal(witness: Witness) -> None:
    witness.commits.insert(0, commit(0, None, 90))


def add_client(witness: Witness) -> None:
    witness.generations.append(client("rdkafka"))


def answer(witness: Witness) -> None:
    witness.positions[1]["position"] = 390


def ask_less(witness: Witness) -> None:
    del witness.positions[1]


LACKS, STRANGER, DISAGREES = "witness_lacks_commit", "witness_stranger", "witness_disagrees"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (remove_first, {LACKS}),
        (remove_last, {LACKS, DISAGREES}),
        (abort, {LACKS}),
        (alter, {LACKS, STRANGER}),
        (add, {STRANGER}),
        (add_other_topic, {STRANGER}),
        (add_removal, {STRANGER}),
        (add_client, {STRANGER}),
        (answer, {DISAGREES}),
        (ask_less, {DISAGREES}),
    ],
)
def test_each_difference_is_a_doubt_and_no_verdict(change: Change, names: set[str]) -> None:
    witness = of_batches("committed")
    change(witness)
    verdict = judged(evidence_of(applied_by("commit_after"), witness=witness))
    assert {name for kind, name in doubts(verdict) if kind == "checker"} == names
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert names <= ADVICE.keys()


@pytest.mark.parametrize(
    ("change", "names"),
    [(alter, set()), (remove_first, set()), (go_beyond, {STRANGER}), (add_client, {STRANGER}), (answer, {DISAGREES})],
)
def test_a_timer_may_commit_within_what_was_handed_over(change: Change, names: set[str]) -> None:
    witness = of_batches("")
    change(witness)
    assert {name for _, name in judged_with("at_handover", witness)} == names


def test_a_member_that_was_killed_may_have_been_handed_more_than_its_journal_tells() -> None:
    witness = of_batches("")
    witness.journal.remove(event("handed_over", 0, 390, 402))
    assert judged_with("at_handover", witness) == {("checker", STRANGER)}
    witness.journal.remove(event("closed"))
    assert judged_with("at_handover", witness) == set()
    witness.commits[1]["offset"] = witness.positions[0]["position"] = 403  # behind the end of the log
    assert judged_with("at_handover", witness) == {("checker", STRANGER)}


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_substitute_is_a_member_of_the_group_only_where_the_plan_freezes_members(is_frozen: bool) -> None:
    freeze = FaultStep(trigger=Trigger(kind="at_once"), action="freeze_application", target="none")
    plan = FaultPlan(name="frozen", summary="", steps=(freeze,) if is_frozen else ())
    witness = of_batches("committed")
    witness.generations.append(client(f"{SUBJECT}-member-1"))
    scenario = msgspec.structs.replace(applied_by("commit_after"), fault=plan)
    ends = {(SUBJECT, partition): 402 for partition in range(3)}
    names = {name for _, name, _ in differences(scenario, witness, ends, is_rewound=False)}
    assert names == (set() if is_frozen else {"witness_stranger"})


def test_a_rewind_explains_a_commit_of_offset_zero_and_no_other() -> None:
    witness = of_batches("committed")
    witness.commits.insert(0, commit(0, 0, 90))
    rewind = Injection(
        id=1, cycle=0, action="rewind", brokers=[], hit={}, requested_at_us=1, bite_at_us=2, healed_at_us=3, bit=True
    )
    assert ("checker", STRANGER) in judged_with("commit_after", witness)
    assert ("checker", STRANGER) not in judged_with("commit_after", witness, injections=[rewind])
    add(witness)
    assert ("checker", STRANGER) in judged_with("commit_after", witness, injections=[rewind])


def test_an_answer_that_was_an_error_demands_no_commit() -> None:
    witness = of_batches("committed")
    refused = witness.journal.index(event("committed", 0, until=390))
    witness.journal[refused]["answer"] = "REBALANCE_IN_PROGRESS"
    remove_first(witness)
    assert judged_with("commit_after", witness) == set()


def test_of_a_compacted_log_only_the_last_commits_are_demanded() -> None:
    witness = of_batches("committed")
    for row in witness.positions:
        row["removed"] = 3
    remove_first(witness)
    assert judged_with("commit_after", witness) == set()
    remove_last(witness)
    assert judged_with("commit_after", witness) == {("checker", DISAGREES)}


def test_an_own_application_keeps_no_journal_and_only_its_last_commits_are_compared() -> None:
    witness = of_batches("")
    witness.journal.clear()
    add(witness)
    add_client(witness)
    assert not {name for _, name in judged_with("own", witness)} & {LACKS, STRANGER, DISAGREES}
    answer(witness)
    assert ("checker", DISAGREES) in judged_with("own", witness)


def test_the_last_commit_of_a_partition_is_the_last_that_counts() -> None:
    rows = [commit(0, 5, 1), commit(0, 9, 2, committed=False), commit(1, 5, 3), commit(1, None, 4), commit(2, 7, 5)]
    assert last_commits(rows) == {(SUBJECT, 0): 5, (SUBJECT, 2): 7}


def write(folder: Path, table: Table, rows: list[Row], name: str = "") -> None:
    file = folder / (name or table.file)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(table)), file)


def test_the_tables_are_read_back_and_a_run_that_lacks_one_has_no_verdict(tmp_path: Path) -> None:
    run, witness = RunBuilder(applied_by("commit_after")).at(tmp_path), of_batches("committed")
    with run.writing("settle") as output:
        for table, rows in zip((COMMITS, GENERATIONS, POSITIONS), witness, strict=False):
            write(output.staging, table, rows)
        write(output.staging, JOURNAL, witness.journal, "journal/subject.parquet")
    read = read_witness(run)
    assert last_commits(read.commits) == last_positions(run)
    assert last_positions(run) == {(SUBJECT, partition): 402 for partition in range(3)}
    assert (len(read.journal), read.positions) == (len(witness.journal), witness.positions)
    (tmp_path / COMMITS.file).unlink()
    with pytest.raises(IncompleteRun, match=r"witness/commits\.parquet is missing"):
        read_witness(run)
    assert last_positions(run) is None


# ---- At the edges: the first and the last offset of a batch, partitions without commits, and what a doubt names.


ENDS = {(SUBJECT, partition): 402 for partition in range(3)}


def details(witness: Witness, discipline: Any = "commit_after") -> list[tuple[str, str]]:
    """Returns the name and the detail of each doubt about the subject."""
    found = differences(applied_by(discipline), witness, ENDS, is_rewound=False)
    return [(name, detail.removeprefix(f"{SUBJECT}: ")) for _, name, detail in found]


def test_a_doubt_names_what_a_stranger_sent_and_where_it_stands() -> None:
    witness = of_batches("committed")
    witness.commits[:0] = [commit(0, None, 90), commit(0, 17, 90)]
    place = f"of {TOPIC}/0, which stands in __consumer_offsets at 1:90"
    assert details(witness) == [
        (STRANGER, f"no member sent the removal {place}"),
        (STRANGER, f"no member sent the commit of offset 17 {place}"),
    ]


def test_the_doubt_about_lacking_commits_names_the_first_of_them() -> None:
    witness = of_batches("committed")
    del witness.commits[:2]
    lacking = "2 accepted commits of partition 0 are not in __consumer_offsets, the first of offset 390"
    assert ("witness_lacks_commit", lacking) in details(witness)
    witness.positions[2]["removed"] = 1  # the log of the group was compacted, whichever partition it was
    assert "witness_lacks_commit" not in dict(details(witness))


def test_a_partition_without_commits_is_at_offset_0_and_its_coordinator_must_say_so() -> None:
    witness = of_batches("committed")
    witness.commits[:] = [row for row in witness.commits if row["partition"] != 1]
    witness.positions[1] |= {"position": 0, "removed": 1}
    assert details(witness) == []
    del witness.positions[1]
    witness.positions[0]["removed"] = 1
    silent = "the last commit of partition 1 is 0, and its coordinator answers -1"
    assert details(witness) == [("witness_disagrees", silent)]


def test_every_arm_with_an_application_is_compared_with_the_ends_of_its_own_topic() -> None:
    scenario = applied_by("at_handover")
    others = [msgspec.structs.replace(arm, application=None) for arm in scenario.loaded if arm.name != SUBJECT]
    scenario = msgspec.structs.replace(scenario, arms=[*others, scenario.arm(SUBJECT), scenario.canary])
    witness = of_batches("")
    witness.journal.remove(event("closed"))
    witness.commits[1]["offset"] = witness.positions[0]["position"] = 403
    for ends, names in ((402, [STRANGER]), (403, [])):
        of_all = {
            (arm.name, part): ends if arm.name == SUBJECT else 805 - ends
            for arm in scenario.loaded
            for part in range(3)
        }
        assert [name for _, name, _ in differences(scenario, witness, of_all, is_rewound=False)] == names


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
    assert _Sendable(application("at_handover"), journal, ends, is_rewound=False).has(partition, offset) is sent


def test_of_a_partition_whose_end_nobody_knows_a_timer_may_commit_offset_0_alone() -> None:
    sendable = _Sendable(application("at_handover"), OF_ONE_PARTITION, {}, is_rewound=False)
    assert [sendable.has(1, offset) for offset in (0, 1)] == [True, False]


def test_a_commit_without_an_offset_is_sent_by_nobody() -> None:
    sendable = _Sendable(application("at_handover"), OF_ONE_PARTITION, {0: 402}, is_rewound=True)
    assert not sendable.has(0, None) and sendable.has(0, 0)
