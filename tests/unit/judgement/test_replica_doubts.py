"""Tests of the doubts about replicas. Whatever was not read or differs forbids HELD, and leaves VIOLATED."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.evidence import CANARY_ARM, RUN, SUBJECT, arm, doubts, evidence_of, judged, lost, replicas

from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.model.verdict import RunVerdict

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
