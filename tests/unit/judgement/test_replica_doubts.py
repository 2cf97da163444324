"""Tests of the doubts about replicas. Whatever was not read or differs forbids HELD, and leaves VIOLATED."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.evidence import CANARY_ARM, RUN, SUBJECT, arm, beat, beats, doubts, evidence_of, judged, lost, replicas
from support.older_runs import NAMES, older_run, stored_judgement

from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.model.history import TRANSACTION_STATE, Observation, read_observations, read_offsets
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pages.doubts import ADVICE
from delivery_verifier.store.replicas import REPLICAS
from delivery_verifier.store.run_directory import RunDirectory
from delivery_verifier.store.table import arrow_schema
from delivery_verifier.store.tables import FORMAT_VERSION

SNAPSHOT = evidence_of(RUN).offsets.partitions
LEADERS = {(part.arm, part.partition): part.leader for part in SNAPSHOT}
UNREAD: dict[str, Any] = dict.fromkeys(("digest", "read_until", "batches", "epochs", "epoch_starts"))


def verdict(changes: dict[str, dict[str, Any]] | None = None, **more: Any) -> RunVerdict:
    return judged(evidence_of(RUN, replicas=replicas(SNAPSHOT, **(changes or {})), **more))


def details(of: RunVerdict, name: str, of_arm: str = SUBJECT) -> list[str]:
    return [doubt.detail for doubt in arm(of, of_arm).doubts if doubt.name == name]


def follower(partition: int, of_arm: str = SUBJECT) -> str:
    leader = LEADERS[of_arm, partition]
    return f"{of_arm}/{partition}/{leader % 3 + 1}"


def test_replicas_that_agree_raise_no_doubt() -> None:
    assert arm(verdict()).verdict == "HELD" and verdict().green


def test_a_follower_that_differs_forbids_held_and_is_named_with_its_offsets() -> None:
    changed = {"digest": "other", "differs_from": 5, "differs_until": 9, "detail": "it has a batch"}
    said = verdict({follower(1): changed})
    leader = LEADERS[SUBJECT, 1]
    assert (arm(said).verdict, said.green) == ("INCONCLUSIVE", False)
    assert doubts(said) == {("coverage", "replicas_differ")}
    assert details(said, "replicas_differ") == [
        f"DIVERGED: {SUBJECT}/1: the log of broker {leader % 3 + 1} differs from that of the leader, broker {leader}, "
        "at offsets 5 to 8: it has a batch"
    ]
    assert "at offsets 5 to 8: it has a batch" in arm(said).sentence
    assert doubts(said, "control-acks_0") == set()


def test_a_difference_that_was_not_located_is_a_difference() -> None:
    said = verdict({follower(1): {"digest": "other", "detail": "a second reading showed no difference"}})
    assert doubts(said) == {("coverage", "replicas_differ")}


UNSOUND: dict[str, tuple[str, dict[str, Any], str]] = {
    "a follower": (follower(0), UNREAD | {"detail": "timed out"}, "was not read: timed out"),
    "the leader": (f"{SUBJECT}/0/{LEADERS[SUBJECT, 0]}", UNREAD | {"detail": "timed out"}, "was not read: timed out"),
    "a leader cut short": (f"{SUBJECT}/0/{LEADERS[SUBJECT, 0]}", {"read_until": 399}, "read until 399, must be 400"),
    "fewer replicas": (follower(0), {"broker": LEADERS[SUBJECT, 0]}, "only 2 of 3 replicas are known"),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_a_replica_that_was_not_read_forbids_held(name: str) -> None:
    at, changes, detail = UNSOUND[name]
    said = verdict({at: changes})
    assert arm(said).verdict == "INCONCLUSIVE"
    assert doubts(said) == {("coverage", "replica_not_read")}
    assert any(detail in text for text in details(said, "replica_not_read"))


def test_a_table_without_rows_forbids_held() -> None:
    said = judged(evidence_of(RUN, replicas=pa.table({})))
    assert doubts(said) == {("coverage", "replica_not_read")}
    assert details(said, "replica_not_read")[0] == f"{SUBJECT}/0: only 0 of 3 replicas are known"


def test_a_proven_loss_stays_proven_whatever_the_replicas_hold() -> None:
    table = replicas(SNAPSHOT, **{follower(1): {"digest": "other"}, follower(0): UNREAD | {"detail": "gone"}})
    said = judged(evidence_of(RUN, lost(1), replicas=table))
    assert arm(said).verdict == "VIOLATED"
    assert doubts(said) == {("coverage", "replicas_differ"), ("coverage", "replica_not_read")}


def test_a_difference_in_the_canarys_topic_is_a_doubt_of_the_canary_alone() -> None:
    said = verdict({follower(2, CANARY_ARM): {"digest": "other"}})
    assert doubts(said, CANARY_ARM) == {("coverage", "replicas_differ")} and doubts(said) == set()
    assert (arm(said).verdict, arm(said, CANARY_ARM).verdict, said.green) == ("HELD", "INCONCLUSIVE", False)


def test_there_is_advice_for_both_doubts() -> None:
    assert {"replicas_differ", "replica_not_read"} <= set(ADVICE)


def settled_anew(tmp_path: Path, table: pa.Table | None) -> RunDirectory:
    """Returns a stored run, HELD, whose step settle was sealed by this version, with `table` as its replicas."""
    run = older_run(NAMES[0], tmp_path)
    with run.writing("settle") as output:
        for name in run.manifest("settle").files:
            (output.staging / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run.path / name, output.staging / name)
        output.counts |= run.manifest("settle").counts
        output.write_json("observations.json", msgspec.to_builtins(with_heartbeats(run)))
        if table is not None:
            output.write_table("replicas", table)
    for step in ("reconcile", "validate"):  # they may not be older than what they rest on
        manifest = json.loads((run.path / f"{step}.json").read_bytes()) | {"format_version": FORMAT_VERSION}
        (run.path / f"{step}.json").write_text(json.dumps(manifest))
    return run


def with_heartbeats(run: RunDirectory) -> list[Observation]:
    """Returns the observations of the run, and those that a run of this version has besides.

    These are the heartbeats, one per second, and a state of the coordinators' topic.
    """
    seen = read_observations((run.path / "observations.json").read_bytes())
    end_us = read_offsets((run.path / "offsets.json").read_bytes()).taken_at_us
    begin_us = min(observation.at_us for observation in seen)
    known = [*seen, *beats(begin_us, end_us), beat(end_us)]
    coordinators = next(observation for observation in seen if observation.kind == "partition")
    coordinators = msgspec.structs.replace(coordinators, topic=TRANSACTION_STATE)
    return sorted([coordinators, *known], key=lambda observation: observation.at_us)


def test_an_older_run_is_judged_as_before_and_a_run_of_this_format_without_the_table_is_not_held(
    tmp_path: Path,
) -> None:
    run = older_run(NAMES[0], tmp_path / "older")
    assert json.loads((run.path / "settle.json").read_bytes()).get("format_version", 1) < REPLICAS.since
    assert load_and_judge(run.path).verdict == stored_judgement(NAMES[0])["verdict"] == "HELD"
    bare = load_and_judge(settled_anew(tmp_path / "bare", None).path)
    assert bare.verdict == "INCONCLUSIVE"
    of_subjects = [item for item in bare.arms if item.role == "subject"]
    assert {doubt.name for item in of_subjects for doubt in item.doubts} == {"replica_not_read"}, of_subjects


def test_a_run_of_this_format_is_held_with_its_table_and_not_with_one_that_differs(tmp_path: Path) -> None:
    run = older_run(NAMES[0], tmp_path / "older")
    parts = json.loads((run.path / "offsets.json").read_bytes())["partitions"]
    rows = [
        {"arm": part["arm"], "partition": part["partition"], "broker": broker, "digest": "d", "read_until": part["end"]}
        for part in parts
        for broker in (1, 2, 3)
    ]
    whole = pa.Table.from_pylist(rows, schema=arrow_schema(REPLICAS))
    assert load_and_judge(settled_anew(tmp_path / "whole", whole).path).verdict == "HELD"
    digests = pc.if_else(pc.equal(whole["broker"], 3), "other", whole["digest"])
    differing = whole.set_column(whole.column_names.index("digest"), "digest", digests)
    assert load_and_judge(settled_anew(tmp_path / "differing", differing).path).verdict == "INCONCLUSIVE"
