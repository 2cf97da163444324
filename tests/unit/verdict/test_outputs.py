"""Tests of output topics in the judgement: what the cluster has lost of them, or may have lost, is no fault of the
application, whatever is missing or double."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from support.applications import application, applied
from support.evidence import SUBJECT, WEAK, a_scenario, arm, doubts, evidence_of, judged, setting, with_arm
from support.run_builder import RunBuilder

from delivery_verifier.model.application import output_topic
from delivery_verifier.model.history import Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.group_log import read_outputs
from delivery_verifier.run_directory.group_log_tables import OUTPUTS
from delivery_verifier.run_directory.run_directory import IncompleteRun
from delivery_verifier.run_directory.table import arrow_schema
from delivery_verifier.verdict.outputs import output_doubts

OF_TOPIC = replace(application("own"), effects="topic")
SCENARIO = with_arm(a_scenario(fault="none"), SUBJECT, application=OF_TOPIC)
OUTPUT = output_topic(SCENARIO.arm(SUBJECT).topic_name)
SKIPPED = setting("counts/producers.parquet", "skipped", 1, arm=SUBJECT, producer=0, partition=0)
Row = dict[str, Any]


def row(partition: int, **more: Any) -> Row:
    known = {"arm": SUBJECT, "partition": partition, "leader": 1, "leader_epoch": 0, "start": 0, "end": 402}
    return known | {"watermark": None, "epoch": None, "kept_until": None, "held_back": None} | more


def led(leader: int, epoch: int, isr: list[int], partition: int = 0) -> Observation:
    return Observation(
        at_us=1, kind="partition", topic=OUTPUT, partition=partition, leader=leader, leader_epoch=epoch, isr=isr
    )


WHOLE = [led(1, 0, [1, 2, 3], partition) for partition in range(3)]


def judged_with(
    rows: list[Row], watched: list[Observation], scenario: Scenario = SCENARIO, change: Callable[..., None] = SKIPPED
) -> tuple[str, set[str]]:
    """Returns the verdict on the subject, and the names of its checker doubts about its output topic."""
    evidence = evidence_of(scenario, change=change, outputs=rows)
    evidence.observations[:0] = watched
    verdict = judged(evidence)
    names = {name for kind, name in doubts(verdict, SUBJECT) if kind == "checker" and name.startswith("output_")}
    return arm(verdict, SUBJECT).verdict, names


def test_what_is_missing_in_an_output_topic_that_is_whole_was_skipped() -> None:
    clean = [led(2, 1, [2, 3]), led(2, 1, [1, 2, 3]), led(-1, 2, [2]), led(2, 3, [2])]
    assert judged_with([row(0), row(1), row(2)], WHOLE) == ("VIOLATED", set())
    moved = [row(0, leader=2, leader_epoch=3), row(1), row(2)]
    assert judged_with(moved, [*WHOLE, *clean]) == ("VIOLATED", set())


CUT_OFF: dict[str, Row] = {
    "records were deleted": row(0, start=1),
    "a watermark fell": row(0, watermark=402, epoch=0, kept_until=401),
}
UNPROVEN: dict[str, tuple[list[Row], list[Observation]]] = {
    "an unclean election": ([row(0, leader=3, leader_epoch=1)], [*WHOLE, led(1, 0, [1, 2]), led(3, 1, [3])]),
    "an election that nobody saw": ([row(0, leader_epoch=2)], [*WHOLE, led(1, 2, [1, 2, 3])]),
    "a last leader that nobody saw": ([row(0, leader=2, leader_epoch=1)], WHOLE),
    "a partition that nobody watched": ([row(0)], WHOLE[1:]),
    "a partition at which nobody looked": ([], WHOLE),
}


@pytest.mark.parametrize("change", [SKIPPED, lambda _: None])
@pytest.mark.parametrize("sign", CUT_OFF)
def test_what_the_cluster_has_lost_convicts_and_acquits_nobody(sign: str, change: Callable[..., None]) -> None:
    assert judged_with([CUT_OFF[sign], row(1), row(2)], WHOLE, change=change) == ("INCONCLUSIVE", {"output_cut_off"})


@pytest.mark.parametrize("change", [SKIPPED, lambda _: None])
def test_what_stands_behind_an_open_transaction_convicts_and_acquits_nobody(change: Callable[..., None]) -> None:
    rows = [row(0), row(1, held_back="a transaction stays open: producer id 7"), row(2)]
    assert judged_with(rows, WHOLE, change=change) == ("INCONCLUSIVE", {"output_held_back"})
    evidence = evidence_of(SCENARIO, outputs=rows)
    evidence.observations[:0] = WHOLE
    ((_, _, detail),) = output_doubts(evidence)
    assert detail == f"{SUBJECT}: partition 1 of its output topic: a transaction stays open: producer id 7"


@pytest.mark.parametrize("sign", UNPROVEN)
def test_what_the_cluster_may_have_lost_convicts_nobody(sign: str) -> None:
    rows, watched = UNPROVEN[sign]
    assert judged_with([*rows, row(1), row(2)], watched) == ("INCONCLUSIVE", {"output_unproven"})


def test_the_output_topics_of_transforms_are_looked_at_too_and_other_sinks_are_not() -> None:
    transform = with_arm(SCENARIO, SUBJECT, application=application("transform"))
    assert judged_with([CUT_OFF["a watermark fell"], row(1), row(2)], WHOLE, transform)[1] == {"output_cut_off"}
    slots = applied(a_scenario(fault="none"))
    assert list(output_doubts(evidence_of(slots, outputs=[]))) == []


def test_an_output_topic_concerns_its_own_arm_alone() -> None:
    both = with_arm(SCENARIO, WEAK, application=OF_TOPIC)
    evidence = evidence_of(both, outputs=[CUT_OFF["a watermark fell"], row(1), row(2)])
    evidence.observations[:0] = WHOLE
    found = list(output_doubts(evidence))
    assert {(name, doubt) for name, doubt, _ in found} == {(SUBJECT, "output_cut_off"), (WEAK, "output_unproven")}
    assert "had the high watermark 402 in leader epoch 0, and this epoch now ends at offset 401" in found[0][2]


def test_a_doubt_names_the_partition_and_what_the_observer_saw_last() -> None:
    _, watched = UNPROVEN["an unclean election"]
    evidence = evidence_of(SCENARIO, outputs=[row(0, leader=2, leader_epoch=7), row(1), row(2)])
    evidence.observations[:0] = watched
    details = [detail.split(" its output topic ")[1] for _, _, detail in output_doubts(evidence)]
    assert len(details) == 2 and details[0].startswith("may have had an unclean election: ")
    assert (
        details[1]
        == "is led by broker 2 in epoch 7, and the observer last saw broker 3 in epoch 1: it missed an election"
    )


def test_an_arm_without_an_output_topic_hides_no_other_arm() -> None:
    plain, own = (arm for arm in SCENARIO.loaded if arm.name in (WEAK, SUBJECT))
    plain, own = (plain, own) if own.name == SUBJECT else (own, plain)
    for arms in ([plain, own], [own, plain]):
        scenario = replace(SCENARIO, arms=[*arms, SCENARIO.canary])
        found = list(output_doubts(evidence_of(scenario, outputs=[])))
        assert {name for name, *_ in found} == {SUBJECT}


def test_the_table_of_output_topics_is_read_back_and_a_run_that_lacks_it_has_no_verdict(tmp_path: Path) -> None:
    run = RunBuilder(SCENARIO).at(tmp_path)
    with run.writing("settle") as output:
        output.write_table(OUTPUTS.name, pa.Table.from_pylist([row(0)], arrow_schema(OUTPUTS)))
    assert read_outputs(run) == [dict.fromkeys(OUTPUTS.column_names) | row(0)]
    (tmp_path / OUTPUTS.file).unlink()
    with pytest.raises(IncompleteRun, match=r"group_log/outputs\.parquet is missing"):
        read_outputs(run)
